package join

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// remoteHost is a network namespace behind a veth pair: a host that can lose its
// power.
type remoteHost struct {
	t       *testing.T
	ns      netns.NsHandle
	handle  *netlink.Handle
	address *netlink.Addr
	link    netlink.Link
}

func newRemoteHost(t *testing.T) *remoteHost {
	t.Helper()
	// One address range (RFC 2544, for tests) and one name for each process.
	block := os.Getpid() % (1 << 15)
	near := mustAddr(t, fmt.Sprintf("198.%d.%d.%d/30", 18+block>>14&1, block>>6&255, block<<2&255|1))
	far := mustAddr(t, fmt.Sprintf("198.%d.%d.%d/30", 18+block>>14&1, block>>6&255, block<<2&255|2))
	name := fmt.Sprintf("k8sj%d", os.Getpid())

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := must(netns.Get())(t)
	defer own.Close()
	h := &remoteHost{t: t, ns: must(netns.New())(t), address: far}
	check(t, netns.Set(own))
	t.Cleanup(func() { h.ns.Close() })
	h.handle = must(netlink.NewHandleAt(h.ns))(t)
	t.Cleanup(h.handle.Close)

	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p", PeerNamespace: netlink.NsFd(h.ns)}
	check(t, netlink.LinkAdd(veth))
	t.Cleanup(func() {
		if link, err := netlink.LinkByName(name); err == nil {
			check(t, netlink.LinkDel(link))
		}
	})
	nearLink := must(netlink.LinkByName(name))(t)
	check(t, netlink.AddrAdd(nearLink, near))
	check(t, netlink.LinkSetUp(nearLink))
	h.link = must(h.handle.LinkByName(name + "p"))(t)
	check(t, h.handle.AddrAdd(h.link, far))
	check(t, h.handle.LinkSetUp(h.link))
	return h
}

// listen opens a port on the remote host.
func (h *remoteHost) listen() net.Listener {
	h.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := must(netns.Get())(h.t)
	defer own.Close()
	check(h.t, netns.Set(h.ns))
	l, err := net.Listen("tcp", h.address.IP.String()+":0")
	check(h.t, netns.Set(own))
	check(h.t, err)
	return l
}

// vanish makes the host answer nothing any more, as after a power cut.
func (h *remoteHost) vanish() {
	h.t.Helper()
	check(h.t, h.handle.AddrDel(h.link, h.address))
}

func (h *remoteHost) comeBack() {
	h.t.Helper()
	check(h.t, h.handle.AddrAdd(h.link, h.address))
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T { t.Helper(); check(t, err); return value }
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustAddr(t *testing.T, text string) *netlink.Addr {
	t.Helper()
	return must(netlink.ParseAddr(text))(t)
}

// A server that loses its power closes nothing: its connections, idle or busy,
// end within a few seconds, and new ones go elsewhere.
func TestConnectionsToAVanishedServerAreBroken(t *testing.T) {
	c := newCluster(t, now())
	host := newRemoteHost(t)
	far := newBackend(t, c, "far")
	far.kill()
	far.serve(host.listen())
	near := newBackend(t, c, "near")
	lb := startBalancer(t, c, serverFileIn(t), far.address)
	idle, busy := lb.mustConnect(), lb.mustConnect()
	idle.echo(t)
	busy.echo(t)
	if err := lb.SetServers([]string{far.address, near.address}); err != nil {
		t.Fatal(err)
	}

	host.vanish()
	fmt.Fprintln(busy, "is anybody there?")
	began := time.Now()
	busy.broken(t, 10*time.Second)
	idle.broken(t, 10*time.Second)
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the connections were broken after %v only", took)
	}
	eventually(t, "far fails", func() bool { return lb.failing(far.address) })
	began = time.Now()
	if got := lb.mustConnect(); got.server != "near" {
		t.Errorf("connected to %s", got.server)
	}
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("the next connection waited %v for the vanished server", took)
	}
	host.comeBack()
	eventually(t, "far is back", func() bool { return !lb.failing(far.address) })
}
