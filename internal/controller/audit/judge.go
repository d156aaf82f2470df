package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Limits are when clusters are looked at, and when and how often they are repaired.
type Limits struct {
	// Interval between audits of a cluster, and Thorough between thorough ones.
	Interval, Thorough time.Duration
	// Grace is how long something that may pass by itself has to last before anything is done.
	Grace time.Duration
	// Attempts is how many automatic repairs are begun before a person is asked.
	Attempts int
	// First is how long after a repair that did not help the next one begins. Each further one waits twice as long, at
	// most Longest.
	First, Longest time.Duration
	// Quiet is how long a cluster has to go without a repair for earlier ones not to count.
	Quiet time.Duration
}

// DefaultLimits are for those who have no wishes.
func DefaultLimits() Limits {
	return Limits{
		Interval: 5 * time.Minute, Thorough: time.Hour, Grace: time.Minute,
		Attempts: 5, First: 30 * time.Second, Longest: 15 * time.Minute, Quiet: time.Hour,
	}
}

// The checks. Those of a type may have others.
const (
	CheckAPI           = "api"
	CheckComponents    = "components"
	CheckNodes         = "nodes"
	CheckMachines      = "machines" // what is lost for good
	CheckHosts         = "hosts"    // machines that do not answer
	CheckCertificates  = "certificates"
	CheckEtcd          = "etcd"
	CheckConfiguration = "configuration"
)

// grace is how long a finding has to last. What is down may be on its way up; what is wrong on disk stays wrong.
func (l Limits) grace(finding v1alpha1.Finding) time.Duration {
	switch finding.Check {
	case CheckAPI, CheckComponents, CheckNodes, CheckEtcd:
		return l.Grace
	case CheckHosts:
		return 3 * l.Grace // it may be starting anew
	default:
		return 0
	}
}

// history is what was tried before.
type history struct {
	// repairs are the automatic ones since a person last did something, the oldest first, each with when it began and ended.
	repairs []attempt
	// healthy is when the cluster was last found healthy after it had not been.
	healthy time.Time
	// exhausted is set where no further one was to be tried.
	exhausted bool
	// waits names the last task where it was a person's and failed, or was cancelled by one: that person goes on.
	waits string
}

type attempt struct {
	began, ended time.Time
	reason       string
}

// historyOf reads the record: tasks are kept for days.
func historyOf(c *v1alpha1.Cluster, tasks []v1alpha1.Task) history {
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(a, b v1alpha1.Task) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	var h history
	for i := range tasks {
		task := &tasks[i]
		if !task.Spec.Automatic {
			h.repairs = nil
			h.waits = ""
			if task.Status.Phase == v1alpha1.TaskFailed || task.Status.Phase == v1alpha1.TaskCancelled {
				h.waits = task.Name
			}
			continue
		}
		ended := task.CreationTimestamp.Time
		if task.Status.FinishedAt != nil {
			ended = task.Status.FinishedAt.Time
		}
		h.repairs, h.waits = append(h.repairs, attempt{task.CreationTimestamp.Time, ended, task.Spec.Reason}), ""
		if task.Status.Phase == v1alpha1.TaskCancelled {
			h.waits = task.Name // who cancels a repair does not want another one at once
		}
	}
	if health := c.Status.Health; health != nil {
		h.exhausted = health.Reason == v1alpha1.ReasonRepairsExhausted && len(h.repairs) > 0
		if health.HealthyAt != nil {
			h.healthy = health.HealthyAt.Time
		}
	}
	return h
}

// attempts are the repairs that followed one another without a long pause, up to now, and have not helped, or not for
// long: the cluster was not healthy after them, or has the same again.
func (h history) attempts(reason string, quiet time.Duration, now time.Time) []attempt {
	var vain []attempt
	next := now
	for _, repair := range slices.Backward(h.repairs) {
		if next.Sub(repair.ended) > quiet {
			break
		}
		next = repair.began
		if helped := !h.healthy.Before(repair.ended.Truncate(time.Second)); !helped || repair.reason == reason {
			vain = append(vain, repair)
		}
	}
	return vain
}

