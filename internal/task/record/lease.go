package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// maxClockSkew is by how much the clocks of workers' hosts may differ: for so long a lease that has ended is respected.
const maxClockSkew = 2 * time.Second

// lease is a Lease object, one for each resource that is worked on. It belongs to the resource, goes when it is given
// back, and is written only if nobody else has written it since.
type lease struct {
	record *Record
	object *coordinationv1.Lease
	fence  int64
}

// Acquire implements task.Record.
func (r *Record) Acquire(ctx context.Context, t *v1alpha1.Task, holder string, duration time.Duration) (task.Lease, error) {
	name := types.NamespacedName{Namespace: t.Namespace, Name: "task." + strings.ToLower(t.Spec.Resource.Kind) + "." + t.Spec.Resource.Name}
	fill := func(object *coordinationv1.Lease) {
		now := metav1.NewMicroTime(r.clock.Now())
		object.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: t.Spec.Resource.Kind,
			Name: t.Spec.Resource.Name, UID: types.UID(t.Spec.Resource.UID),
		}}
		object.Spec = coordinationv1.LeaseSpec{
			HolderIdentity:       &holder,
			LeaseDurationSeconds: ptr.To(int32((duration + time.Second - 1) / time.Second)),
			AcquireTime:          &now,
			RenewTime:            &now,
			LeaseTransitions:     object.Spec.LeaseTransitions,
		}
	}
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	fill(object)
	err := r.write(ctx, func(ctx context.Context) error { return r.client.Create(ctx, object) })
	if apierrors.IsAlreadyExists(err) {
		object, err = r.takeOver(ctx, name, holder, fill)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire lease %s: %w", name, err)
	}
	// Every write of the API gets a number that is higher than that of any earlier one.
	fence, err := strconv.ParseInt(object.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("acquire lease %s: the API's resource versions are no numbers: %w", name, err)
	}
	return &lease{record: r, object: object, fence: fence}, nil
}

// takeOver takes a lease that is there, if nobody has it any more.
func (r *Record) takeOver(ctx context.Context, name types.NamespacedName, holder string, fill func(*coordinationv1.Lease)) (*coordinationv1.Lease, error) {
	object := &coordinationv1.Lease{}
	err := r.get(ctx, r.live, name, object)
	if apierrors.IsNotFound(err) {
		return nil, &task.HeldError{Holder: "unknown", Until: r.clock.Now()} // it was given back just now
	}
	if err != nil {
		return nil, err
	}
	if held := heldBy(object); held.Holder != holder && r.clock.Now().Before(held.Until) {
		return nil, held
	}
	fill(object)
	object.Spec.LeaseTransitions = ptr.To(ptr.Deref(object.Spec.LeaseTransitions, 0) + 1)
	err = r.write(ctx, func(ctx context.Context) error { return r.client.Update(ctx, object) })
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, &task.HeldError{Holder: "unknown", Until: r.clock.Now()} // another one was quicker
	}
	return object, err
}

// heldBy tells who has a lease, and until when others respect that.
func heldBy(object *coordinationv1.Lease) *task.HeldError {
	held := &task.HeldError{Holder: ptr.Deref(object.Spec.HolderIdentity, "")}
	if object.Spec.RenewTime != nil {
		duration := time.Duration(ptr.Deref(object.Spec.LeaseDurationSeconds, 0)) * time.Second
		held.Until = object.Spec.RenewTime.Add(duration + maxClockSkew)
	}
	return held
}

func (r *Record) write(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// Fence implements task.Lease.
func (l *lease) Fence() int64 { return l.fence }

// Renew implements task.Lease.
func (l *lease) Renew(ctx context.Context) error {
	next := l.object.DeepCopy()
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(l.record.clock.Now()))
	err := l.record.write(ctx, func(ctx context.Context) error { return l.record.client.Update(ctx, next) })
	switch {
	case err == nil:
		l.object = next
		return nil
	case apierrors.IsConflict(err):
		return l.reread(ctx)
	case apierrors.IsNotFound(err):
		return task.ErrLost
	default:
		return fmt.Errorf("renew lease %s: %w", l.object.Name, err)
	}
}

// reread finds out what a conflict means: that the lease is another worker's, or that an earlier write of our own
// arrived although its answer did not.
func (l *lease) reread(ctx context.Context) error {
	latest := &coordinationv1.Lease{}
	err := l.record.get(ctx, l.record.live, client.ObjectKeyFromObject(l.object), latest)
	switch {
	case apierrors.IsNotFound(err):
		return task.ErrLost
	case err != nil:
		return fmt.Errorf("read lease %s: %w", l.object.Name, err)
	case latest.UID != l.object.UID || !latest.Spec.AcquireTime.Equal(l.object.Spec.AcquireTime) ||
		ptr.Deref(latest.Spec.HolderIdentity, "") != ptr.Deref(l.object.Spec.HolderIdentity, ""):
		return task.ErrLost
	default:
		l.object = latest
		return errors.New("renew lease: it has changed; trying again")
	}
}

// Release implements task.Lease.
func (l *lease) Release(ctx context.Context) error {
	precondition := client.Preconditions{UID: &l.object.UID, ResourceVersion: &l.object.ResourceVersion}
	err := l.record.write(ctx, func(ctx context.Context) error { return l.record.client.Delete(ctx, l.object, precondition) })
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release lease %s: %w", l.object.Name, err)
	}
	return nil
}
