package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

const (
	netnsDir = "/run/netns"
	// segmentCount is how many separate segments the network has. Nodes on different ones reach each other through a
	// router only, so that their pods need a tunnel.
	segmentCount = 2
)

func (l *Lab) namespace(name string) string { return l.name + "-" + name }

func namespacePath(namespace string) string { return filepath.Join(netnsDir, namespace) }

func gateway(segment int) string { return fmt.Sprintf("192.168.%d.1", 70+segment) }

// makeSwitch makes the namespace that stands for the network: a bridge for each segment, and a router between them.
// It leads nowhere else, so that a node that wants something from the Internet is found out.
func (l *Lab) makeSwitch() error {
	namespace := l.namespace("switch")
	if err := makeNamespace(namespace); err != nil {
		return err
	}
	var script strings.Builder
	for segment := range segmentCount {
		fmt.Fprintf(&script, "link add seg%d type bridge\naddr add %s/24 dev seg%d\nlink set seg%d up\n",
			segment, gateway(segment), segment, segment)
	}
	if err := ip(script.String(), "-n", namespace); err != nil {
		return fmt.Errorf("make switch: %w", err)
	}
	return linux.InNamespace(namespacePath(namespace), func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
}

// plugIn makes a node's namespace and connects it to a segment. It returns the node's address and the switch's end of its cable.
func (l *Lab) plugIn(namespace string, segment int) (address, port string, err error) {
	if err := makeNamespace(namespace); err != nil {
		return "", "", err
	}
	l.segments[segment]++
	number := 10 + l.segments[segment]
	address = fmt.Sprintf("192.168.%d.%d", 70+segment, number)
	port = fmt.Sprintf("port%d-%d", segment, number)
	if err := ip(fmt.Sprintf("link add eth0 netns %s type veth peer name %s netns %s", namespace, port, l.namespace("switch"))); err != nil {
		return "", "", fmt.Errorf("plug in node: %w", err)
	}
	if err := ip(fmt.Sprintf("link set %s master seg%d up", port, segment), "-n", l.namespace("switch")); err != nil {
		return "", "", fmt.Errorf("plug in node: %w", err)
	}
	script := fmt.Sprintf("addr add %s/24 dev eth0\nlink set eth0 up\nroute add default via %s", address, gateway(segment))
	if err := ip(script, "-n", namespace); err != nil {
		return "", "", fmt.Errorf("plug in node: %w", err)
	}
	return address, port, nil
}

func makeNamespace(namespace string) error {
	if output, err := exec.Command("ip", "netns", "add", namespace).CombinedOutput(); err != nil {
		return fmt.Errorf("make network namespace %s: %w: %s", namespace, err, output)
	}
	return ip("link set lo up", "-n", namespace)
}

// ip runs a script of ip(8) commands.
func ip(script string, options ...string) error {
	cmd := exec.Command("ip", append(options, "-batch", "-")...)
	cmd.Stdin = strings.NewReader(script + "\n")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(options, " "), err, output)
	}
	return nil
}

// Dial connects as a program on the node would.
func (n *Node) Dial(ctx context.Context, network, address string) (connection net.Conn, err error) {
	err = linux.InNamespace(namespacePath(n.namespace), func() error {
		connection, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

func dialable(ctx context.Context, address string) error {
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// Unplug pulls the node's cable: to the others it is as if the node had no power any more. PlugIn undoes it.
func (n *Node) Unplug(t testing.TB) { n.setCable(t, "down") }

// PlugIn connects the node again.
func (n *Node) PlugIn(t testing.TB) { n.setCable(t, "up") }

// setCable acts on the switch's end, so that the node keeps its routes.
func (n *Node) setCable(t testing.TB, state string) {
	t.Helper()
	if err := ip("link set "+n.port+" "+state, "-n", n.lab.namespace("switch")); err != nil {
		t.Fatal(err)
	}
}

// Listen takes a port on the node.
func (n *Node) Listen(address string) (listener net.Listener, err error) {
	err = linux.InNamespace(namespacePath(n.namespace), func() error {
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener, err
}

// Fetch gets what a URL says to a program on the node.
func (n *Node) Fetch(url string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}

// Route tells which way the node's packets to an address go, in the words of ip-route(8).
func (n *Node) Route(address string) (string, error) {
	output, err := exec.Command("ip", "-n", n.namespace, "route", "get", address).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ip route get %s: %w: %s", address, err, output)
	}
	return strings.TrimSpace(string(output)), nil
}
