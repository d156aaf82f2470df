package usage

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Excess is one thing that would go beyond its bound.
type Excess struct {
	Name                 string // as the quota calls it
	Used, Asked, Allowed resource.Quantity
}

// String tells it as a user should read it.
func (e Excess) String() string {
	return fmt.Sprintf("%s: %s used, %s asked, %s allowed", e.Name, e.Used.String(), e.Asked.String(), e.Allowed.String())
}

// Excesses are several of them.
type Excesses []Excess

// String tells all of them.
func (e Excesses) String() string {
	parts := make([]string, 0, len(e))
	for _, excess := range e {
		parts = append(parts, excess.String())
	}
	return strings.Join(parts, "; ")
}

// amount is one thing that a quota bounds.
type amount struct {
	name  string
	bound *resource.Quantity // nil where there is none
	of    func(Usage) resource.Quantity
}

func amounts(q *v1alpha1.Quota) []amount {
	if q == nil {
		q = &v1alpha1.Quota{}
	}
	return []amount{
		{"clusters", count(q.Clusters), func(u Usage) resource.Quantity { return number(u.Clusters) }},
		{"nodes", count(q.Nodes), func(u Usage) resource.Quantity { return number(u.Nodes) }},
		{"vcpu", q.VCPU, func(u Usage) resource.Quantity { return u.VCPU.DeepCopy() }},
		{"memory", q.Memory, func(u Usage) resource.Quantity { return u.Memory.DeepCopy() }},
		{"volumes", count(q.Volumes), func(u Usage) resource.Quantity { return number(u.Volumes) }},
	}
}

func number(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

func count(n *int32) *resource.Quantity {
	if n == nil {
		return nil
	}
	q := number(int64(*n))
	return &q
}

// Grows tells whether a change from before to after takes more of anything that the quota bounds.
func Grows(q *v1alpha1.Quota, before, after Usage) bool {
	for _, a := range amounts(q) {
		was, will := a.of(before), a.of(after)
		if a.bound != nil && will.Cmp(was) > 0 {
			return true
		}
	}
	return false
}

// Exceeds returns what a change would take beyond the quota. Used is all that is used now, including what changes from
// before to after. What takes no more than before is never refused, even where the quota was lowered below what is used.
func Exceeds(q *v1alpha1.Quota, used, before, after Usage) Excesses {
	var excesses Excesses
	for _, a := range amounts(q) {
		asked, now := a.of(after), a.of(used)
		asked.Sub(a.of(before))
		if a.bound == nil || asked.Sign() <= 0 {
			continue
		}
		total := now.DeepCopy()
		total.Add(asked)
		if total.Cmp(*a.bound) > 0 {
			excesses = append(excesses, Excess{Name: a.name, Used: now, Asked: asked, Allowed: a.bound.DeepCopy()})
		}
	}
	return excesses
}
