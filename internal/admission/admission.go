// Package admission decides on requests to our API what schema and CEL cannot: whether parents exist, versions and
// instance types are in the catalogue, ranges of addresses are free, quotas have room, and whether anything is left below
// what shall be deleted. It is a validating webhook; Configuration is what makes an API server ask it.
//
// A file a concern; each decision looks at the world through a client.Reader and has no other effect than, for quotas
// and ranges of addresses, a promise in the organization's ledger (package ledger), which makes two requests at once as
// safe as two in turn. It decides on a cache first, for speed; before it refuses, it decides again on what the API server
// has now, so that nobody is refused because a cache is late. What a late cache lets pass is caught by the controllers:
// a child without its parent waits with reason ParentMissing, and a parent does not go while it has children.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
	"plasmacloud.io/plasmacloud/internal/admission/tally"
	"plasmacloud.io/plasmacloud/internal/catalogue"
)

// Ledger remembers what was admitted and cannot be seen yet; *ledger.Ledgers does.
type Ledger interface {
	Change(ctx context.Context, organization string, decide func([]ledger.Promise) ([]ledger.Promise, error)) error
}

// Config is what a Validator needs.
type Config struct {
	// Cached reads quickly, and may be late.
	Cached client.Reader
	// Live reads what the API server has now.
	Live client.Reader
	// Catalogue is what the installation offers.
	Catalogue func() (*catalogue.Catalogue, error)
	// Tally is what clusters use, as quick and as late as Cached. Without one they are counted at every request.
	Tally  *tally.Tally
	Ledger Ledger
	Now    func() time.Time
}

// Validator admits requests, or refuses them.
type Validator struct {
	config Config
	rules  map[string]rule // by resource, with its subresource
}

var _ admission.Handler = (*Validator)(nil)

// New makes a Validator.
func New(config Config) *Validator { return &Validator{config: config, rules: rules()} }

// Handler serves the webhook over HTTP.
func (v *Validator) Handler() http.Handler { return &admission.Webhook{Handler: v} }

// Handle implements admission.Handler.
func (v *Validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	world := v.config.Cached
	if request.Operation == admissionv1.Delete && request.Resource.Resource != "clusters" {
		world = v.config.Live // rare, and a child that a cache does not show yet must not be orphaned
	}
	err := v.decide(ctx, world, request)
	if refused(err) {
		err = v.decide(ctx, v.config.Live, request)
	}
	var refusal *apierrors.StatusError
	switch {
	case err == nil:
		return admission.Allowed("")
	case refused(err) && errors.As(err, &refusal):
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &refusal.ErrStatus}}
	default:
		return admission.Errored(http.StatusInternalServerError, err)
	}
}

func (v *Validator) decide(ctx context.Context, world client.Reader, request admission.Request) error {
	check, ok := v.rules[resourceOf(request)]
	if !ok {
		return nil
	}
	q := &question{
		world: world, offers: v.config.Catalogue, ledger: v.config.Ledger, now: v.config.Now,
		operation: request.Operation, dryRun: request.DryRun != nil && *request.DryRun,
	}
	if world == v.config.Cached {
		q.tally = v.config.Tally
	}
	return check(ctx, q, request)
}

func resourceOf(request admission.Request) string {
	if request.SubResource == "" {
		return request.Resource.Resource
	}
	return request.Resource.Resource + "/" + request.SubResource
}

// question is a request and all that an answer may look at.
type question struct {
	world     client.Reader
	offers    func() (*catalogue.Catalogue, error)
	catalogue *catalogue.Catalogue // once consulted
	tally     *tally.Tally         // nil where clusters are to be counted
	ledger    Ledger
	now       func() time.Time
	operation admissionv1.Operation
	dryRun    bool
}

// consult reads the catalogue, which most kinds have no need of.
func (q *question) consult() error {
	offers, err := q.offers()
	if err != nil {
		return fmt.Errorf("consult the catalogue: %w", err)
	}
	q.catalogue = offers
	return nil
}

func (q *question) creates() bool { return q.operation == admissionv1.Create }
func (q *question) deletes() bool { return q.operation == admissionv1.Delete }

// rule decides on requests for one resource.
type rule func(ctx context.Context, q *question, request admission.Request) error

// rules are all resources that are looked at.
func rules() map[string]rule {
	return map[string]rule{
		"organizations":    on(organization),
		"projects":         on(project),
		"users":            on(user),
		"accesstokens":     on(accessToken),
		"accounts":         on(account),
		"networks":         on(network),
		"clusters":         on(cluster),
		"nodegroups":       on(nodeGroup),
		"nodegroups/scale": scale,
		"machines":         on(machine),
		"tasks":            on(task),
		"buckets":          on(bucket),
	}
}

// on makes a rule of a check of one type. On creation old is nil; on deletion both are what shall be deleted.
func on[T any, P interface {
	*T
	client.Object
}](check func(ctx context.Context, q *question, object, old P) error) rule {
	return func(ctx context.Context, q *question, request admission.Request) error {
		var object, old P
		if !q.creates() {
			old = P(new(T))
			if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
				return fmt.Errorf("decode %s as it was: %w", request.Kind.Kind, err)
			}
		}
		if object = old; !q.deletes() {
			object = P(new(T))
			if err := json.Unmarshal(request.Object.Raw, object); err != nil {
				return fmt.Errorf("decode %s: %w", request.Kind.Kind, err)
			}
		}
		return check(ctx, q, object, old)
	}
}

// refusal tells a decision from a failure to decide.
type refusal struct{ *apierrors.StatusError }

func (r refusal) Unwrap() error { return r.StatusError }

func refused(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

// invalid refuses what is wrong with the object itself; nothing where nothing is.
func invalid(kind string, object client.Object, wrong field.ErrorList) error {
	if len(wrong) == 0 {
		return nil
	}
	return refusal{apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), object.GetName(), wrong)}
}

// forbidden refuses what stands in the way of other things.
func forbidden(resource string, object client.Object, format string, values ...any) error {
	group := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: resource}
	return refusal{apierrors.NewForbidden(group, object.GetName(), fmt.Errorf(format, values...))}
}
