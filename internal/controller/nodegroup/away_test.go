package nodegroup_test

import (
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
)

// line is a way to the tenants' API that can be cut.
type line struct {
	url    string
	target string

	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func newLine(t *testing.T) *line {
	t.Helper()
	target, err := url.Parse(tenants.URL())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{url: "https://" + listener.Addr().String(), target: target.Host}
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true)
	})
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			l.forward(connection)
		}
	}()
	return l
}

func (l *line) forward(from net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to, err := net.Dial("tcp", l.target)
	if err != nil || l.cut {
		_ = from.Close()
		return
	}
	l.open = append(l.open, from, to)
	go func() { _, _ = io.Copy(from, to) }()
	go func() { _, _ = io.Copy(to, from) }()
}

func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, connection := range l.open {
		_ = connection.Close()
	}
	l.open = nil
}

func TestNothingIsReplacedWhileTheAPIIsAway(t *testing.T) {
	t.Parallel()
	line := newLine(t)
	w := newWorld(t, fake.Config{})
	w.offerJoin()
	w.offerAPIAt(line.url)
	g := w.group(2)
	w.settled(g)
	before := w.names()

	line.set(true)
	w.setNode(corev1.ConditionUnknown, before...)
	time.Sleep(w.limits.NotReady + 2*time.Second)
	if now := w.names(); !slices.Equal(now, before) || w.machines()[before[0]].Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("%v became %v: %+v", before, now, w.machines()[before[0]].Status)
	}
	// The machine itself is known to be lost all the same.
	if err := w.driver.Delete(t.Context(), w.key(before[0])); err != nil {
		t.Fatal(err)
	}
	w.touch(before[0])
	w.eventually("the lost machine goes", func() bool { return !w.machines()[before[0]].DeletionTimestamp.IsZero() })

	w.setNode(corev1.ConditionTrue, before[1])
	line.set(false)
	w.settled(g)
	// The lost machine's object stays until its node is struck off, which takes a connection that is made anew.
	w.eventually("the lost machine is gone, and the other stays", func() bool {
		now := w.names()
		return len(now) == 2 && slices.Contains(now, before[1]) && !slices.Contains(now, before[0])
	})
	if nodes := w.nodes(before); !slices.Equal(nodes, before[1:]) {
		t.Errorf("nodes %v", nodes)
	}
}

// touch has a machine looked at, as a driver does that tells of changes.
func (w *world) touch(name string) {
	w.t.Helper()
	m := w.machines()[name]
	before := m.DeepCopy()
	m.Annotations = map[string]string{"touched": time.Now().String()}
	if err := w.kube.Patch(w.t.Context(), &m, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func TestAMachineGoesThoughTheAPIDoesNotComeBack(t *testing.T) {
	t.Parallel()
	line := newLine(t)
	w := newWorld(t, fake.Config{}, func(w *world) { w.drain = 4 * time.Second })
	w.offerJoin()
	w.offerAPIAt(line.url)
	g := w.group(1)
	w.settled(g)
	line.set(true)
	name := w.names()[0]
	if err := w.kube.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	w.gone(g)
	if machines, err := w.driver.List(t.Context(), machine.Filter{}); err != nil || len(machines) != 0 {
		t.Errorf("%v: %v", machines, err)
	}
	if _, err := w.tenant.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Errorf("nobody could have struck off the node: %v", err)
	}
}
