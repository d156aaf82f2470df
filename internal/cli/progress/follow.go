package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// Event is an object as it is now, or as it was last before it was deleted.
type Event struct {
	Object  client.Object
	Deleted bool
	// Complete comes without an object, once all that there are were handed over.
	Complete bool
}

// Lister lists and watches.
type Lister interface {
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
	Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error)
}

// pause before the next attempt, where the API cannot be reached or ends a watch.
const pause = time.Second

// Follow hands over every object that matches, as it is and whenever it changes, until handle says that it has seen
// enough or ctx ends. It survives that the API is away for a while.
func Follow(ctx context.Context, api Lister, list client.ObjectList, handle func(Event) (enough bool), opts ...client.ListOption) error {
	f := &follower{api: api, list: list, handle: handle, opts: opts}
	for {
		enough, err := f.once(ctx)
		switch {
		case enough:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !passing(err):
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// passing tells an error that waiting may cure from one that it does not.
func passing(err error) bool {
	if _, answered := errors.AsType[*apierrors.StatusError](err); !answered {
		_, unreachable := errors.AsType[*url.Error](err)
		return (unreachable || errors.Is(err, io.ErrUnexpectedEOF)) && exit.Of(err) != exit.LoggedOut
	}
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

type follower struct {
	api    Lister
	list   client.ObjectList
	opts   []client.ListOption
	handle func(Event) bool
	known  map[types.UID]client.Object
}

// once lists, and then watches until the watch ends.
func (f *follower) once(ctx context.Context) (enough bool, err error) {
	if err := f.api.List(ctx, f.list, f.opts...); err != nil {
		return false, err
	}
	if enough, err := f.catchUp(); err != nil || enough {
		return enough, err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: f.list.GetResourceVersion(), AllowWatchBookmarks: true}}
	watcher, err := f.api.Watch(ctx, f.list, append(slices.Clone(f.opts), from)...)
	if err != nil {
		return false, err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-watcher.ResultChan():
			if !open {
				return false, nil
			}
			if event.Type == watch.Error {
				return false, apierrors.FromObject(event.Object)
			}
			if object, ok := event.Object.(client.Object); ok && event.Type != watch.Bookmark && f.tell(object, event.Type == watch.Deleted) {
				return true, nil
			}
		}
	}
}

// catchUp tells what the list holds, and what it no longer holds.
func (f *follower) catchUp() (enough bool, err error) {
	before := f.known
	f.known = map[types.UID]client.Object{}
	err = meta.EachListItem(f.list, func(item runtime.Object) error {
		object, ok := item.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("follow: %T is no object", item)
		}
		enough = enough || f.tell(object, false)
		return nil
	})
	for uid, object := range before {
		if f.known[uid] == nil && !enough && err == nil {
			enough = f.tell(object, true)
		}
	}
	if enough || err != nil {
		return enough, err
	}
	return f.handle(Event{Complete: true}), nil
}

func (f *follower) tell(object client.Object, deleted bool) (enough bool) {
	f.known[object.GetUID()] = object
	if deleted {
		delete(f.known, object.GetUID())
	}
	return f.handle(Event{Object: object, Deleted: deleted})
}
