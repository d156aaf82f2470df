package balancer

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// speaker accepts connections, says its name and ends them.
func speaker(t *testing.T, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(name))
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// TestServersAreHeardOf: it listens once it knows a server, and goes to those that the ConfigMap names now.
func TestServersAreHeardOf(t *testing.T) {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: Name}}
	api := fake.NewClientset(configMap)
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	b, err := New(Config{Listen: address, API: api, Namespace: "home", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	time.Sleep(200 * time.Millisecond)
	if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		t.Error("it listens without knowing anybody to go to")
	}
	for _, name := range []string{"first", "second"} {
		if err := Write(configMap, []Server{{Name: name, Address: speaker(t, name)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := api.CoreV1().ConfigMaps("home").Update(t.Context(), configMap, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		deadline, heard := time.Now().Add(5*time.Second), ""
		for heard != name && time.Now().Before(deadline) {
			heard = listen(address)
			time.Sleep(20 * time.Millisecond)
		}
		if heard != name {
			t.Errorf("after the change to %s it leads to %q", name, heard)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func listen(address string) string {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	said, _ := io.ReadAll(conn)
	return string(said)
}

func TestReadAndWriteAreInverse(t *testing.T) {
	configMap := &corev1.ConfigMap{}
	if servers, err := Read(configMap); err != nil || servers != nil {
		t.Error(servers, err)
	}
	if err := Write(configMap, []Server{{"b", "10.0.0.2:6443"}, {"a", "10.0.0.1:6443"}}); err != nil {
		t.Fatal(err)
	}
	servers, err := Read(configMap)
	if err != nil || len(servers) != 2 || servers[0] != (Server{"a", "10.0.0.1:6443"}) {
		t.Error(servers, err)
	}
	configMap.Data[serversKey] = `[{"name":"a","address":"nowhere"}]`
	if _, err := Read(configMap); err == nil {
		t.Error("an address without a port is taken")
	}
}
