package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrQuorum refuses a removal after which those that answer would be no majority.
var ErrQuorum = errors.New("quorum would be lost")

// probePatience is how long a member has to answer.
const probePatience = 3 * time.Second

// MemberStatus is a member of the cluster as it is now.
type MemberStatus struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	PeerURL string `json:"peerURL"`
	// Learner has no vote yet.
	Learner bool `json:"learner,omitempty"`
	// Healthy is a member that answers, and knows a leader.
	Healthy bool   `json:"healthy"`
	Leader  bool   `json:"leader,omitempty"`
	Error   string `json:"error,omitempty"`

	id uint64
}

// Members lists the members, ordered by name, and asks each how it is.
func Members(ctx context.Context, client *clientv3.Client) ([]MemberStatus, error) {
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list etcd members: %w", err)
	}
	members := make([]MemberStatus, len(list.Members))
	var asking sync.WaitGroup
	for i, member := range list.Members {
		asking.Go(func() { members[i] = ask(ctx, client, member) })
	}
	asking.Wait()
	slices.SortFunc(members, func(a, b MemberStatus) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

func ask(ctx context.Context, client *clientv3.Client, member *etcdserverpb.Member) MemberStatus {
	status := MemberStatus{Name: member.Name, ID: fmt.Sprintf("%x", member.ID), Learner: member.IsLearner, id: member.ID}
	if len(member.PeerURLs) > 0 {
		status.PeerURL = member.PeerURLs[0]
	}
	if len(member.ClientURLs) == 0 {
		status.Error = "it has not started yet"
		return status
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	answer, err := client.Status(ctx, member.ClientURLs[0])
	switch {
	case err != nil:
		status.Error = err.Error()
	case answer.Leader == 0:
		status.Error = "it knows no leader"
	default:
		status.Healthy, status.Leader = true, answer.Leader == member.ID
	}
	return status
}

// Remove takes the members out whose names chosen picks, one after the other. None is no error. A removal after which
// the members that are well would be no majority is ErrQuorum, unless force is set, which the cluster may still refuse.
func Remove(ctx context.Context, client *clientv3.Client, chosen func(name string) bool, force bool) (removed []string, err error) {
	for {
		members, err := Members(ctx, client)
		if err != nil {
			return removed, err
		}
		i := slices.IndexFunc(members, func(m MemberStatus) bool { return chosen(m.Name) })
		if i < 0 {
			return removed, nil
		}
		if err := leavesMajority(members, i); err != nil && !force {
			return removed, err
		}
		if _, err := client.MemberRemove(ctx, members[i].id); err != nil {
			return removed, fmt.Errorf("remove etcd member %s: %w", members[i].Name, err)
		}
		removed = append(removed, members[i].Name)
	}
}

// leavesMajority judges the members without one of them.
func leavesMajority(members []MemberStatus, without int) error {
	voters, well := 0, 0
	for i, member := range members {
		if i == without || member.Learner {
			continue
		}
		voters++
		if member.Healthy {
			well++
		}
	}
	if well*2 > voters {
		return nil
	}
	return fmt.Errorf("remove etcd member %s: %w: of the %d members left %d would be well, and more than half of them are needed",
		members[without].Name, ErrQuorum, voters, well)
}
