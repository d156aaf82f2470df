package remote_test

import (
	"context"
	"strings"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

// patience is for what happens as soon as a busy machine gets to it.
const patience = 60 * time.Second

// impatient is how a pool is that is to notice failures soon.
var impatient = remote.Config{
	DialTimeout: 10 * time.Second, HandshakeTimeout: 20 * time.Second, KeepAlive: 2 * time.Second, Backoff: 50 * time.Millisecond, Attempts: 4,
}

// newPool is a pool that ends with the test.
func newPool(t *testing.T, config remote.Config) *remote.Pool {
	t.Helper()
	pool := remote.NewPool(config)
	t.Cleanup(pool.Close)
	return pool
}

// where is how to log in to a host.
func where(t *testing.T, host *sshtest.Host) remote.Host {
	t.Helper()
	key, err := remote.ParseKey(host.Key)
	if err != nil {
		t.Fatal(err)
	}
	return remote.Host{Address: host.Address, Port: host.Port, Key: key, HostKey: host.HostKey}
}

// behind is how to log in to a host through a proxy.
func behind(t *testing.T, host *sshtest.Host, proxy *sshtest.Proxy) remote.Host {
	t.Helper()
	there := where(t, host)
	there.Address, there.Port = proxy.Address, proxy.Port
	return there
}

func newContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

// await looks until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// assertSays checks that an error tells people everything that is listed.
func assertSays(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
