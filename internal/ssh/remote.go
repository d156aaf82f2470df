// Package remote does things on hosts over SSH: it runs commands, lays files, and tells what a host is.
//
// A Pool keeps one connection to each host, which everything shares. A Client is a host as its user sees it; it connects
// when there is something to do. Whoever writes a provisioning step needs no more than
//
//	host := pool.Client(remote.Host{Address: "10.0.0.5", Key: key, HostKey: pinned})
//	_, err := host.RunIdempotent(ctx, remote.Command{Step: "join", Args: []string{"kubeadm", "join", "--config", path}})
//
// Three promises matter to steps. A command is run again only where that was asked for (RunIdempotent), and never beside
// the first, which is ended before. A command does not outlive its connection: when the caller's context ends, or the
// caller, the command is ended too. And what is secret goes through standard input, so that neither the host's list of
// processes nor a log shows it: environment, input and files may be secret, arguments may not.
//
// Nothing of Kubernetes and nothing of machines belongs here.
package remote

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Host is where to log in, and as whom.
type Host struct {
	// Address is a name or an IP address; Port is 22 where it is zero.
	Address string
	Port    int
	// User to log in as; root where it is empty. Any other becomes root by sudo, which must not ask for a password.
	User string
	Key  Key
	// HostKey is the host's public key, as in known_hosts without the host. A host with another key is refused.
	HostKey string
	// Trust is asked about the key of a host that has none pinned, before anything is said to it. It records the key, so
	// that it is pinned from then on, or returns an error. Without it such a host is refused.
	Trust func(ctx context.Context, hostKey string) error
	// Bastion to go through; nil where the host is reached directly.
	Bastion *Host
}

func (h Host) user() string { return cmp.Or(h.User, "root") }

func (h Host) address() string { return net.JoinHostPort(h.Address, strconv.Itoa(cmp.Or(h.Port, 22))) }

// String names the host to people.
func (h Host) String() string {
	if cmp.Or(h.Port, 22) == 22 {
		return h.Address
	}
	return h.address()
}

// identity is the same for hosts that can share a connection.
func (h Host) identity() string {
	parts := []string{h.user(), h.address(), h.HostKey, h.Key.fingerprint()}
	if h.Bastion != nil {
		parts = append(parts, h.Bastion.identity())
	}
	return strings.Join(parts, "\n")
}

// Config is how patient a Pool is. What is zero has a default.
type Config struct {
	// DialTimeout is for reaching a host (10 s), HandshakeTimeout for logging in (20 s), CommandTimeout for commands
	// that name none of their own (10 min).
	DialTimeout, HandshakeTimeout, CommandTimeout time.Duration
	// KeepAlive is how often a peer is asked whether it is there (15 s), and how long it has to answer.
	KeepAlive time.Duration
	// IdleTimeout is how long a connection is kept that nobody uses (5 min).
	IdleTimeout time.Duration
	// Attempts is how often something is begun that a broken connection ended (4), and Backoff the wait before the second
	// attempt (1 s), which doubles with each.
	Attempts int
	Backoff  time.Duration
	// Dial opens connections; a net.Dialer's DialContext where it is nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (c Config) complete() Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, 10*time.Second)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 20*time.Second)
	c.CommandTimeout = cmp.Or(c.CommandTimeout, 10*time.Minute)
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.Attempts = cmp.Or(c.Attempts, 4)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c
}

// Pool keeps connections to hosts.
type Pool struct {
	config Config

	mu    sync.Mutex
	slots map[string]*slot
}

// slot is the place of one host's connection. Whoever holds its turn may look at it and replace it.
type slot struct {
	turn    chan struct{}
	conn    *connection
	trusted ssh.PublicKey // what the host showed at first use
}

// NewPool returns a pool without connections.
func NewPool(config Config) *Pool {
	return &Pool{config: config.complete(), slots: map[string]*slot{}}
}

// Close ends all connections. What is under way fails with ErrLost.
func (p *Pool) Close() {
	p.mu.Lock()
	slots := p.slots
	p.slots = map[string]*slot{}
	p.mu.Unlock()
	for _, s := range slots {
		s.turn <- struct{}{}
		if s.conn != nil {
			s.conn.close(errClosed)
		}
		<-s.turn
	}
}

// Client returns the host as something to work on. It does not connect yet.
func (p *Pool) Client(host Host) *Client { return &Client{pool: p, host: host} }

func (p *Pool) slot(host Host) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	identity := host.identity()
	s := p.slots[identity]
	if s == nil {
		s = &slot{turn: make(chan struct{}, 1)}
		p.slots[identity] = s
	}
	return s
}

// connect returns the connection to a host, an old one where it lives. It tries once.
func (p *Pool) connect(ctx context.Context, host Host) (*connection, error) {
	s := p.slot(host)
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.conn != nil && s.conn.alive() {
		return s.conn, nil
	}
	conn, err := p.dial(ctx, host, s)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// Client is a host to work on. Its methods may be called at the same time.
type Client struct {
	pool *Pool
	host Host
	// guard is a file on the host, and token what must be in it.
	guard, token string
}

// Guarded returns a client whose commands run only while a file on the host has the given content, spaces at its end
// aside. It keeps somebody who worked on the host too long ago from doing harm to who has it now. Uploads, downloads,
// facts and sessions do not look.
func (c *Client) Guarded(file, content string) *Client {
	return &Client{pool: c.pool, host: c.host, guard: file, token: strings.TrimSpace(content)}
}

// Host is where the client logs in.
func (c *Client) Host() Host { return c.host }

// fail makes an error about the host.
func (c *Client) fail(step string, kind, cause error, remedy string, args ...any) error {
	return &Error{Host: c.host.String(), Step: step, Kind: kind, Cause: cause, Remedy: fmt.Sprintf(remedy, args...)}
}
