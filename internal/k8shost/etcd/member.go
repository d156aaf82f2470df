package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Join makes room in the cluster for a new member and returns every member's peer URL by name, the new one's
// included. The new member begins as a learner: it has no vote until it has caught up, so that adding it can never
// cost the cluster its quorum. A former member at the same address, which lost its data, is removed first. Join may
// be repeated after a crash.
func Join(ctx context.Context, client *clientv3.Client, name, peerURL string) (map[string]string, error) {
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list etcd members: %w", err)
	}
	for _, member := range list.Members {
		if slices.Contains(member.PeerURLs, peerURL) {
			if _, err := client.MemberRemove(ctx, member.ID); err != nil {
				return nil, fmt.Errorf("remove former etcd member %s: %w", member.Name, err)
			}
		}
	}
	added, err := client.MemberAddAsLearner(ctx, []string{peerURL})
	if err != nil {
		return nil, fmt.Errorf("add etcd member: %w", err)
	}
	initial := map[string]string{}
	for _, member := range added.Members {
		memberName := member.Name
		if member.ID == added.Member.ID {
			memberName = name
		}
		if memberName == "" || len(member.PeerURLs) == 0 {
			return nil, fmt.Errorf("another server is just joining: etcd member %x has not started yet", member.ID)
		}
		initial[memberName] = member.PeerURLs[0]
	}
	return initial, nil
}

// Busy tells whether an error of Join or Promote goes away by itself.
func Busy(err error) bool {
	return errors.Is(err, rpctypes.ErrTooManyLearners) || errors.Is(err, rpctypes.ErrMemberLearnerNotReady) || errors.Is(err, rpctypes.ErrUnhealthy)
}

// Promote makes the member at peerURL a full one. It is no error if it is one already.
func Promote(ctx context.Context, client *clientv3.Client, peerURL string) error {
	list, err := client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("list etcd members: %w", err)
	}
	for _, member := range list.Members {
		if !slices.Contains(member.PeerURLs, peerURL) {
			continue
		}
		if !member.IsLearner {
			return nil
		}
		if _, err := client.MemberPromote(ctx, member.ID); err != nil {
			return fmt.Errorf("become a full etcd member: %w", err)
		}
		return nil
	}
	return errNoMember
}
