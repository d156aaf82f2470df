// Package ledger remembers what admission has let through and nobody can see yet.
//
// Between the moment at which a request is admitted and the moment at which its object is in every cache lie some
// milliseconds. Without a memory, two requests at once would each find room in a quota for one. Each therefore leaves a
// promise in its organization's ledger, which counts like the object itself until it has expired. A ledger is a ConfigMap
// that is changed by compare and swap, so that any number of admission servers share it, and one that restarts knows it.
package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// Lifetime is how long a promise counts: longer than an API server takes to store what was admitted and a cache to
	// show it, short enough that a request that failed afterwards is soon forgotten.
	Lifetime = 15 * time.Second

	namePrefix = "admission-ledger-"
	key        = "promises"
)

// Promise is an object that was admitted.
type Promise struct {
	// Project, kind and name of the object.
	Project string `json:"project"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	// Used is what a cluster will use.
	Used *v1alpha1.Quota `json:"used,omitempty"`
	// Account and CIDR of a network.
	Account string `json:"account,omitempty"`
	CIDR    string `json:"cidr,omitempty"`
	// Until is when it ends.
	Until time.Time `json:"until"`
}

// Is tells whether the promise is about an object.
func (p Promise) Is(project, kind, name string) bool {
	return p.Project == project && p.Kind == kind && p.Name == name
}

// Ledgers keeps one ledger for each organization.
type Ledgers struct {
	// live reads what is stored now: a cache would only show what others have overwritten.
	live      client.Reader
	writer    client.Writer
	namespace string
	now       func() time.Time

	mutex sync.Mutex
	turns map[string]chan struct{}
}

// New keeps ledgers in a namespace.
func New(live client.Reader, writer client.Writer, namespace string, now func() time.Time) *Ledgers {
	return &Ledgers{live: live, writer: writer, namespace: namespace, now: now, turns: map[string]chan struct{}{}}
}

// Change reads an organization's promises, lets decide return what they shall be, and stores that, as one: of two at
// once, one sees what the other promised. It may call decide more than once; decide's error ends it, and nothing is
// stored. Promises that have expired are not shown, new ones get their lifetime here.
func (l *Ledgers) Change(ctx context.Context, organization string, decide func([]Promise) ([]Promise, error)) error {
	turn := l.turn(organization)
	select {
	case turn <- struct{}{}: // requests to this process need not collide
		defer func() { <-turn }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the ledger of %s: %w", organization, ctx.Err())
	}
	backoff := wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Steps: 30, Cap: time.Second}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		err := l.attempt(ctx, organization, decide)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return false, nil // another process was faster: decide again, with what it promised
		}
		return true, err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("change the ledger of %s: too many others do at the same time: %w", organization, err)
	}
	return err
}

func (l *Ledgers) turn(organization string) chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.turns[organization] == nil {
		l.turns[organization] = make(chan struct{}, 1)
	}
	return l.turns[organization]
}

func (l *Ledgers) attempt(ctx context.Context, organization string, decide func([]Promise) ([]Promise, error)) error {
	stored := &corev1.ConfigMap{}
	err := l.live.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: namePrefix + organization}, stored)
	isNew := apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return fmt.Errorf("read ledger: %w", err)
	}
	before, err := l.read(stored)
	if err != nil {
		return err
	}
	after, err := decide(slices.Clone(before))
	if err != nil || slices.Equal(before, after) {
		return err
	}
	for i := range after {
		if after[i].Until.IsZero() {
			after[i].Until = l.now().Add(Lifetime).UTC().Truncate(time.Millisecond)
		}
	}
	content, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	stored.Data = map[string]string{key: string(content)}
	if isNew {
		stored.ObjectMeta = metav1.ObjectMeta{Namespace: l.namespace, Name: namePrefix + organization}
		return l.writer.Create(ctx, stored)
	}
	return l.writer.Update(ctx, stored) // fails if it is no longer what was read
}

// read returns the promises that still count.
func (l *Ledgers) read(stored *corev1.ConfigMap) ([]Promise, error) {
	var promises []Promise
	if content := stored.Data[key]; content != "" {
		if err := json.Unmarshal([]byte(content), &promises); err != nil {
			return nil, fmt.Errorf("read ledger %s: %w; delete it: it only holds promises of the last seconds", stored.Name, err)
		}
	}
	now := l.now()
	return slices.DeleteFunc(promises, func(p Promise) bool { return !p.Until.After(now) }), nil
}
