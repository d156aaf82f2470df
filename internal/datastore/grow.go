package datastore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

// grow adds members, one at a time, until there are as many as there should be. A new one has no vote until it has caught
// up, so that adding it never costs the others their quorum. It is called again and again, and continues where it was.
func (s *server) grow(ctx context.Context, client *clientv3.Client) error {
	wanted, err := s.wantedReplicas(ctx)
	if err != nil {
		return err
	}
	list, err := client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	for _, member := range list.Members {
		if !member.IsLearner || member.Name == "" {
			continue
		}
		err := etcd.Promote(ctx, client, member.PeerURLs[0])
		if etcd.Busy(err) {
			return fmt.Errorf("%w: %s is catching up", ErrNotReady, member.Name)
		}
		return err // the next round adds the next
	}
	set, err := s.statefulSet(ctx)
	if err != nil || set == nil {
		return err
	}
	running := replicasOf(set)
	if running >= wanted || len(list.Members) > running {
		return nil
	}
	if set.Status.ReadyReplicas < int32(running) || set.Status.UpdatedReplicas < int32(running) {
		return nil // one thing at a time
	}
	return s.addMember(ctx, client, running, classOf(set))
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
