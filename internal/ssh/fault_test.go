package remote_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

// counting says how often it was begun, and goes on until it is told to end.
var counting = remote.Command{
	Step: "kubeadm-init",
	Args: []string{"sh", "-c", `echo begun >>/run/count; echo begun; while [ ! -e /run/go ]; do sleep 0.1; done; echo ended`},
}

func begun(host *sshtest.Host) int {
	out, _ := host.Try("cat /run/count")
	return strings.Count(out, "begun")
}

// faults are what happens to a connection in the middle of a command.
var faults = map[string]func(*sshtest.Host, *sshtest.Proxy){
	"reset": func(_ *sshtest.Host, proxy *sshtest.Proxy) { proxy.Drop() },
	"stalled": func(_ *sshtest.Host, proxy *sshtest.Proxy) {
		proxy.Stall()
		time.AfterFunc(7*time.Second, proxy.Resume)
	},
	"ended by the server": func(host *sshtest.Host, _ *sshtest.Proxy) { host.Do("pkill -f '^sshd: root' -o") },
}

func TestACommandThatMayHaveRunIsNotRunAgain(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := sshtest.Start(t)
			proxy := sshtest.NewProxy(t, host)
			command := counting
			command.Output = func(remote.Line) { go fault(host, proxy) }
			_, err := newPool(t, impatient).Client(behind(t, host, proxy)).Run(newContext(t), command)
			if !errors.Is(err, remote.ErrLost) || begun(host) != 1 {
				t.Errorf("begun %d times, error %v", begun(host), err)
			}
			assertSays(t, err, host.Address, "kubeadm-init", "connection lost", "check the network")
			// It does not outlive its connection, once the host knows of that.
			await(t, "the command ends", func() bool { return !strings.Contains(host.Do("ps ax"), "/run/count") })
		})
	}
}

func TestAnIdempotentCommandResumesAndNeverRunsTwiceAtOnce(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := sshtest.Start(t)
			proxy := sshtest.NewProxy(t, host)
			command := counting
			command.Args = []string{"sh", "-c", `exec 8>/run/alone; flock -n 8 || exit 9; ` + counting.Args[2]}
			starts := 0
			command.Output = func(line remote.Line) {
				if line.Text != "begun" {
					return
				}
				if starts++; starts == 1 {
					go fault(host, proxy)
				} else {
					go host.Do("touch /run/go")
				}
			}
			result, err := newPool(t, impatient).Client(behind(t, host, proxy)).RunIdempotent(newContext(t), command)
			if err != nil || result.Stdout != "begun\nended\n" || begun(host) != 2 {
				t.Errorf("begun %d times, %+v, error %v", begun(host), result, err)
			}
		})
	}
}

func TestAStaleConnectionIsReplacedSilently(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	client := newPool(t, impatient).Client(behind(t, host, proxy))
	for range 3 {
		if _, err := client.Run(newContext(t), nothing); err != nil {
			t.Fatal(err)
		}
		proxy.Drop()
	}
	if proxy.Accepted() != 3 {
		t.Errorf("there were %d connections", proxy.Accepted())
	}
}

func TestADeadPeerIsNoticedWithoutTraffic(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	command := counting
	command.Output = func(remote.Line) { proxy.Stall() }
	begin := time.Now()
	_, err := newPool(t, impatient).Client(behind(t, host, proxy)).Run(newContext(t), command)
	if !errors.Is(err, remote.ErrLost) || time.Since(begin) > patience {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
	assertSays(t, err, "no longer answers")
}
