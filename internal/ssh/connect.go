package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

var (
	errClosed = errors.New("it was closed here")
	errSilent = errors.New("the host no longer answers")
)

// dial makes a new connection to a host.
func (p *Pool) dial(ctx context.Context, host Host, s *slot) (*connection, error) {
	if host.Key.signer == nil {
		return nil, &Error{Host: host.String(), Kind: ErrAuthentication, Remedy: "there is no private key to log in with: name its Secret in the account"}
	}
	way, release, err := p.reach(ctx, host)
	if err != nil {
		return nil, err
	}
	raw := &witness{Conn: way}
	client, err := p.shake(ctx, host, s, raw)
	if err != nil {
		_ = raw.Close()
		release()
		return nil, err
	}
	conn := newConnection(client, raw, host, release)
	go conn.watch(p.config.KeepAlive, p.config.IdleTimeout)
	return conn, nil
}

// reach opens the way to a host. What is returned besides lets go of the way again.
func (p *Pool) reach(ctx context.Context, host Host) (net.Conn, func(), error) {
	dial, release, via := p.config.Dial, func() {}, ""
	if host.Bastion != nil {
		bastion, err := p.connect(ctx, *host.Bastion)
		if err != nil {
			return nil, nil, fmt.Errorf("reach %s through its bastion: %w", host, err)
		}
		bastion.hold()
		dial, release, via = bastion.client.DialContext, bastion.release, fmt.Sprintf(" from the bastion %s", host.Bastion)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.DialTimeout, errDialTimeout)
	defer cancel()
	raw, err := dial(ctx, "tcp", host.address())
	if err == nil {
		return raw, release, nil
	}
	release()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errDialTimeout) {
		return nil, nil, ctx.Err()
	}
	return nil, nil, unreached(host, via, p.config.DialTimeout, err)
}

var errDialTimeout = errors.New("dial timeout")

// unreached says why there was no way to a host.
func unreached(host Host, via string, patience time.Duration, err error) error {
	failure := &Error{Host: host.String(), Kind: ErrUnreachable, Cause: err}
	failure.Remedy = fmt.Sprintf("check that it is on, that %s is its address, and that nothing is in the way%s", host.Address, via)
	refusal, byBastion := errors.AsType[*ssh.OpenChannelError](err)
	dns, noName := errors.AsType[*net.DNSError](err)
	switch {
	case byBastion && refusal.Reason == ssh.Prohibited:
		failure.Cause = errors.New("the bastion does not forward connections")
		failure.Remedy = fmt.Sprintf("allow it on %s: AllowTcpForwarding yes in its sshd_config", host.Bastion)
	case errors.Is(err, syscall.ECONNREFUSED), byBastion && strings.Contains(strings.ToLower(refusal.Message), "refused"):
		failure.Kind = ErrRefused
		failure.Remedy = fmt.Sprintf("start its SSH server, or correct the port%s", via)
	case noName:
		failure.Cause = fmt.Errorf("no such name: %s", dns.Name)
		failure.Remedy = "correct the address, or give an IP address"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		failure.Cause = fmt.Errorf("no answer within %s", patience)
	}
	return failure
}

