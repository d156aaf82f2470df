package netlab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// patience is how long a probe waits before it says that there is no way.
// Everything happens on one machine, but that may be busy.
const patience = 5 * time.Second

// shortPatience is for probes that should fail.
const shortPatience = 400 * time.Millisecond

// ServeTCP answers connections with the client's address as the server sees
// it, reads until the client has sent all, and says how much that was.
func (n *Namespace) ServeTCP(address string) {
	n.t.Helper()
	var listener net.Listener
	n.Do(func() (err error) {
		listener, err = net.Listen("tcp4", address)
		return err
	})
	n.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
}

func answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s\n", conn.RemoteAddr()); err != nil {
		return
	}
	received, err := io.Copy(io.Discard, conn)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(conn, "%d\n", received)
}

// ServeUDP answers each datagram with the client's address and its length.
func (n *Namespace) ServeUDP(address string) {
	n.t.Helper()
	var conn net.PacketConn
	n.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", address)
		return err
	})
	n.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			length, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(fmt.Appendf(nil, "%s %d", from, length), from)
		}
	}()
}

// ListenUDP returns a function that waits for the next datagram and tells where
// it came from. Nothing is answered.
func (n *Namespace) ListenUDP(address string) (next func() (netip.Addr, error)) {
	n.t.Helper()
	var conn net.PacketConn
	n.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", address)
		return err
	})
	n.t.Cleanup(func() { _ = conn.Close() })
	return func() (netip.Addr, error) {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return netip.Addr{}, err
		}
		_, from, err := conn.ReadFrom(make([]byte, 1))
		if err != nil {
			return netip.Addr{}, err
		}
		return addrOf(from.String())
	}
}

// ThrowUDP sends a datagram from an address of the caller's choice and waits for
// nothing.
func (n *Namespace) ThrowUDP(source, address string) error {
	return n.Try(func() error {
		local, err := net.ResolveUDPAddr("udp4", net.JoinHostPort(source, "0"))
		if err != nil {
			return err
		}
		remote, err := net.ResolveUDPAddr("udp4", address)
		if err != nil {
			return err
		}
		conn, err := net.DialUDP("udp4", local, remote)
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte{1})
		return errors.Join(err, conn.Close())
	})
}

// SendTCP connects, sends size bytes and returns which address the server saw.
func (n *Namespace) SendTCP(address string, size int) (netip.Addr, error) {
	return n.exchange(address, size, patience)
}

// BlockedTCP tells whether a connection is not answered.
func (n *Namespace) BlockedTCP(address string) bool {
	_, err := n.exchange(address, 0, shortPatience)
	return err != nil
}

// BlockedUDP tells whether a datagram is not answered.
func (n *Namespace) BlockedUDP(address string) bool {
	conn, err := n.dial("udp4", address, shortPatience)
	if err != nil {
		return true
	}
	defer func() { _ = conn.Close() }()
	_, err = exchangeUDP(conn, 1, shortPatience)
	return err != nil
}

func (n *Namespace) exchange(address string, size int, wait time.Duration) (netip.Addr, error) {
	conn, err := n.dial("tcp4", address, wait)
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(wait + time.Duration(size)*time.Microsecond)); err != nil {
		return netip.Addr{}, err
	}
	reader := bufio.NewReader(conn)
	seen, err := reader.ReadString('\n')
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read greeting: %w", err)
	}
	if _, err := conn.Write(make([]byte, size)); err != nil {
		return netip.Addr{}, fmt.Errorf("send: %w", err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return netip.Addr{}, fmt.Errorf("send: %w", err)
	}
	received, err := reader.ReadString('\n')
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read receipt: %w", err)
	}
	if got := strings.TrimSpace(received); got != fmt.Sprint(size) {
		return netip.Addr{}, fmt.Errorf("server received %s bytes of %d", got, size)
	}
	return addrOf(strings.TrimSpace(seen))
}

// SendUDP sends one datagram and returns which address the server saw.
func (n *Namespace) SendUDP(address string, size int) (netip.Addr, error) {
	conn, err := n.dial("udp4", address, patience)
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = conn.Close() }()
	return ExchangeUDP(conn, size)
}

// DialUDP opens a socket that can be used again and again.
func (n *Namespace) DialUDP(address string) net.Conn {
	n.t.Helper()
	conn, err := n.dial("udp4", address, patience)
	if err != nil {
		n.t.Fatalf("open UDP socket: %v", err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ExchangeUDP sends datagrams until one is answered, as the first ones after a
// change may be lost to path MTU discovery or to a stale flow.
func ExchangeUDP(conn net.Conn, size int) (netip.Addr, error) {
	return exchangeUDP(conn, size, patience)
}

func exchangeUDP(conn net.Conn, size int, wait time.Duration) (netip.Addr, error) {
	deadline := time.Now().Add(wait)
	buffer := make([]byte, 1<<16)
	var last error
	for time.Now().Before(deadline) {
		if err := conn.SetDeadline(time.Now().Add(shortPatience)); err != nil {
			return netip.Addr{}, err
		}
		if _, last = conn.Write(make([]byte, size)); last != nil {
			continue
		}
		var length int
		if length, last = conn.Read(buffer); last != nil {
			continue
		}
		seen, received, _ := strings.Cut(string(buffer[:length]), " ")
		if received != fmt.Sprint(size) {
			return netip.Addr{}, fmt.Errorf("server received %s bytes of %d", received, size)
		}
		return addrOf(seen)
	}
	return netip.Addr{}, fmt.Errorf("no answer: %w", last)
}

func (n *Namespace) dial(network, address string, wait time.Duration) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: wait}
	err = n.Try(func() error {
		conn, err = dialer.Dial(network, address)
		return err
	})
	return conn, err
}

func addrOf(hostPort string) (netip.Addr, error) {
	parsed, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}, errors.New("server sent " + hostPort)
	}
	return parsed.Addr(), nil
}
