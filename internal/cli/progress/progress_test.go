package progress

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// screen is a terminal that understands what the live display writes.
type screen struct {
	mu    sync.Mutex
	lines []string
	row   int
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(p)
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\r\x1b[2K"):
			text = text[5:]
			for len(s.lines) <= s.row {
				s.lines = append(s.lines, "")
			}
			line, rest, _ := strings.Cut(text, "\n")
			s.lines[s.row] = line
			s.row++
			text = rest
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines = s.lines[:s.row]
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			n, rest, _ := strings.Cut(text[2:], "A")
			for _, digit := range n {
				s.row -= int(digit - '0')
			}
			text = rest
		default:
			panic("unexpected: " + text)
		}
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func TestLiveDisplayRedrawsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{}
		begun := time.Now()
		display := New(Terminal{Out: out, Live: true, Width: func() int { return 60 }, Now: time.Now})
		display.Update(State{Title: "create cluster dev", Message: "waiting for its network"})
		if want := "⠋ create cluster dev  0s\n    waiting for its network"; out.String() != want {
			t.Errorf("%s", out)
		}
		steps := []Step{
			{Name: "certificates", Phase: v1alpha1.TaskSucceeded, Started: begun, Finished: begun.Add(time.Second)},
			{Name: "nodes", Phase: v1alpha1.TaskRunning, Attempts: 2, Started: begun.Add(time.Second), Message: "a long message that does not fit into the line\nat all"},
			{Name: "check", Phase: v1alpha1.TaskPending},
		}
		display.Update(State{Title: "create cluster dev", Steps: steps})
		time.Sleep(1320 * time.Millisecond)
		synctest.Wait()
		if want := "⠸ create cluster dev  1/3  1.3s\n  ✓ certificates  1s\n  ⠸ nodes         0.3s  attempt 2  a long message that …\n  · check"; out.String() != want {
			t.Errorf("%s", out)
		}
		display.Update(State{Title: "create cluster dev", Steps: steps[:1]})
		if want := "⠸ create cluster dev  1/1  1.3s\n  ✓ certificates  1s"; out.String() != want {
			t.Errorf("%s", out)
		}
		steps[1].Phase, steps[1].Message = v1alpha1.TaskFailed, "no"
		display.Update(State{Title: "create cluster dev", Steps: steps[:2]})
		display.Close(false)
		if want := "✗ create cluster dev  1/2  1.3s\n  ✓ certificates  1s\n  ✗ nodes         0.3s  attempt 2  no"; out.String() != want {
			t.Errorf("%s", out)
		}
		time.Sleep(time.Second)
		if before := out.String(); before != out.String() {
			t.Error("it draws on")
		}
	})
}

func TestLiveDisplayHasColours(t *testing.T) {
	out := &screen{}
	display := New(Terminal{Out: out, Live: true, Color: true, Width: func() int { return 60 }, Now: time.Now})
	display.Update(State{Title: "t", Steps: []Step{{Name: "s", Phase: v1alpha1.TaskSucceeded}}})
	display.Close(true)
	if !strings.Contains(out.String(), "\x1b[32m✓\x1b[0m s") {
		t.Errorf("%q", out)
	}
}

func TestNothingIsShownOfNothing(t *testing.T) {
	for _, live := range []bool{true, false} {
		out := &screen{}
		New(Terminal{Out: out, Live: live, Width: func() int { return 60 }, Now: time.Now}).Close(true)
		if out.String() != "" {
			t.Errorf("%q", out)
		}
	}
}

// scripted answers lists and watches as written down.
type scripted struct {
	lists   []any // a list of names, or an error
	watches []any // events, or an error
}

func (s *scripted) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	next := s.lists[0]
	s.lists = s.lists[1:]
	if err, ok := next.(error); ok {
		return err
	}
	tasks := list.(*v1alpha1.TaskList)
	tasks.Items = nil
	for _, name := range next.([]string) {
		tasks.Items = append(tasks.Items, task(name))
	}
	return nil
}

func (s *scripted) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	next := s.watches[0]
	s.watches = s.watches[1:]
	if err, ok := next.(error); ok {
		return nil, err
	}
	events := next.([]watch.Event)
	watcher := watch.NewFakeWithChanSize(len(events), false)
	for _, event := range events {
		watcher.Action(event.Type, event.Object)
	}
	watcher.Stop()
	return watcher, nil
}

func task(name string) v1alpha1.Task {
	return v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// away is an API that cannot be reached.
var away = &url.Error{Op: "Get", URL: "https://api.invalid", Err: errors.New("connection refused")}

func TestFollowSurvivesLostWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, d, e := task("c"), task("d"), task("e")
		expired := apierrors.NewResourceExpired("too old")
		api := &scripted{
			lists: []any{
				away, []string{"a", "b"}, apierrors.NewServiceUnavailable("starting"),
				[]string{"b", "c"}, []string{"b"}, []string{"b"},
			},
			watches: []any{
				[]watch.Event{{Type: watch.Added, Object: &c}, {Type: watch.Bookmark, Object: &c}, {Type: watch.Error, Object: &expired.ErrStatus}},
				[]watch.Event{{Type: watch.Deleted, Object: &c}, {Type: watch.Added, Object: &d}},
				away,
				[]watch.Event{{Type: watch.Modified, Object: &e}, {Type: watch.Modified, Object: &d}},
			},
		}
		var seen []string
		err := Follow(t.Context(), api, &v1alpha1.TaskList{}, func(event Event) bool {
			switch {
			case event.Complete:
				seen = append(seen, ".")
			case event.Deleted:
				seen = append(seen, "-"+event.Object.GetName())
			default:
				seen = append(seen, event.Object.GetName())
			}
			return seen[len(seen)-1] == "e"
		})
		if want := "a b . c b c -a . -c d b -d . b . e"; err != nil || strings.Join(seen, " ") != want {
			t.Errorf("%v: %s, not %s", err, strings.Join(seen, " "), want)
		}
	})
}

func TestFollowGivesUpWhereWaitingIsNoUse(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("tasks").GroupResource(), "", errors.New("no"))
	ended := &url.Error{Op: "Get", URL: "https://api.invalid", Err: exit.With(exit.LoggedOut, "", errors.New("the session has ended"))}
	for _, final := range []error{forbidden, ended, errors.New("no kind is registered")} {
		err := Follow(t.Context(), &scripted{lists: []any{final}}, &v1alpha1.TaskList{}, func(Event) bool { return false })
		if !errors.Is(err, final) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Follow(ctx, &scripted{lists: []any{away}}, &v1alpha1.TaskList{}, func(Event) bool { return false })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
