// Package netlab builds small networks for tests: network namespaces, the links
// between them, servers in them and probes from them. Nothing of it touches the
// host's own network namespace, and as namespaces are held by open files only,
// nothing of it outlives the test process, however that ends.
package netlab

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// Namespace is a network namespace.
type Namespace struct {
	// Path leads to the namespace, from other processes too, until Close.
	Path string

	t      testing.TB
	handle netns.NsHandle
}

// New makes a namespace with nothing but a loopback interface that is up.
func New(t testing.TB) *Namespace {
	t.Helper()
	created := make(chan netns.NsHandle, 1)
	failed := make(chan error, 1)
	go func() {
		// Never unlocked, so the thread does not go back into the pool.
		runtime.LockOSThread()
		handle, err := netns.New()
		if err != nil {
			failed <- err
			return
		}
		created <- handle
	}()
	select {
	case err := <-failed:
		t.Fatalf("make network namespace: %v", err)
		return nil
	case handle := <-created:
		n := &Namespace{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(handle)), t: t, handle: handle}
		t.Cleanup(func() { _ = handle.Close() })
		n.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(lo)
		})
		return n
	}
}

// Open joins a namespace that somebody else has made, and keeps it until the end of the test.
func Open(t testing.TB, path string) *Namespace {
	t.Helper()
	handle, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatalf("open network namespace: %v", err)
	}
	t.Cleanup(func() { _ = handle.Close() })
	return &Namespace{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(handle)), t: t, handle: handle}
}

// Close lets go of the namespace. The kernel removes it, and what is in it,
// once no process and no socket is left there. The path stays occupied until
// the end of the test: leading to another namespace, it would be a pod that came
// back to life.
func (n *Namespace) Close() {
	n.t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if err := unix.Dup3(int(null.Fd()), int(n.handle), unix.O_CLOEXEC); err != nil {
		n.t.Fatalf("let go of network namespace: %v", err)
	}
}

// Try runs fn in the namespace. Sockets opened in fn belong to the namespace,
// and so do processes started in it.
func (n *Namespace) Try(fn func() error) error {
	return linux.InNamespace(n.Path, fn)
}

// Do is Try where failing fails the test.
func (n *Namespace) Do(fn func() error) {
	n.t.Helper()
	if err := n.Try(fn); err != nil {
		n.t.Fatalf("in network namespace: %v", err)
	}
}

// Sysctl sets a value below /proc/sys.
func (n *Namespace) Sysctl(name, value string) {
	n.t.Helper()
	n.Do(func() error { return os.WriteFile("/proc/sys/"+name, []byte(value), 0) })
}

// End is one end of a link: an interface with an address, such as "10.0.0.1/24".
type End struct {
	Namespace *Namespace
	Interface string
	Address   string
}

// Connect makes an Ethernet link between two namespaces.
func Connect(t testing.TB, mtu int, a, b End) {
	t.Helper()
	a.Namespace.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = a.Interface, mtu
		veth := netlink.NewVeth(attrs)
		veth.PeerName, veth.PeerNamespace = b.Interface, netlink.NsFd(b.Namespace.handle)
		return netlink.LinkAdd(veth)
	})
	for _, end := range []End{a, b} {
		end.Namespace.Do(func() error {
			link, err := netlink.LinkByName(end.Interface)
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr(end.Address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return err
			}
			return netlink.LinkSetUp(link)
		})
	}
	for _, end := range []End{a, b} {
		end.Namespace.Do(func() error { return awaitUp(end.Interface) })
	}
}

// awaitUp waits until an interface can send.
func awaitUp(name string) error {
	deadline := time.Now().Add(patience)
	for {
		link, err := netlink.LinkByName(name)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("interface %s stays %s", name, link.Attrs().OperState)
		}
		<-time.After(time.Millisecond)
	}
}

// Route adds a route; "default" and CIDRs are destinations.
func (n *Namespace) Route(destination, gateway string) {
	n.t.Helper()
	n.Do(func() error {
		gw, err := netlink.ParseIPNet(gateway + "/32")
		if err != nil {
			return err
		}
		if destination == "default" {
			destination = "0.0.0.0/0"
		}
		dst, err := netlink.ParseIPNet(destination)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: gw.IP, Family: unix.AF_INET})
	})
}
