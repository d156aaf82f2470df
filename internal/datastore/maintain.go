package datastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// minGarbage is what a defragmentation has to win: it stops a member for about a second a gigabyte.
	minGarbage = 64 << 20
	// roomShare is the part of the quota, in percent, below which a database has room again.
	roomShare = 90

	statusTimeout = 5 * time.Second
	defragTimeout = 2 * time.Minute
)

// memberState is what one member says of itself.
type memberState struct {
	name, endpoint string
	leader         bool
	learner        bool  // it has no vote yet
	problem        error // it does not answer
	size, used     int64 // of the database
}

// fragmented tells whether more than half of the database is garbage, and much of it.
func (m memberState) fragmented() bool {
	garbage := m.size - m.used
	return m.problem == nil && garbage > minGarbage && garbage > m.size/2
}

// health is what was found and done in one round.
type health struct {
	members      []memberState
	full         bool // etcd takes no more
	defragmented int
	took         time.Duration // the longest of them
}

// states asks every member.
func states(ctx context.Context, client *clientv3.Client) ([]memberState, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	var all []memberState
	for _, member := range list.Members {
		state := memberState{name: member.Name, learner: member.IsLearner}
		if len(member.ClientURLs) == 0 {
			state.problem = errors.New("it has not started")
			all = append(all, state)
			continue
		}
		state.endpoint = member.ClientURLs[0]
		status, err := client.Status(ctx, state.endpoint)
		if err != nil {
			state.problem = err
		} else {
			state.size, state.used = status.DbSize, status.DbSizeInUse
			state.leader = status.Leader == member.ID
		}
		all = append(all, state)
	}
	// The leader last: giving up the lead once is enough.
	slices.SortStableFunc(all, func(a, b memberState) int { return boolInt(a.leader) - boolInt(b.leader) })
	return all, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maintain looks after an etcd once: room is made where it is full, and garbage is given back to the host.
func (s *server) maintain(ctx context.Context, client *clientv3.Client) (health, error) {
	full, err := isFull(ctx, client)
	if err != nil {
		return health{}, err
	}
	found := health{full: full}
	if full {
		// History is what can go. API servers whose watches are behind start them anew.
		if err := compact(ctx, client); err != nil {
			return found, err
		}
	}
	if found.members, err = states(ctx, client); err != nil {
		return found, err
	}
	for i, member := range found.members {
		if !member.fragmented() && (!full || member.problem != nil) {
			continue
		}
		if err := s.defragment(ctx, client, &found, i); err != nil {
			return found, err
		}
	}
	if full {
		found.full, err = s.disarm(ctx, client, found.members)
	}
	return found, err
}

// defragment rewrites one member's database. The others serve meanwhile, so all have to be well.
func (s *server) defragment(ctx context.Context, client *clientv3.Client, found *health, i int) error {
	for _, member := range found.members {
		if member.problem != nil {
			return fmt.Errorf("defragment %s: wait for member %s: %w", found.members[i].name, member.name, member.problem)
		}
	}
	before, began := found.members[i], s.config.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, defragTimeout)
	defer cancel()
	if _, err := client.Defragment(ctx, before.endpoint); err != nil {
		return fmt.Errorf("defragment %s: %w", before.name, err)
	}
	took := s.config.Clock.Since(began)
	status, err := client.Status(ctx, before.endpoint)
	if err != nil {
		return fmt.Errorf("defragment %s: %w", before.name, err)
	}
	found.members[i].size, found.members[i].used = status.DbSize, status.DbSizeInUse
	found.defragmented++
	found.took = max(found.took, took)
	s.config.Logger.InfoContext(ctx, "datastore defragmented", "namespace", s.config.Namespace, "member", before.name,
		"before", before.size, "after", status.DbSize, "took", took)
	return nil
}

func isFull(ctx context.Context, client *clientv3.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("list alarms: %w", err)
	}
	return slices.ContainsFunc(alarms.Alarms, func(a *etcdserverpb.AlarmMember) bool { return a.Alarm == etcdserverpb.AlarmType_NOSPACE }), nil
}

// compact forgets history up to now, and waits until it is gone from the database.
func compact(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, defragTimeout)
	defer cancel()
	now, err := client.Get(ctx, prefixes, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the revision: %w", err)
	}
	if _, err := client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !alreadyCompacted(err) {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// disarm lets an etcd take data again, if there is room in all its members.
func (s *server) disarm(ctx context.Context, client *clientv3.Client, all []memberState) (full bool, err error) {
	room := s.config.Size.Quota.Value() / 100 * roomShare
	for _, member := range all {
		if member.problem != nil || member.size >= room {
			return true, nil
		}
	}
	// An empty request is etcd's way to mean every alarm.
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return true, fmt.Errorf("disarm alarm: %w", err)
	}
	return false, nil
}
