package etcd

import (
	"errors"
	"testing"
)

func TestARemovalLeavesAMajorityThatIsWell(t *testing.T) {
	well, ill := MemberStatus{Name: "well", Healthy: true}, MemberStatus{Name: "ill"}
	learner := MemberStatus{Name: "new", Learner: true}
	for _, c := range []struct {
		name    string
		members []MemberStatus
		without int
		refused bool
	}{
		{"a dead one of three", []MemberStatus{well, well, ill}, 2, false},
		{"a living one of three, and the other two live", []MemberStatus{well, well, well}, 0, false},
		{"a living one of three, and one is dead", []MemberStatus{well, well, ill}, 0, true},
		{"a dead one of two", []MemberStatus{well, ill}, 1, false},
		{"the only one", []MemberStatus{well}, 0, true},
		{"a dead one of five, and another is dead", []MemberStatus{well, well, well, ill, ill}, 4, false},
		{"a living one of five, and two are dead", []MemberStatus{well, well, well, ill, ill}, 0, true},
		{"a learner has no vote", []MemberStatus{well, well, learner, ill}, 3, false},
		{"a learner goes", []MemberStatus{well, learner}, 1, false},
	} {
		err := leavesMajority(c.members, c.without)
		if refused := errors.Is(err, ErrQuorum); refused != c.refused || (err != nil && !refused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