// verdict is what is to be told and done.
type verdict struct {
	health v1alpha1.Health
	repair bool
	// again is when it is to be judged anew; zero where only a new finding changes anything.
	again time.Time
}

// judge decides what becomes of findings.
func judge(findings []v1alpha1.Finding, h history, limits Limits, now time.Time) verdict {
	slices.SortStableFunc(findings, func(a, b v1alpha1.Finding) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Subject, b.Subject))
	})
	health := v1alpha1.Health{Reason: v1alpha1.ReasonHealthy, Findings: findings[:min(len(findings), maxFindings)]}
	if len(findings) == 0 {
		return verdict{health: health}
	}
	vain := h.attempts(reasonOf(findings), limits.Quiet, now)
	tried := len(vain)
	health.Attempts = int32(tried)
	risky := filter(findings, func(f v1alpha1.Finding) bool { return f.Risk != "" })
	repairable := filter(findings, func(f v1alpha1.Finding) bool { return f.Repairable })
	switch {
	case len(risky) > 0:
		health.Reason = v1alpha1.ReasonRepairRefused
		health.Message = fmt.Sprintf("%s; it is not repaired: %s%s", describe(risky), risky[0].Risk, remedies(risky))
		if risky[0].Repairable {
			health.Message += "; `cloud k8s repair --force` does it all the same"
		}
		return verdict{health: health}
	case len(repairable) == 0:
		health.Reason = v1alpha1.ReasonActionNeeded
		health.Message = describe(findings) + remedies(findings)
		return verdict{health: health}
	case h.waits != "":
		health.Reason = v1alpha1.ReasonActionNeeded
		health.Message = fmt.Sprintf("%s; task %s has failed or was cancelled, and nothing is repaired before a person goes on: mend what it says, then `cloud k8s repair`",
			describe(repairable), h.waits)
		return verdict{health: health}
	case h.exhausted || tried >= limits.Attempts:
		health.Reason, health.Attempts = v1alpha1.ReasonRepairsExhausted, int32(max(tried, limits.Attempts))
		health.Message = fmt.Sprintf("%s; %d repairs have not helped, and no further one is tried: `cloud task list` says what they met%s; then `cloud k8s repair`",
			describe(repairable), limits.Attempts, remedies(repairable))
		return verdict{health: health}
	}
	health.Reason, health.Message = v1alpha1.ReasonUnhealthy, describe(findings)
	if tried > 0 {
		next := vain[0].ended.Add(limits.delay(tried))
		if now.Before(next) {
			at := metav1.NewTime(next.Truncate(time.Second).Add(time.Second)) // the API keeps whole seconds
			health.NextRepairAt = &at
			health.Message = fmt.Sprintf("%s; repair %d of %d begins at %s", health.Message, tried+1, limits.Attempts, at.UTC().Format(time.TimeOnly))
			return verdict{health: health, again: at.Time}
		}
	}
	return verdict{health: health, repair: true}
}

// delay is how long to wait after so many repairs.
func (l Limits) delay(tried int) time.Duration {
	delay := l.First
	for range tried - 1 {
		delay = min(2*delay, l.Longest)
	}
	return min(delay, l.Longest)
}

const (
	maxFindings  = 20 // that a cluster's status names
	maxDescribed = 3  // that a sentence names
)

// describe tells findings in a sentence.
func describe(findings []v1alpha1.Finding) string {
	var texts []string
	for _, finding := range findings[:min(len(findings), maxDescribed)] {
		texts = append(texts, finding.String())
	}
	text := strings.Join(texts, "; ")
	if more := len(findings) - maxDescribed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// reasonOf is what a repair because of the findings is asked for with.
func reasonOf(findings []v1alpha1.Finding) string { return shortened(describe(findings), maxReason) }

// remedies are what people can do, each once.
func remedies(findings []v1alpha1.Finding) string {
	var texts []string
	for _, finding := range findings {
		if finding.Remedy != "" && !slices.Contains(texts, finding.Remedy) && len(texts) < maxDescribed {
			texts = append(texts, finding.Remedy)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, "; ")
}

func filter(findings []v1alpha1.Finding, keep func(v1alpha1.Finding) bool) []v1alpha1.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f v1alpha1.Finding) bool { return !keep(f) })
}
