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
	"errors"
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

	// writeTimeout is less than what an API server waits for admission.
	writeTimeout = 8 * time.Second

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
	books map[string]*book
}

// New keeps ledgers in a namespace.
func New(live client.Reader, writer client.Writer, namespace string, now func() time.Time) *Ledgers {
	return &Ledgers{live: live, writer: writer, namespace: namespace, now: now, books: map[string]*book{}}
}

// book is the ledger of one organization, as this process sees it.
type book struct {
	organization string
	// turn is held by the request that writes. It writes for all that wait, so that many at once are one write.
	turn chan struct{}

	mutex   sync.Mutex
	waiting []*change

	// What this process has written last; nil where it has to be read. Guarded by turn.
	stored   *corev1.ConfigMap
	promises []Promise
}

// change is one that waits to be decided and written.
type change struct {
	decide    func([]Promise) ([]Promise, error)
	abandoned func() error // why nobody waits for it any more, if so
	err       error
	done      chan struct{} // closed when err is final
}

// errLate says that others have written a ledger since it was read: it is to be read and decided on again.
var errLate = errors.New("the ledger has changed")

// Change reads an organization's promises, lets decide return what they shall be, and stores that, as one: of two at
// once, one sees what the other promised. It may call decide more than once; decide's error ends it, and nothing is
// stored. Promises that have expired are not shown, new ones get their lifetime here. What decide leaves as it is may be
// somewhat old.
func (l *Ledgers) Change(ctx context.Context, organization string, decide func([]Promise) ([]Promise, error)) error {
	b := l.book(organization)
	c := &change{decide: decide, abandoned: ctx.Err, done: make(chan struct{})}
	b.mutex.Lock()
	b.waiting = append(b.waiting, c)
	b.mutex.Unlock()
	select {
	case <-c.done: // another one wrote it too
		return c.err
	case b.turn <- struct{}{}:
		l.write(ctx, b)
		return c.err // whoever took it from those that wait has finished with it
	case <-ctx.Done():
		return fmt.Errorf("wait for the ledger of %s: %w", organization, ctx.Err())
	}
}

func (l *Ledgers) book(organization string) *book {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.books[organization] == nil {
		l.books[organization] = &book{organization: organization, turn: make(chan struct{}, 1)}
	}
	return l.books[organization]
}

// write decides and writes all changes that wait, and ends the turn.
func (l *Ledgers) write(ctx context.Context, b *book) {
	b.mutex.Lock()
	batch := b.waiting
	b.waiting = nil
	b.mutex.Unlock()
	for _, c := range batch {
		c.err = fmt.Errorf("change the ledger of %s: interrupted", b.organization)
	}
	defer func() {
		for _, c := range batch {
			close(c.done)
		}
		<-b.turn
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout) // others wait for it too
	defer cancel()
	backoff := wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Steps: 30, Cap: time.Second}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		err := l.attempt(ctx, b, batch)
		if errors.Is(err, errLate) {
			return false, nil // decide again, with what others promised
		}
		return true, err
	})
	if err == nil {
		return
	}
	b.stored = nil
	if wait.Interrupted(err) {
		err = fmt.Errorf("change the ledger of %s: too many others do at the same time: %w", b.organization, err)
	}
	for _, c := range batch {
		c.err = err
	}
}

// attempt decides on all changes in turn and writes the outcome. Refusals, of which there are few, are founded on what
// is stored now; other decisions on what this process wrote last, as nothing is written if that is not what is stored.
func (l *Ledgers) attempt(ctx context.Context, b *book, batch []*change) error {
	fresh := b.stored == nil
	if fresh {
		if err := l.read(ctx, b); err != nil {
			return err
		}
	}
	now := l.now()
	before := slices.DeleteFunc(slices.Clone(b.promises), func(p Promise) bool { return !p.Until.After(now) })
	after := before
	for _, c := range batch {
		if c.err = c.abandoned(); c.err != nil {
			continue
		}
		decided, err := c.decide(slices.Clone(after))
		if c.err = err; err == nil {
			after = decided
		} else if !fresh {
			b.stored = nil
			return errLate
		}
	}
	if slices.Equal(before, after) {
		return nil
	}
	for i := range after {
		if after[i].Until.IsZero() {
			after[i].Until = now.Add(Lifetime).UTC().Truncate(time.Millisecond)
		}
	}
	return l.store(ctx, b, after)
}

// store writes promises, unless others have written some since they were read.
func (l *Ledgers) store(ctx context.Context, b *book, promises []Promise) error {
	content, err := json.Marshal(promises)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	stored := b.stored.DeepCopy()
	stored.Data = map[string]string{key: string(content)}
	if stored.ResourceVersion == "" {
		err = l.writer.Create(ctx, stored)
	} else {
		err = l.writer.Update(ctx, stored)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		b.stored = nil
		return errLate
	case err != nil:
		return fmt.Errorf("write ledger: %w", err)
	}
	b.stored, b.promises = stored, promises
	return nil
}

// read reads what is stored now.
func (l *Ledgers) read(ctx context.Context, b *book) error {
	stored := &corev1.ConfigMap{}
	err := l.live.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: namePrefix + b.organization}, stored)
	if apierrors.IsNotFound(err) {
		stored.ObjectMeta = metav1.ObjectMeta{Namespace: l.namespace, Name: namePrefix + b.organization}
	} else if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	var promises []Promise
	if content := stored.Data[key]; content != "" {
		if err := json.Unmarshal([]byte(content), &promises); err != nil {
			return fmt.Errorf("read ledger %s: %w; delete it: it only holds promises of the last seconds", stored.Name, err)
		}
	}
	b.stored, b.promises = stored, promises
	return nil
}
