package remote_test

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

func TestATunnelLeadsToWhatTheHostReaches(t *testing.T) {
	t.Parallel()
	host := sshtest.Start(t)
	host.Listen(2222) // in the host's own network, where nobody else gets
	client := newPool(t, impatient).Client(where(t, host))
	conn, err := client.Dial(newContext(t), "etcd", "tcp", "127.0.0.1:2222")
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "SSH-2.0") {
		t.Errorf("%q, %v", line, err)
	}
	for range 2 {
		_ = conn.Close() // once is enough, twice does no harm
	}
	_, err = client.Dial(newContext(t), "etcd", "tcp", "127.0.0.1:2223")
	if !errors.Is(err, remote.ErrRefused) {
		t.Errorf("nobody listens: %v", err)
	}
	assertSays(t, err, host.Address, "etcd", "see that something listens on 127.0.0.1:2223")
}

func TestAHostThatForwardsNothingSaysSo(t *testing.T) {
	t.Parallel()
	host := sshtest.Start(t, "AllowTcpForwarding no")
	_, err := newPool(t, impatient).Client(where(t, host)).Dial(newContext(t), "etcd", "tcp", "127.0.0.1:2379")
	if !errors.Is(err, remote.ErrRefused) {
		t.Fatal(err)
	}
	assertSays(t, err, host.Address, "etcd", "AllowTcpForwarding yes")
}
