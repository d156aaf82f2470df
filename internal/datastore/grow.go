package datastore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

// grow adds members, one at a time, until there are as many as there should be. A new one has no vote until it has caught
// up, so that adding it never costs the others their quorum. It is called again and again, and continues where it was.
func (s *server) grow(ctx context.Context, client *clientv3.Client, signer *authority) error {
	wanted, err := s.wantedReplicas(ctx)
	if err != nil {
		return err
	}
	list, err := client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	for _, member := range list.Members {
		if member.IsLearner && member.Name != "" {
			if err := s.promote(ctx, client, signer, member); err != nil {
				return err
			}
		}
	}
	set, err := s.statefulSet(ctx)
	if err != nil || set == nil {
		return err
	}
	running := replicasOf(set)
	if running >= wanted {
		return nil
	}
	if len(list.Members) > running || set.Status.ReadyReplicas < int32(running) || set.Status.UpdatedReplicas < int32(running) {
		return fmt.Errorf("%w: not all of its %d members are ready for another", ErrNotReady, running)
	}
	return s.addMember(ctx, client, running, classOf(set))
}

// promote gives a member its vote, once it has caught up. The leader has to be asked itself: what other members pass on to
// it in this matter, it takes for a stranger's.
func (s *server) promote(ctx context.Context, client *clientv3.Client, signer *authority, member *etcdserverpb.Member) error {
	all, err := states(ctx, client)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(m memberState) bool { return m.leader })
	if i < 0 {
		return fmt.Errorf("%w: it has no leader", ErrNotReady)
	}
	leader, err := s.dialRoot(signer, all[i].endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = leader.Close() }()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err = etcd.Promote(ctx, leader, member.PeerURLs[0])
	if etcd.Busy(err) {
		return fmt.Errorf("%w: %s is catching up", ErrNotReady, member.Name)
	}
	if err == nil {
		s.config.Logger.InfoContext(ctx, "member has joined the datastore", "namespace", s.config.Namespace, "member", member.Name)
	}
	return err
}

// addMember makes room for a member, tells it who the others are, and starts it.
func (s *server) addMember(ctx context.Context, client *clientv3.Client, ordinal int, class string) error {
	member := s.memberName(ordinal)
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
	if _, err := configs.Update(ctx, config, metav1.UpdateOptions{}); err != nil {
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
