package sshtest

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is a network between a test and a host, which fails as it is told.
type Proxy struct {
	Address string
	Port    int

	target   string
	listener net.Listener
	flows    sync.WaitGroup
	accepted atomic.Int64

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	resume chan struct{} // is closed while bytes flow
	budget int64         // bytes to the host before the connection is reset; none where negative
	used   bool          // whether it was reset
}

// NewProxy starts a proxy to a host. It ends with the test.
func NewProxy(tb testing.TB, host *Host) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{
		Address: "127.0.0.1", target: net.JoinHostPort(host.Address, strconv.Itoa(host.Port)), listener: listener,
		conns: map[net.Conn]struct{}{}, resume: make(chan struct{}), budget: -1,
	}
	close(p.resume)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	p.Port, _ = strconv.Atoi(port)
	p.flows.Go(p.accept)
	tb.Cleanup(func() { _ = p.Close() })
	return p
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Resume()
	p.Drop()
	p.flows.Wait()
	return err
}

// Accepted counts connections.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Drop resets all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// Stall lets no byte through any more, in either direction, and tells nobody.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resume = make(chan struct{})
}

// Resume ends a stall; for connections that did not survive it, that is.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resume:
	default:
		close(p.resume)
	}
}

// ResetAfter resets the next connection that sends so many bytes to the host, once.
func (p *Proxy) ResetAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget, p.used = bytes, false
}

// Spent tells whether the connection that ResetAfter means was reset.
func (p *Proxy) Spent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

func (p *Proxy) accept() {
	for {
		inside, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		outside, err := net.Dial("tcp", p.target)
		if err != nil {
			reset(inside)
			continue
		}
		p.mu.Lock()
		p.conns[inside], p.conns[outside] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.flows.Go(func() { p.flow(outside, inside, true) })
		p.flows.Go(func() { p.flow(inside, outside, false) })
	}
}

// flow carries bytes in one direction.
func (p *Proxy) flow(to, from net.Conn, inward bool) {
	defer func() {
		reset(to)
		reset(from)
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		gate := p.resume
		p.mu.Unlock()
		<-gate
		if inward && p.spent(int64(n)) {
			return
		}
		if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// spent tells whether a connection has had its bytes.
func (p *Proxy) spent(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget < 0 {
		return false
	}
	p.budget -= n
	p.used = p.budget < 0
	return p.used
}
