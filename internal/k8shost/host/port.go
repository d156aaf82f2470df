package host

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Port is a TCP port that a component will listen on.
type Port struct {
	Number int `json:"number"`
	// Address is the one to be bound; empty means all of them.
	Address string `json:"address,omitempty"`
	// For names the component.
	For string `json:"for"`
}

// PortState tells whether a port can be had.
type PortState struct {
	Port
	Free bool `json:"free"`
	// Holder is the program that has it, as "name (pid 42)", where it can be told.
	Holder string `json:"holder,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ProbePorts tries to listen on each port in the caller's network namespace.
func ProbePorts(ports []Port) []PortState {
	states := make([]PortState, 0, len(ports))
	for _, p := range ports {
		state := PortState{Port: p}
		listener, err := net.Listen("tcp", net.JoinHostPort(p.Address, strconv.Itoa(p.Number)))
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			state.Error = err.Error()
		}
		state.Free = err == nil
		if errors.Is(err, unix.EADDRINUSE) {
			state.Holder = holder(p.Number)
		}
		states = append(states, state)
	}
	return states
}

// holder finds the process listening on a port: its socket's inode is in the kernel's
// table, and the process has a descriptor of that inode.
func holder(port int) string {
	for _, table := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		inode := listening(table, port)
		if inode == "" {
			continue
		}
		links, err := filepath.Glob("/proc/[0-9]*/fd/*")
		if err != nil {
			return ""
		}
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == "socket:["+inode+"]" {
				pid := strings.Split(link, "/")[2]
				name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
				return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
			}
		}
	}
	return ""
}

// listening gives the inode of the listening socket on a port, from lines such as
// "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 …".
func listening(table string, port int) string {
	file, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	want := strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[3] == "0A" && strings.HasSuffix(fields[1], ":"+want) {
			return fields[9]
		}
	}
	return ""
}
