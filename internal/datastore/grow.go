package datastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

// mend brings the members to what they should be. It does one thing at a time, and ErrNotReady says that there is more to
// do: it is called again and again, and continues where it was.
func (s *server) mend(ctx context.Context) error {
	client, signer, err := s.open(ctx)
	if err != nil {
		return err
	}
	all, err := states(ctx, client)
	if err != nil {
		return err
	}
	if err := s.promote(ctx, signer, all); err != nil {
		return err
	}
	set, err := s.statefulSet(ctx)
	if err != nil || set == nil {
		return err
	}
	if lost, err := s.lostMember(ctx, all); err != nil || lost != "" {
		return errors.Join(err, s.replace(ctx, client, lost))
	}
	wanted, err := s.wantedReplicas(ctx)
	if err != nil {
		return err
	}
	running := replicasOf(set)
	if running >= wanted {
		return nil
	}
	if len(all) > running || set.Status.ReadyReplicas < int32(running) || set.Status.UpdatedReplicas < int32(running) {
		return fmt.Errorf("%w: not all of its %d members are ready for another", ErrNotReady, running)
	}
	return s.addMember(ctx, client, running, classOf(set))
}

// promote gives a member its vote, once it has caught up. The leader has to be asked itself: what other members pass on to
// it in this matter, it takes for a stranger's.
func (s *server) promote(ctx context.Context, signer *authority, all []memberState) error {
	i := slices.IndexFunc(all, func(m memberState) bool { return m.learner })
	if i < 0 {
		return nil
	}
	if all[i].name == "" {
		return fmt.Errorf("%w: a new member is starting", ErrNotReady)
	}
	leads := slices.IndexFunc(all, func(m memberState) bool { return m.leader })
	if leads < 0 {
		return fmt.Errorf("%w: it has no leader", ErrNotReady)
	}
	leader, err := s.dialRoot(signer, all[leads].endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = leader.Close() }()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err = etcd.Promote(ctx, leader, s.peerURL(all[i].name))
	if etcd.Busy(err) {
		return fmt.Errorf("%w: %s is catching up", ErrNotReady, all[i].name)
	}
	if err == nil {
		s.config.Logger.InfoContext(ctx, "member has joined the datastore", "namespace", s.config.Namespace, "member", all[i].name)
	}
	return err
}

// addMember makes room for a member, tells it who the others are, and starts it. It has no vote until it has caught up, so
// that adding it never costs the others their quorum.
func (s *server) addMember(ctx context.Context, client *clientv3.Client, ordinal int, class string) error {
	member := s.memberName(ordinal)
	if err := s.join(ctx, client, member); err != nil {
		return err
	}
	authorities, err := s.authorities(ctx)
	if err != nil {
		return err
	}
	if err := s.applySet(ctx, authorities, ordinal+1, class); err != nil {
		return err
	}
	s.config.Logger.InfoContext(ctx, "member added to the datastore", "namespace", s.config.Namespace, "member", member)
	return fmt.Errorf("%w: %s is joining", ErrNotReady, member)
}

func (s *server) join(ctx context.Context, client *clientv3.Client, member string) error {
	initial, err := etcd.Join(ctx, client, member, s.peerURL(member))
	if err != nil {
		return err
	}
	var known []string
	for other, url := range initial {
		known = append(known, other+"="+url)
	}
	slices.Sort(known)
	configs := s.config.API.CoreV1().ConfigMaps(s.config.Namespace)
	config, err := configs.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	config.Data = map[string]string{initialClusterKey: strings.Join(known, ","), initialStateKey: "existing"}
	_, err = configs.Update(ctx, config, metav1.UpdateOptions{})
	return err
}

// lostMember is a member whose data were on a node that is no more, or "". One that is merely away will be back.
func (s *server) lostMember(ctx context.Context, all []memberState) (string, error) {
	volumes, err := s.ownVolumes(ctx)
	if err != nil {
		return "", err
	}
	nodes, err := s.config.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	for _, volume := range volumes {
		on := func(node corev1.Node) bool { return hostNameOf(&node) == hostOf(&volume) }
		if volume.DeletionTimestamp != nil || volume.Spec.ClaimRef == nil || slices.ContainsFunc(nodes.Items, on) {
			continue
		}
		member := strings.TrimPrefix(volume.Spec.ClaimRef.Name, "data-")
		others := slices.DeleteFunc(slices.Clone(all), func(m memberState) bool { return m.name == member || m.name == "" })
		well := !slices.ContainsFunc(others, func(m memberState) bool { return m.problem != nil || m.learner })
		if len(others) < 2 || !well {
			s.config.Logger.ErrorContext(ctx, "a member of the datastore is lost, and there are too few others to replace it", "namespace", s.config.Namespace, "member", member)
			continue
		}
		return member, nil
	}
	return "", nil
}

// replace lets a new member take the place of a lost one, on another node: the volume is made anew by the next install.
func (s *server) replace(ctx context.Context, client *clientv3.Client, member string) error {
	if member == "" {
		return nil
	}
	s.config.Logger.WarnContext(ctx, "replace a lost member of the datastore", "namespace", s.config.Namespace, "member", member)
	if err := s.join(ctx, client, member); err != nil {
		return err
	}
	volumes, err := s.ownVolumes(ctx)
	if err != nil {
		return err
	}
	core, claim := s.config.API.CoreV1(), "data-"+member
	lost := slices.DeleteFunc(volumes, func(v corev1.PersistentVolume) bool { return v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Name != claim })
	err = errors.Join(
		gone(core.PersistentVolumeClaims(s.config.Namespace).Delete(ctx, claim, metav1.DeleteOptions{})),
		gone(core.Pods(s.config.Namespace).Delete(ctx, member, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})),
		s.removeVolumes(ctx, lost),
	)
	if err != nil {
		return fmt.Errorf("replace %s: %w", member, err)
	}
	return fmt.Errorf("%w: %s is being replaced", ErrNotReady, member)
}
