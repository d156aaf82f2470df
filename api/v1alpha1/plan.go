package v1alpha1

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionDrifted of a Network, Cluster or Bucket in a cloud is True when what is there is not what was asked for: somebody
// else has changed it. Its message names what differs, by the addresses that a plan shows.
const ConditionDrifted = "Drifted"

// Reasons of the condition Drifted.
const (
	// ReasonInSync: nothing differs.
	ReasonInSync = "InSync"
	// ReasonDrifted: something differs, and a repair would put it right.
	ReasonDrifted = "Drifted"
	// ReasonConsentNeeded: to put it right would lose something, which nobody has agreed to.
	ReasonConsentNeeded = "ConsentNeeded"
	// ReasonCheckFailed: it could not be looked at.
	ReasonCheckFailed = "CheckFailed"
)

// Drift is what was found when infrastructure in a cloud was last compared with what was asked for.
type Drift struct {
	// CheckedAt is when that was.
	CheckedAt metav1.Time `json:"checkedAt"`
	// Addresses of what differs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Addresses []string `json:"addresses,omitempty"`
	// Refused is why it would not be put right without consent.
	// +optional
	Refused string `json:"refused,omitempty"`
	// Error is why it could not be looked at.
	// +optional
	Error string `json:"error,omitempty"`
	// Repairs are the automatic ones in a row after which something still differed; there is a limit to them.
	// +optional
	Repairs int32 `json:"repairs,omitempty"`
}

// PlanRequest is the value of the annotation that asks for a plan:
//
//	2026-11-15T09:30:00.5Z {"version": "v1.36"}
//
// +kubebuilder:object:generate=false
type PlanRequest struct {
	// At makes it differ from the request before.
	At time.Time
	// Change of the spec to plan, a JSON merge patch; none where what was asked for already is planned again.
	Change string
}

// String is the annotation's value.
func (r PlanRequest) String() string {
	return strings.TrimSpace(r.At.UTC().Format(time.RFC3339Nano) + " " + r.Change)
}

// ParsePlanRequest reads the annotation's value; false where it is none.
func ParsePlanRequest(text string) (PlanRequest, bool) {
	head, change, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, head)
	if err != nil || change != "" && !json.Valid([]byte(change)) {
		return PlanRequest{}, false
	}
	return PlanRequest{At: at, Change: change}, true
}

// PlannedChange is what would be done to one resource in a cloud, and why.
// +kubebuilder:object:generate=false
type PlannedChange struct {
	Address string   `json:"address"`
	Type    string   `json:"type"`
	Effect  string   `json:"effect"` // created, changed, replaced, destroyed, …
	Reason  string   `json:"reason,omitempty"`
	Fields  []string `json:"fields,omitempty"`
}

// PlanResult is what a task of operation Plan has found; its output OutputPlanResult in JSON.
// +kubebuilder:object:generate=false
type PlanResult struct {
	InfraVersion string          `json:"infraVersion"`
	Changes      []PlannedChange `json:"changes"`
	// Refused is why it would not be done as it is, and Consent what would have to be agreed to for that, by address.
	Refused string   `json:"refused,omitempty"`
	Consent []string `json:"consent,omitempty"`
}

// OutputPlanResult names the output of a task that is a PlanResult.
const OutputPlanResult = "planResult"

// Result reads what a task of operation Plan has found; false where it has found nothing.
func (t *Task) Result() (PlanResult, bool) {
	var result PlanResult
	text, found := t.Status.Outputs[OutputPlanResult]
	return result, found && json.Unmarshal([]byte(text), &result) == nil
}