// shake logs in.
func (p *Pool) shake(ctx context.Context, host Host, s *slot, raw net.Conn) (*ssh.Client, error) {
	pinned := s.trusted
	if host.HostKey != "" {
		key, err := parseHostKey(host.HostKey)
		if err != nil {
			return nil, &Error{Host: host.String(), Kind: ErrHostKeyUnknown, Cause: err}
		}
		pinned = key
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.HandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	// Connections through a bastion have no deadlines: closing them ends a handshake that hangs.
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	config := &ssh.ClientConfig{
		User: host.user(), Auth: []ssh.AuthMethod{ssh.PublicKeys(host.Key.signer)}, ClientVersion: "SSH-2.0-PlasmaCloud",
		HostKeyAlgorithms: algorithms(pinned),
		HostKeyCallback:   func(_ string, _ net.Addr, key ssh.PublicKey) error { return check(ctx, host, s, pinned, key) },
	}
	conn, channels, requests, err := ssh.NewClientConn(raw, host.address(), config)
	switch {
	case err == nil:
		return ssh.NewClient(conn, channels, requests), nil
	case errors.Is(context.Cause(ctx), errHandshakeTimeout):
		return nil, &Error{Host: host.String(), Kind: ErrTimeout, Cause: fmt.Errorf("it accepted the connection, but did not let us log in within %s", p.config.HandshakeTimeout),
			Remedy: "check that SSH listens at this port, and the load of the host"}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, refused(host, pinned, err)
}

var errHandshakeTimeout = errors.New("handshake timeout")

// check compares the key that a host shows to what it should be.
func check(ctx context.Context, host Host, s *slot, pinned, key ssh.PublicKey) error {
	found := ssh.FingerprintSHA256(key)
	switch {
	case pinned != nil && string(pinned.Marshal()) == string(key.Marshal()):
		return nil
	case pinned != nil:
		return changed(host, &HostKeyError{Pinned: ssh.FingerprintSHA256(pinned), Found: found})
	case host.Trust == nil:
		return &Error{Host: host.String(), Kind: ErrHostKeyUnknown, Cause: fmt.Errorf("it shows %s", found),
			Remedy: "compare that with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host and pin the key in the account, or let the account trust on first use"}
	}
	if err := host.Trust(ctx, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))); err != nil {
		return fmt.Errorf("trust host %s, which shows %s: %w", host, found, err)
	}
	s.trusted = key
	return nil
}

func changed(host Host, keys *HostKeyError) error {
	return &Error{Host: host.String(), Kind: ErrHostKeyChanged, Cause: keys,
		Remedy: "somebody may pretend to be the host; if it was installed anew, pin its new key in the account"}
}

// refused says why there was no handshake.
func refused(host Host, pinned ssh.PublicKey, err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	negotiation, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case ok && pinned != nil && strings.Contains(negotiation.Error(), "host key"):
		return changed(host, &HostKeyError{Pinned: ssh.FingerprintSHA256(pinned)})
	case ok:
		return &Error{Host: host.String(), Kind: ErrUnreachable, Cause: err, Remedy: "its SSH server is too old, or allows too little"}
	case strings.Contains(err.Error(), "unable to authenticate"):
		return &Error{Host: host.String(), Kind: ErrAuthentication, Cause: fmt.Errorf("it does not accept the key %s of user %s", host.Key.fingerprint(), host.user()),
			Remedy: fmt.Sprintf("add this to the authorized_keys of %s: %s", host.user(), host.Key.Authorized())}
	case lost(err):
		return &Error{Host: host.String(), Kind: ErrLost, Cause: fmt.Errorf("while logging in: %w", err),
			Remedy: "check the network, and the log of the host's SSH server"}
	}
	return fmt.Errorf("log in to %s: %w", host, err)
}

// LogIn tells whether the host lets us in now. It makes a connection for that, and ends it: one that there was before
// would only tell that the host did.
func (c *Client) LogIn(ctx context.Context, step string) error {
	shared := c.pool.slot(c.host)
	select {
	case shared.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	alone := &slot{trusted: shared.trusted}
	<-shared.turn
	conn, err := c.anyhow(ctx, step, func() (*connection, error) { return c.pool.dial(ctx, c.host, alone) })
	if err == nil {
		conn.close(errClosed)
	}
	return err
}

// connectAnyhow connects, again where the network may have been at fault, and lets errors say at which step that was.
func (c *Client) connectAnyhow(ctx context.Context, step string) (*connection, error) {
	return c.anyhow(ctx, step, func() (*connection, error) { return c.pool.connect(ctx, c.host) })
}

func (c *Client) anyhow(ctx context.Context, step string, connect func() (*connection, error)) (*connection, error) {
	var last error
	for attempt := range c.pool.config.Attempts {
		if err := c.pause(ctx, attempt); err != nil {
			return nil, err
		}
		conn, err := connect()
		if err == nil {
			return conn, nil
		}
		last = err
		if !worthAnother(err) {
			break
		}
	}
	if failure, ok := errors.AsType[*Error](last); ok && failure.Step == "" {
		named := *failure // the error may be shared
		named.Step = step
		return nil, &named
	}
	return nil, last
}

// worthAnother tells whether a moment later it may look different.
func worthAnother(err error) bool {
	for _, kind := range []error{ErrRefused, ErrUnreachable, ErrLost, ErrTimeout} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// pause waits before another attempt.
func (c *Client) pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(c.pool.config.Backoff << (attempt - 1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
