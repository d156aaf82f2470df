package remote

import (
	"context"
	"errors"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Dial connects to an address as a program on the host would: through the connection to the host. The result ends with
// that connection.
func (c *Client) Dial(ctx context.Context, step, network, address string) (net.Conn, error) {
	conn, err := c.connectAnyhow(ctx, step)
	if err != nil {
		return nil, err
	}
	conn.hold()
	through, err := conn.client.DialContext(ctx, network, address)
	if err == nil {
		return &tunnel{Conn: through, letGo: sync.OnceFunc(conn.release)}, nil
	}
	conn.release()
	refused, isRefused := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isRefused && refused.Reason == ssh.Prohibited:
		return nil, c.fail(step, ErrRefused, refused, "let its SSH server forward connections: AllowTcpForwarding yes")
	case isRefused:
		return nil, c.fail(step, ErrRefused, refused, "see that something listens on %s there", address)
	default:
		return nil, c.fail(step, ErrLost, err, "check the network to the host")
	}
}

// tunnel holds the connection that it goes through.
type tunnel struct {
	net.Conn
	letGo func()
}

// Close ends the tunnel.
func (t *tunnel) Close() error {
	defer t.letGo()
	return t.Conn.Close()
}
