package directory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/store"
)

// Feed is the Source that watches the API.
type Feed struct {
	users, tokens, organizations, projects, passwords cache.SharedIndexInformer
	changed                                           chan struct{}
	stale                                             atomic.Bool // something changed that is in no hurry
	clock                                             clock.WithTicker
}

// leisure is how long a change that lets nobody in or out may go unnoticed.
const leisure = time.Minute

var _ Source = (*Feed)(nil)

// NewFeed watches our kinds by identities, a client of plasmacloud.io, and the passwords among the Secrets of the
// platform's own namespace.
func NewFeed(identities rest.Interface, client kubernetes.Interface, namespace string, clk clock.WithTicker) (*Feed, error) {
	ours := func(resource string, object runtime.Object) cache.SharedIndexInformer {
		watch := cache.NewListWatchFromClient(identities, resource, metav1.NamespaceAll, fields.Everything())
		return cache.NewSharedIndexInformer(watch, object, 0, cache.Indexers{})
	}
	f := &Feed{
		users:         ours("users", &v1alpha1.User{}),
		tokens:        ours("accesstokens", &v1alpha1.AccessToken{}),
		organizations: ours("organizations", &v1alpha1.Organization{}),
		projects:      ours("projects", &v1alpha1.Project{}),
		passwords: coreinformers.NewFilteredSecretInformer(client, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector = store.LabelKind + "=" + store.KindPassword
		}),
		changed: make(chan struct{}, 1),
		clock:   clk,
	}
	tell := func(any) { f.tell() }
	update := func(before, after any) {
		if matters(before, after) {
			f.tell()
		} else {
			f.stale.Store(true)
		}
	}
	for _, informer := range f.informers() {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: update, DeleteFunc: tell})
		if err != nil {
			return nil, fmt.Errorf("watch identities: %w", err)
		}
		if err := informer.SetTransform(slim); err != nil {
			return nil, fmt.Errorf("watch identities: %w", err)
		}
	}
	return f, nil
}

// matters says whether a change lets somebody in or out. Most do not: what is used, and when somebody logged in, changes
// all the time.
func matters(before, after any) bool {
	a, errA := meta.Accessor(before)
	b, errB := meta.Accessor(after)
	if errA != nil || errB != nil || b.GetGeneration() == 0 { // Secrets have none
		return true
	}
	if a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration() || a.GetDeletionTimestamp().IsZero() != b.GetDeletionTimestamp().IsZero() {
		return true
	}
	old, isUser := before.(*v1alpha1.User)
	now, _ := after.(*v1alpha1.User)
	return isUser && (!old.Status.TokensValidAfter.Equal(now.Status.TokensValidAfter) ||
		!equality.Semantic.DeepEqual(old.Status.RevokedSessions, now.Status.RevokedSessions))
}

// slim drops who wrote which field: nobody asks here, and it is half of an object.
func slim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func (f *Feed) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{f.users, f.tokens, f.organizations, f.projects, f.passwords}
}

func (f *Feed) tell() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Changed receives after objects have changed.
func (f *Feed) Changed() <-chan struct{} { return f.changed }

// Run watches until ctx ends. A watch that breaks is begun anew until then.
func (f *Feed) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for _, informer := range f.informers() {
		group.Go(func() { informer.RunWithContext(ctx) })
	}
	group.Go(func() {
		// An empty list is news too, but makes no event.
		if cache.WaitForCacheSync(ctx.Done(), f.synced) {
			f.tell()
		}
		f.tellOfTheRest(ctx)
	})
	group.Wait()
	return nil
}

// tellOfTheRest tells, once in a while, of changes that are in no hurry.
func (f *Feed) tellOfTheRest(ctx context.Context) {
	ticker := f.clock.NewTicker(leisure)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if f.stale.Swap(false) {
				f.tell()
			}
		}
	}
}

func (f *Feed) synced() bool {
	for _, informer := range f.informers() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// Objects are all objects as the watches have told.
func (f *Feed) Objects() (Objects, bool) {
	if !f.synced() {
		return Objects{}, false
	}
	objects := Objects{
		Users:         list[*v1alpha1.User](f.users),
		AccessTokens:  list[*v1alpha1.AccessToken](f.tokens),
		Organizations: list[*v1alpha1.Organization](f.organizations),
		Projects:      list[*v1alpha1.Project](f.projects),
		Passwords:     map[PasswordKey]Password{},
	}
	for _, secret := range list[*corev1.Secret](f.passwords) {
		owner := store.PasswordOwner(secret)
		for key, hash := range secret.Data {
			objects.Passwords[PasswordKey{Secret: secret.Name, Key: key}] = Password{Hash: string(hash), Owner: owner}
		}
	}
	return objects, true
}

func list[T any](informer cache.SharedIndexInformer) []T {
	found := informer.GetStore().List()
	objects := make([]T, 0, len(found))
	for _, object := range found {
		if typed, ok := object.(T); ok {
			objects = append(objects, typed)
		}
	}
	return objects
}
