package remote_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

func TestArgumentsEnvironmentAndInputArriveAsTheyAre(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	awkward := []string{"", "a b", "it's", `"$HOME"`, "`id`", "$(id)", "a\nb", `\`, "*", "; exit 3", "-n", "ü€", "!x", "a\tb"}
	result, err := client.Run(newContext(t), remote.Command{
		Step: "echo", Args: append([]string{"printf", `<%s>\n`}, awkward...),
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "<" + strings.Join(awkward, ">\n<") + ">\n"; result.Stdout != want {
		t.Errorf("%q is not %q", result.Stdout, want)
	}
	env := map[string]string{"A": "it's a\nsecret 'x' $(id)", "EMPTY": ""}
	result, err = client.Run(newContext(t), remote.Command{
		Step: "env", Args: []string{"sh", "-c", `printf '%s|%s|%s|' "$A" "${EMPTY-unset}" "$(pwd)"; cat; ps axww >&2`}, Env: env, Stdin: []byte("swor\x00dfish\n\xff"), Dir: "/usr",
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := env["A"] + "||/usr|swor\x00dfish\n\xff"; result.Stdout != want {
		t.Errorf("%q is not %q", result.Stdout, want)
	}
	if !strings.Contains(result.Stderr, "sh -c") || strings.Contains(result.Stderr, "it's a") || strings.Contains(result.Stderr, "dfish") {
		t.Errorf("the list of processes:\n%s", result.Stderr)
	}
}

func TestOutputIsToldAsItComes(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	var mu sync.Mutex
	var lines []remote.Line
	heard := make(chan struct{}, 10)
	done := make(chan error, 1)
	go func() {
		_, err := client.Run(newContext(t), remote.Command{
			Step: "talk", Args: []string{"sh", "-c", `echo one; while [ ! -e /tmp/../run/go ]; do sleep 0.1; done; echo; echo two >&2; printf three`},
			Output: func(line remote.Line) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
				heard <- struct{}{}
			},
		})
		done <- err
	}()
	select {
	case <-heard:
	case <-time.After(patience):
		t.Fatal("the first line was not told while the command ran")
	}
	host.Do("touch /run/go")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range lines {
		if !line.Stderr {
			out = append(out, line.Text)
		}
	}
	if !slices.Equal(out, []string{"one", "", "three"}) || !slices.Contains(lines, remote.Line{Text: "two", Stderr: true}) {
		t.Errorf("lines %+v", lines)
	}
}

func TestExitCodesAreErrorsWithTheLastLines(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	_, err := client.Run(newContext(t), remote.Command{Step: "init", Args: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 42"}})
	exit, ok := errors.AsType[*remote.ExitError](err)
	if !ok || exit.Code != 42 || len(exit.Lines) != 5 || exit.Lines[4] != "line 7" {
		t.Errorf("error %#v", err)
	}
	assertSays(t, err, host.Address, "init", "exit code 42", "line 7")
	_, err = client.Run(newContext(t), remote.Command{Step: "init", Args: []string{"no-such-program", "secret?"}})
	if code, ok := remote.ExitCode(err); !ok || code != 127 {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, "no-such-program", "not found")
}

func TestWhatACommandLeavesBehindDoesNotHoldItUp(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	result, err := client.Run(newContext(t), remote.Command{Step: "daemon", Args: []string{"sh", "-c", "setsid sleep 1000 & echo started"}})
	if err != nil || result.Stdout != "started\n" {
		t.Errorf("%+v, error %v", result, err)
	}
	if out := host.Do("ps ax"); !strings.Contains(out, "sleep 1000") {
		t.Errorf("the daemon is gone:\n%s", out)
	}
}

func TestOneConnectionServesMany(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	pool := newPool(t, impatient)
	var commands sync.WaitGroup
	for range 20 {
		commands.Go(func() {
			if _, err := pool.Client(behind(t, host, proxy)).Run(newContext(t), remote.Command{Step: "many", Args: []string{"sleep", "0.1"}}); err != nil {
				t.Error(err)
			}
		})
	}
	commands.Wait()
	if proxy.Accepted() != 1 {
		t.Errorf("there were %d connections", proxy.Accepted())
	}
}

func TestAServerMayAllowFewerSessionsThanWeUse(t *testing.T) {
	host := sshtest.Start(t, "MaxSessions 2")
	proxy := sshtest.NewProxy(t, host)
	pool := newPool(t, impatient)
	var commands sync.WaitGroup
	for range 12 {
		commands.Go(func() {
			result, err := pool.Client(behind(t, host, proxy)).Run(newContext(t), remote.Command{Step: "many", Args: []string{"sh", "-c", "echo ran >>/root/ran; sleep 0.1; echo done"}})
			if err != nil || result.Stdout != "done\n" {
				t.Errorf("output %q, error %v", result.Stdout, err)
			}
		})
	}
	commands.Wait()
	if ran := strings.Count(host.Do("cat /root/ran"), "ran"); ran != 12 {
		t.Errorf("of 12 commands %d ran", ran)
	}
	if proxy.Accepted() != 1 {
		t.Errorf("there were %d connections", proxy.Accepted())
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	host := sshtest.Start(t)
	proxy := sshtest.NewProxy(t, host)
	config := impatient
	config.IdleTimeout = 200 * time.Millisecond
	client := newPool(t, config).Client(behind(t, host, proxy))
	for i := range 2 {
		if _, err := client.Run(newContext(t), remote.Command{Step: "work", Args: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		await(t, "the server's processes end", func() bool { return !strings.Contains(host.Do("ps ax"), "sshd: root") })
		if proxy.Accepted() != i+1 {
			t.Errorf("there were %d connections", proxy.Accepted())
		}
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	ctx, cancel := context.WithCancel(newContext(t))
	_, err := client.Run(ctx, remote.Command{
		Step: "wait", Args: []string{"sh", "-c", "echo begun; trap '' HUP; sleep 1001 | cat"}, Output: func(remote.Line) { cancel() },
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	await(t, "the command ends", func() bool { return !strings.Contains(host.Do("ps ax"), "sleep 1001") })
	if _, err := client.Run(newContext(t), remote.Command{Step: "next", Args: []string{"true"}}); err != nil {
		t.Errorf("the connection is of no more use: %v", err)
	}
}

func TestACommandThatHangsIsEnded(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	_, err := client.Run(newContext(t), remote.Command{
		Step: "pull-images", Args: []string{"sh", "-c", "echo pulling; trap '' TERM; sleep 1002 & wait; sleep 1003"}, Timeout: 2 * time.Second,
	})
	if !errors.Is(err, remote.ErrTimeout) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "pull-images", "did not end within 2s", "pulling")
	await(t, "the command ends", func() bool { return !strings.Contains(host.Do("ps ax"), "sleep 100") })
}

func TestAGuardedCommandRunsOnlyForTheOwner(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host)).Guarded("/etc/owner", "me\n")
	command := remote.Command{Step: "reset", Args: []string{"touch", "/etc/touched"}}
	host.Do("echo you >/etc/owner")
	_, err := client.Run(newContext(t), command)
	if _, exists := host.Try("test -e /etc/touched"); !errors.Is(err, remote.ErrGuard) || exists == nil {
		t.Errorf("error %v", err)
	}
	host.Do("echo me >/etc/owner")
	if _, err := client.Run(newContext(t), command); err != nil {
		t.Error(err)
	}
}

func TestSudo(t *testing.T) {
	host := sshtest.Start(t)
	host.AddUser("alice", "alice ALL=(ALL) NOPASSWD: ALL")
	host.AddUser("bob", "")
	pool := newPool(t, impatient)
	run := func(user string) (remote.Result, error) {
		there := where(t, host)
		there.User = user
		return pool.Client(there).Run(newContext(t), remote.Command{Step: "whoami", Args: []string{"sh", "-c", `id -u; echo "$SECRET"`}, Env: map[string]string{"SECRET": "x y"}})
	}
	if result, err := run("alice"); err != nil || result.Stdout != "0\nx y\n" {
		t.Errorf("%+v, error %v", result, err)
	}
	_, err := run("bob")
	if !errors.Is(err, remote.ErrSudo) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, host.Address, "whoami", "password is required", "bob ALL=(ALL) NOPASSWD: ALL")

	// A command of alice's ends as root's does, although she could not kill it.
	ctx, cancel := context.WithCancel(newContext(t))
	there := where(t, host)
	there.User = "alice"
	_, err = pool.Client(there).Run(ctx, remote.Command{Step: "wait", Args: []string{"sh", "-c", "echo; echo; sleep 1004"}, Output: func(remote.Line) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	await(t, "the command ends", func() bool { return !strings.Contains(host.Do("ps ax"), "sleep 1004") })

	host.Do("rm /usr/bin/sudo")
	_, err = run("bob")
	if !errors.Is(err, remote.ErrSudo) {
		t.Errorf("error %v", err)
	}
	assertSays(t, err, "sudo is missing", "install sudo")
}
