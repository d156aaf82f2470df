package nodegroup

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
)

// health is how a machine fares, the worst first: in this order machines go.
type health int

const (
	broken   health = iota // it is to be replaced
	unmade                 // its node was never ready, and there is nothing wrong with that yet
	notReady               // its node was ready, and is not now
	ready
)

// member is a machine of the group that is not being deleted.
type member struct {
	name    string
	age     time.Time // when it was made
	updated bool      // it fits the group's description as it is now
	health  health
	// stuck tells of an unmade machine that nobody makes at the moment: the provider has no room, or refuses it.
	stuck bool
	// due is when it becomes broken if nothing happens; zero where that cannot be.
	due time.Time
}

// demand is what the group asks for.
type demand struct {
	replicas, surge, unavailable int
	// replaced is how many broken machines may be replaced at once.
	replaced int
}

// plan is what is to be done now.
type plan struct {
	create int
	delete []removal
	// held is how many broken machines have to wait until others are replaced.
	held int
	// again is when it is looked at again though nothing happens; zero for never.
	again time.Time
}

// removal is a machine that goes, and why.
type removal struct{ name, reason string }

// Reasons of removals, as events tell them.
const (
	reasonBroken = "Broken"
	reasonOld    = "OldDescription"
	reasonScaled = "ScaledDown"
	reasonGroup  = "GroupDeleted"
)

func (p *plan) idle() bool { return p.create == 0 && len(p.delete) == 0 }

// demandOf reads a group. Both percentages are of the replicas; surge is rounded up, unavailable down.
func demandOf(spec *v1alpha1.NodeGroupSpec, share int) demand {
	template := &spec.Template
	d := demand{replicas: int(min(max(spec.Replicas, template.MinReplicas), template.MaxReplicas))}
	number := func(value *intstr.IntOrString, fallback int, up bool) int {
		if value == nil {
			return fallback
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(value, d.replicas, up)
		if err != nil {
			return fallback // cannot be: the schema says what it looks like
		}
		return n
	}
	d.surge = number(template.RollingUpdate.MaxSurge, 1, true)
	d.unavailable = number(template.RollingUpdate.MaxUnavailable, 0, false)
	if d.surge+d.unavailable == 0 {
		d.surge = 1 // a percentage of few; none could ever be replaced
	}
	d.replaced = max(1, d.replicas*share/100)
	return d
}

// judge tells how a machine fares.
func judge(m *v1alpha1.Machine, hash string, limits Limits, now time.Time) member {
	result := member{name: m.Name, age: m.CreationTimestamp.Time, updated: m.Spec.TemplateHash == hash, health: unmade}
	joined := machine.Joined(m)
	if joined {
		result.health = notReady
	}
	condition := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil {
		return result
	}
	switch {
	case condition.Status == metav1.ConditionTrue:
		result.health = ready
	case condition.Status == metav1.ConditionUnknown:
		result.stuck = condition.Reason == machine.ReasonNoCapacity || condition.Reason == machine.ReasonInvalid
	case condition.Reason == machine.ReasonLost && joined, condition.Reason == machine.ReasonFailed && joined:
		result.due = condition.LastTransitionTime.Time
	case condition.Reason == machine.ReasonLost, condition.Reason == machine.ReasonFailed:
		result.due = m.CreationTimestamp.Add(limits.Retry)
	case joined:
		result.due = condition.LastTransitionTime.Add(limits.NotReady)
	default:
		result.due = condition.LastTransitionTime.Add(limits.Creation)
	}
	if !result.due.IsZero() && !now.Before(result.due) {
		result.health, result.due = broken, time.Time{}
	}
	return result
}

// decide makes the plan. It never has more than replicas+surge machines, and takes none that is ready away where fewer
// than replicas-unavailable would be left.
func decide(d demand, members []member) plan {
	slices.SortFunc(members, firstToGo)
	var p plan
	members = replaceBroken(d, members, &p)
	members = replaceOld(d, members, &p)
	members = scaleDown(d, members, &p)
	scaleUp(d, members, &p)
	for _, m := range members {
		if !m.due.IsZero() && (p.again.IsZero() || m.due.Before(p.again)) {
			p.again = m.due
		}
	}
	return p
}

// firstToGo orders machines: the unhealthy first, then those of an older description, then the oldest.
func firstToGo(a, b member) int {
	older := func(m member) int {
		if m.updated {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.health, b.health), cmp.Compare(older(a), older(b)), a.age.Compare(b.age), cmp.Compare(a.name, b.name))
}

// replaceBroken gives up broken machines, as many as may be replaced at once; those that are being made in place of
// others count.
func replaceBroken(d demand, members []member, p *plan) []member {
	allowed := d.replaced
	for _, m := range members {
		if m.health == unmade && !m.stuck {
			allowed--
		}
	}
	return slices.DeleteFunc(members, func(m member) bool {
		switch {
		case m.health != broken:
			return false
		case allowed <= 0:
			p.held++
			return false
		}
		allowed--
		p.delete = append(p.delete, removal{m.name, reasonBroken})
		return true
	})
}

// replaceOld gives up machines of an older description, for as long as enough others are ready.
func replaceOld(d demand, members []member, p *plan) []member {
	available := count(members, func(m member) bool { return m.health == ready })
	least := d.replicas - d.unavailable
	return slices.DeleteFunc(members, func(m member) bool {
		var goes bool
		switch {
		case m.updated || m.health == broken:
		case m.health == unmade:
			goes = true // nobody will miss it
		case m.health == notReady:
			goes = available >= least
		case m.health == ready:
			if goes = available > least; goes {
				available--
			}
		}
		if goes {
			p.delete = append(p.delete, removal{m.name, reasonOld})
		}
		return goes
	})
}

// scaleDown gives up what is too much. While machines of an older description are there, replaceOld sees to them, and
// some more than asked for are allowed.
func scaleDown(d demand, members []member, p *plan) []member {
	most := d.replicas
	if count(members, func(m member) bool { return !m.updated }) > 0 {
		most += d.surge
	}
	surplus := max(0, len(members)-most)
	for _, m := range members[:surplus] {
		p.delete = append(p.delete, removal{m.name, reasonScaled})
		if m.health == broken {
			p.held--
		}
	}
	return members[surplus:]
}

// scaleUp makes what is missing.
func scaleUp(d demand, members []member, p *plan) {
	updated := count(members, func(m member) bool { return m.updated })
	most := d.replicas
	if updated < len(members) {
		most += d.surge
	}
	p.create = max(0, min(d.replicas-updated, most-len(members)))
}

func count(members []member, which func(member) bool) int {
	n := 0
	for _, m := range members {
		if which(m) {
			n++
		}
	}
	return n
}
