package v1alpha1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the condition Healthy.
const (
	// ReasonHealthy: nothing is wrong.
	ReasonHealthy = "Healthy"
	// ReasonUnhealthy: something is wrong that a repair mends; one is under way, or comes.
	ReasonUnhealthy = "Unhealthy"
	// ReasonRepairRefused: the repair could lose data or quorum, and is left to `cloud k8s repair --force`.
	ReasonRepairRefused = "RepairRefused"
	// ReasonRepairsExhausted: repairs have not helped, and no further one is tried until a person asks for it.
	ReasonRepairsExhausted = "RepairsExhausted"
	// ReasonActionNeeded: no repair mends it; the message says what a person can do.
	ReasonActionNeeded = "ActionNeeded"
)

// Finding is something about a cluster that is not as it should be.
type Finding struct {
	// Check that found it: api, components, nodes, machines, certificates, etcd, configuration.
	Check string `json:"check"`
	// Subject is what it is about, such as a machine.
	// +optional
	Subject string `json:"subject,omitempty"`
	// Message says what was found.
	Message string `json:"message"`
	// Remedy is what a person can do.
	// +optional
	Remedy string `json:"remedy,omitempty"`
	// Repairable is set where a repair mends it.
	// +optional
	Repairable bool `json:"repairable,omitempty"`
	// Risk is what a repair could lose; it is not begun without force then.
	// +optional
	Risk string `json:"risk,omitempty"`
}

// String is the finding without its remedy.
func (f Finding) String() string {
	if f.Subject == "" || strings.Contains(f.Message, f.Subject) {
		return f.Message
	}
	return f.Subject + ": " + f.Message
}

// Health is what audits of a cluster found, and what becomes of it.
type Health struct {
	// Reason in one word, as in the condition Healthy.
	Reason string `json:"reason"`
	// Message for people.
	// +optional
	Message string `json:"message,omitempty"`
	// Findings are all that is wrong, or the first of it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Findings []Finding `json:"findings,omitempty"`
	// HealthyAt is when the cluster was found healthy after it had not been; repairs that ended before have helped.
	// +optional
	HealthyAt *metav1.Time `json:"healthyAt,omitempty"`
	// Attempts are the automatic repairs in a row that have not helped, or not for long; there is a limit to them.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// NextRepairAt is when the next automatic repair may begin.
	// +optional
	NextRepairAt *metav1.Time `json:"nextRepairAt,omitempty"`
}

// RepairRequest is the value of the annotation that asks for a repair:
//
//	2026-11-15T09:30:00.5Z automatic forced: the reason
//
// +kubebuilder:object:generate=false
type RepairRequest struct {
	// At makes it differ from the request before.
	At time.Time
	// Automatic requests are those of audits.
	Automatic bool
	// Force lets the repair go on where data or quorum may be lost.
	Force bool
	// Reason for people.
	Reason string
}

const (
	requestAutomatic = "automatic"
	requestForced    = "forced"
)

// String is the annotation's value.
func (r RepairRequest) String() string {
	text := r.At.UTC().Format(time.RFC3339Nano)
	if r.Automatic {
		text += " " + requestAutomatic
	}
	if r.Force {
		text += " " + requestForced
	}
	if r.Reason != "" {
		text += ": " + strings.Join(strings.Fields(r.Reason), " ")
	}
	return text
}

// ParseRepairRequest reads the annotation's value. Any other text is a request without further wishes.
func ParseRepairRequest(text string) RepairRequest {
	head, reason, _ := strings.Cut(text, ": ")
	words := strings.Fields(head)
	if len(words) == 0 {
		return RepairRequest{}
	}
	at, err := time.Parse(time.RFC3339Nano, words[0])
	if err != nil {
		return RepairRequest{}
	}
	request := RepairRequest{At: at, Reason: reason}
	for _, word := range words[1:] {
		request.Automatic = request.Automatic || word == requestAutomatic
		request.Force = request.Force || word == requestForced
	}
	return request
}
