package remote_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

var nothing = remote.Command{Step: "preflight", Args: []string{"true"}}

func TestRefused(t *testing.T) {
	host := sshtest.Start(t)
	there := where(t, host)
	host.Silence()
	client := newPool(t, impatient).Client(there)
	_, err := client.Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrRefused) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "preflight", "connection refused", "start its SSH server")
	host.Answer()
	if _, err := client.Run(newContext(t), nothing); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
}

func TestARefusalInPassingIsNoError(t *testing.T) {
	host := sshtest.Start(t)
	there := where(t, host)
	host.Silence()
	config := impatient
	config.Backoff, config.Attempts = 200*time.Millisecond, 7
	var dials int
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == 3 {
			host.Answer()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	if _, err := newPool(t, config).Client(there).Run(newContext(t), nothing); err != nil {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	host := sshtest.Start(t)
	config := impatient
	config.DialTimeout, config.Attempts = 200*time.Millisecond, 2
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // as packets do that nobody answers
		return nil, ctx.Err()
	}
	_, err := newPool(t, config).Client(where(t, host)).Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "preflight", "no answer within 200ms", "check that it is on")

	there := where(t, host)
	there.Address = "no-such-host.invalid"
	_, err = newPool(t, impatient).Client(there).Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, "no-such-host.invalid", "preflight")
}

func TestAHandshakeThatHangs(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	proxy.Stall()
	config := impatient
	config.HandshakeTimeout, config.Attempts = 300*time.Millisecond, 2
	_, err := newPool(t, config).Client(behind(t, host, proxy)).Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrTimeout) || proxy.Accepted() != 2 {
		t.Errorf("%d attempts, error %v", proxy.Accepted(), err)
	}
	assertSays(t, err, "preflight", "did not let us log in within 300ms")
}

func TestAHandshakeThatIsResetIsBegunAgain(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	for _, bytes := range []int64{10, 500, 1500} { // in the versions, the key exchange, the login or soon after
		proxy.ResetAfter(bytes)
		before := proxy.Accepted()
		pool := remote.NewPool(impatient)
		if _, err := pool.Client(behind(t, host, proxy)).RunIdempotent(newContext(t), nothing); err != nil {
			t.Errorf("reset after %d bytes: %v", bytes, err)
		}
		pool.Close()
		if proxy.Accepted() < before+2 {
			t.Errorf("reset after %d bytes: %d connections", bytes, proxy.Accepted()-before)
		}
	}
}

func TestLoginRefused(t *testing.T) {
	host := sshtest.Start(t)
	there := where(t, host)
	host.NewKey("authorized_keys") // in place of the one that we have
	proxy := sshtest.NewProxy(t, host)
	there.Address, there.Port = proxy.Address, proxy.Port
	_, err := newPool(t, impatient).Client(there).Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrAuthentication) || proxy.Accepted() != 1 {
		t.Errorf("%d attempts, error %v", proxy.Accepted(), err)
	}
	assertSays(t, err, host.Address, "preflight", "user root", "authorized_keys", there.Key.Authorized())
	if strings.Contains(err.Error(), "PRIVATE") {
		t.Error("the error has the private key in it")
	}
	there.Key = remote.Key{}
	if _, err := newPool(t, impatient).Client(there).Run(newContext(t), nothing); !errors.Is(err, remote.ErrAuthentication) {
		t.Errorf("without a key: %v", err)
	}
}

func TestAHostWithAnotherKeyIsRefused(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	if _, err := client.Run(newContext(t), nothing); err != nil {
		t.Fatal(err)
	}
	host.RenewHostKey()
	host.Disconnect()
	_, err := client.Run(newContext(t), nothing)
	keys, ok := errors.AsType[*remote.HostKeyError](err)
	if !errors.Is(err, remote.ErrHostKeyChanged) || !ok || keys.Pinned == keys.Found {
		t.Fatalf("error %v", err)
	}
	assertSays(t, err, host.Address, "preflight", keys.Pinned, keys.Found, "pin its new key")
	if _, err := newPool(t, impatient).Client(where(t, host)).Run(newContext(t), nothing); err != nil {
		t.Errorf("with the new key pinned: %v", err)
	}
}

func TestTrustOnFirstUse(t *testing.T) {
	host := sshtest.Start(t)
	there := where(t, host)
	there.HostKey = ""
	pool := newPool(t, impatient)
	_, err := pool.Client(there).Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrHostKeyUnknown) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "preflight", "SHA256:", "trust on first use")

	there.Trust = func(context.Context, string) error { return errors.New("it cannot be written down") }
	if _, err := pool.Client(there).Run(newContext(t), nothing); err == nil || !strings.Contains(err.Error(), "cannot be written down") {
		t.Errorf("error %v", err)
	}
	var mu sync.Mutex
	var seen []string
	there.Trust = func(_ context.Context, key string) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, key)
		return nil
	}
	var commands sync.WaitGroup
	for range 4 {
		commands.Go(func() {
			if _, err := pool.Client(there).Run(newContext(t), nothing); err != nil {
				t.Error(err)
			}
		})
	}
	commands.Wait()
	if len(seen) != 1 || seen[0] != host.HostKey {
		t.Errorf("trusted were %q", seen)
	}
	// Who forgets to pin what it was told is not trusted a second time, as long as the process lives.
	host.RenewHostKey()
	host.Disconnect()
	if _, err := pool.Client(there).Run(newContext(t), nothing); !errors.Is(err, remote.ErrHostKeyChanged) {
		t.Errorf("error %v", err)
	}
}

func TestThroughABastion(t *testing.T) {
	bastion, inner := sshtest.StartBastion(t), sshtest.Start(t)
	front, back := sshtest.NewProxy(t, bastion), sshtest.NewProxy(t, inner)
	door := behind(t, bastion, front)
	there := behind(t, inner, back)
	there.Bastion = &door
	pool := newPool(t, impatient)
	run := func() error {
		_, err := pool.Client(there).RunIdempotent(newContext(t), remote.Command{Step: "join", Args: []string{"true"}})
		return err
	}
	for range 2 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	if front.Accepted() != 1 || back.Accepted() != 1 {
		t.Errorf("%d connections to the bastion, %d to the host", front.Accepted(), back.Accepted())
	}
	front.Drop()
	if err := run(); err != nil {
		t.Errorf("after the bastion's connection broke: %v", err)
	}
	lonely := there
	lonely.Port = 1
	_, err := pool.Client(lonely).Run(newContext(t), nothing)
	if !errors.Is(err, remote.ErrRefused) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, "preflight", "from the bastion")

	strict := sshtest.StartBastion(t, "AllowTcpForwarding no")
	door = where(t, strict)
	_, err = pool.Client(there).Run(newContext(t), nothing)
	assertSays(t, err, "does not forward", "AllowTcpForwarding yes")

	door.HostKey = inner.HostKey
	if _, err = pool.Client(there).Run(newContext(t), nothing); !errors.Is(err, remote.ErrHostKeyChanged) {
		t.Errorf("error %v", err)
	}
}
