package linux

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrNoNamespace means that a path is not, or no longer, a network namespace.
var ErrNoNamespace = errors.New("not a network namespace")

// errEndedEarly is what is left to say about a function that ended its
// goroutine instead of returning, as tests do when they fail.
var errEndedEarly = errors.New("goroutine ended early")

// InNamespace runs fn on a thread of its own in the network namespace at path,
// or right here if path is empty.
func InNamespace(path string, fn func() error) error {
	if path == "" {
		return fn()
	}
	result := make(chan error, 1)
	go func() {
		err := errEndedEarly // unless fn returns
		defer func() { result <- err }()
		// Never unlocked: the thread ends with this goroutine instead of
		// carrying a foreign namespace back into the pool.
		runtime.LockOSThread()
		if failed := enter(path); failed != nil {
			err = failed
			return
		}
		err = fn()
	}()
	return <-result
}

func enter(path string) error {
	ns, err := openNamespace(path)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	if err := netns.Set(ns); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

// NamespaceExists tells whether path is a network namespace at this moment.
func NamespaceExists(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// IsOwnNamespace tells whether path is the caller's own network namespace.
func IsOwnNamespace(path string) (bool, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return false, fmt.Errorf("open own network namespace: %w", err)
	}
	defer func() { _ = own.Close() }()
	other, err := openNamespace(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = other.Close() }()
	return own.Equal(other), nil
}

func openNamespace(path string) (netns.NsHandle, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return netns.None(), fmt.Errorf("open %s: %w: %w", path, ErrNoNamespace, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(ns), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		_ = ns.Close()
		return netns.None(), fmt.Errorf("open %s: %w", path, ErrNoNamespace)
	}
	return ns, nil
}
