// Package deployer is how an operation on infrastructure in a cloud is done apart from the process that asked for it: in a
// program of its own, `cloudd deploy`, which fetches its order, plans, has the plan checked, applies that very plan, and
// reports as it goes. Whoever asked may be restarted meanwhile. Here are the order and the report, the service that
// deployers talk to, and what the program does; where it runs is in the packages below: pods, or remote.
//
// Credentials are in an order only while it is on its way: they are read when the deployer asks for it, and stored nowhere.
package deployer

import (
	"encoding/json"
	"errors"

	"plasmacloud.io/plasmacloud/internal/terraform"
	configuration "plasmacloud.io/plasmacloud/terraform"
)

// Operation is what is done to a stack.
type Operation string

// The operations.
const (
	Apply   Operation = "apply"   // make it what the configuration says
	Destroy Operation = "destroy" // remove all of it
	Plan    Operation = "plan"    // only tell what Apply would do
)

// Account is whose credentials an operation has.
type Account struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Request is one operation on one stack.
type Request struct {
	// ID of the operation: the same for as long as it is asked for, and another one for every other operation.
	ID        string    `json:"id"`
	Stack     string    `json:"stack"`
	Operation Operation `json:"operation"`
	Account   Account   `json:"account"`
	// Remote says that deployers do it that run elsewhere, and come for it.
	Remote bool `json:"remote,omitempty"`
	// Cloud, InfraVersion and Kind name the configuration.
	Cloud        string             `json:"cloud"`
	InfraVersion string             `json:"infraVersion"`
	Kind         configuration.Kind `json:"kind"`
	// Variables of the configuration.
	Variables json.RawMessage `json:"variables"`
	// Consent, OpenAPI and DeletionProtection are what the plan is checked with: see terraform.Policy.
	Consent            []string `json:"consent,omitempty"`
	OpenAPI            bool     `json:"openAPI,omitempty"`
	DeletionProtection bool     `json:"deletionProtection,omitempty"`
	// Backend is where the state is, if the account keeps it: the platform has a copy. Nil where the platform keeps it.
	Backend *terraform.Backend `json:"backend,omitempty"`
}

// Turn is one attempt at an operation.
type Turn struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
}

// Order is a request as a deployer gets it.
type Order struct {
	Request
	// Adopt says that an earlier attempt may have left things in the cloud that no state knows.
	Adopt bool `json:"adopt,omitempty"`
	// Earlier are the hosts of earlier attempts, whose turns are over: a lock that one of them has left is nobody's.
	Earlier []string `json:"earlier,omitempty"`
	// Environment has the credentials.
	Environment map[string]string `json:"environment"`
}

// String tells no secrets.
func (o Order) String() string { return string(o.Operation) + " " + o.Stack }

// GoString is String.
func (o Order) GoString() string { return o.String() }

// Leased is an order that is a remote deployer's for some time.
type Leased struct {
	Order
	Turn Turn
}

// Phase is how far an attempt is.
type Phase string

// The phases, in their order.
const (
	Pending   Phase = "Pending"
	Planning  Phase = "Planning"
	Applying  Phase = "Applying" // the plan is known, and was found good
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
)

// Report is how far an operation is.
type Report struct {
	Turn
	// Host that the deployer runs on, by the name that locks have of it.
	Host  string `json:"host,omitempty"`
	Phase Phase  `json:"phase"`
	// Message is what happens just now.
	Message string `json:"message,omitempty"`
	// Plan in words, and how many resources it touches, once it is known.
	Plan    string `json:"plan,omitempty"`
	Changes int    `json:"changes,omitempty"`
	// Preview is what a plan that is not applied would do.
	Preview *Preview `json:"preview,omitempty"`
	// Outputs of the stack, once it is made.
	Outputs map[string]json.RawMessage `json:"outputs,omitempty"`
	// Error of an attempt that failed; Permanent where another one would, too.
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}

// Preview is what a plan would do to each resource, and whether it would be done.
type Preview struct {
	Changes []terraform.Change `json:"changes"`
	// Refused is why it would not be done, and Consent what would have to be agreed to for that, by address.
	Refused string   `json:"refused,omitempty"`
	Consent []string `json:"consent,omitempty"`
}

// Finished tells whether nothing more will be reported.
func (r Report) Finished() bool { return r.Phase == Succeeded || r.Phase == Failed }

// Planned tells whether the plan is known.
func (r Report) Planned() bool { return r.Phase == Applying || r.Phase == Succeeded }

// ErrReplaced is the error of a deployer in whose place another one works, or whose operation nobody wants any more.
var ErrReplaced = errors.New("this attempt is not the current one")

// ErrCancelled is what a deployer is told that shall come to its end: it waits for what the cloud is making, and reports.
var ErrCancelled = errors.New("this operation was cancelled")
