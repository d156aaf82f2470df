package redis

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/queuetest"
	"plasmacloud.io/plasmacloud/internal/task/redis/redistest"
)

// consumerEnv makes the test binary a consumer of the queue whose address, password and prefix it holds. It writes a
// line to standard output when it begins to handle an item and when it ends.
const consumerEnv = "REDIS_QUEUE_CONSUMER"

func TestMain(m *testing.M) {
	if settings := strings.Fields(os.Getenv(consumerEnv)); len(settings) == 3 {
		consume(Config{Address: settings[0], Password: settings[1], Prefix: settings[2]})
		return
	}
	os.Exit(m.Run())
}

func consume(config Config) {
	queue, err := New(config, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	err = queue.Run(context.Background(), func(_ context.Context, item task.Item) task.Result {
		fmt.Println("begin", item.Task.Name, item.Key)
		if strings.HasPrefix(item.Task.Name, "endless") {
			select {}
		}
		time.Sleep(100 * time.Millisecond)
		fmt.Println("end", item.Task.Name, item.Key)
		return task.Result{}
	}, task.Options{Concurrency: 4})
	panic(err)
}

func open(t *testing.T, config Config) *Queue {
	t.Helper()
	queue, err := New(config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := queue.Close(); err != nil {
			t.Error(err)
		}
	})
	return queue
}

func item(name, key string) task.Item {
	return task.Item{Task: types.NamespacedName{Namespace: "test", Name: name}, UID: types.UID("uid-" + name), Key: key}
}

func TestConformance(t *testing.T) {
	server := redistest.New(t)
	var stores atomic.Int32
	queuetest.Run(t, queuetest.Implementation{
		Store: func(t *testing.T) func() task.Queue {
			config := Config{Address: server.Address, Password: server.Password, Prefix: fmt.Sprintf("store-%d", stores.Add(1)), Partitions: 2}
			return func() task.Queue { return open(t, config) }
		},
		Unit:     time.Second,
		Lateness: 4 * time.Second,
	})
}

// start runs a consumer in a process of its own.
func start(t *testing.T, config Config) (process *exec.Cmd, lines <-chan string) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", consumerEnv, config.Address, config.Password, config.Prefix))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	said := make(chan string, 1000)
	go func() {
		defer close(said)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			said <- scanner.Text()
		}
	}()
	return command, said
}

func next(t *testing.T, lines ...<-chan string) string {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		for _, l := range lines {
			select {
			case line := <-l:
				return line
			default:
			}
		}
		select {
		case <-timeout:
			t.Fatal("the consumers are silent")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestProcessesHandleOneItemPerKeyAtATime(t *testing.T) {
	server := redistest.New(t)
	config := Config{Address: server.Address, Password: server.Password, Prefix: "processes"}
	queue := open(t, config)
	const keys, perKey = 3, 3
	for i := range keys * perKey {
		if err := queue.Add(t.Context(), item(fmt.Sprint(i), fmt.Sprint("key-", i%keys))); err != nil {
			t.Fatal(err)
		}
	}
	_, first := start(t, config)
	_, second := start(t, config)
	active := map[string]string{}
	for ended := 0; ended < keys*perKey; {
		words := strings.Fields(next(t, first, second))
		switch event, name, key := words[0], words[1], words[2]; {
		case event == "end":
			// The lines of two processes may be read in another order than they were written.
			if active[key] == name {
				delete(active, key)
			}
			ended++
		case active[key] != "" && !endsSoon(t, active, key, first, second, &ended):
			t.Fatalf("%s and %s of %s at once", active[key], name, key)
		default:
			active[key] = name
		}
	}
}

// endsSoon tells whether the end of what runs is the next thing that is said.
func endsSoon(t *testing.T, active map[string]string, key string, first, second <-chan string, ended *int) bool {
	t.Helper()
	words := strings.Fields(next(t, first, second))
	if words[0] != "end" || words[2] != key || words[1] != active[key] {
		return false
	}
	*ended++
	return true
}

func TestWhatADeadProcessHeldIsHandledByAnother(t *testing.T) {
	server := redistest.New(t)
	config := Config{Address: server.Address, Password: server.Password, Prefix: "dead"}
	queue := open(t, config)
	if err := queue.Add(t.Context(), item("endless", "key")); err != nil {
		t.Fatal(err)
	}
	process, lines := start(t, config)
	if line := next(t, lines); line != "begin endless key" {
		t.Fatal(line)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_, lines = start(t, config)
	if line := next(t, lines); line != "begin endless key" {
		t.Fatal(line)
	}
	if took := time.Since(killed); took > asynqLease {
		t.Errorf("it took %s", took)
	}
}

func TestRedisMayComeLateAndGoAway(t *testing.T) {
	server := redistest.New(t)
	server.Stop()
	config := Config{Address: server.Address, Password: server.Password, Prefix: "away"}
	queue := open(t, config)
	handled := make(chan string, 100)
	running, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- queue.Run(ctx, func(_ context.Context, item task.Item) task.Result {
			if item.Task.Name == "slow" {
				close(running)
				<-release
			}
			handled <- item.Task.Name
			return task.Result{}
		}, task.Options{Concurrency: 2})
	}()
	brief, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if err := queue.Add(brief, item("early", "a")); err == nil {
		t.Fatal("an item was added to a Redis that is not there")
	}
	server.Start(t)
	addSoon(t, queue, item("early", "a"))
	expect(t, handled, "early")

	// Away while an item is handled, and while another one waits: both survive.
	addSoon(t, queue, item("slow", "b"))
	waiting := item("waiting", "c")
	waiting.NotBefore = time.Now().Add(2 * time.Second)
	addSoon(t, queue, waiting)
	<-running
	server.Stop()
	close(release)
	expect(t, handled, "slow")
	time.Sleep(time.Second)
	server.Start(t)
	expect(t, handled, "waiting")

	// Emptied: what is added again is handled.
	late := item("late", "d")
	late.NotBefore = time.Now().Add(time.Hour)
	addSoon(t, queue, late)
	server.Flush(t)
	late.NotBefore = time.Time{}
	addSoon(t, queue, late)
	expect(t, handled, "late")

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// addSoon adds an item as a controller does: until it succeeds.
func addSoon(t *testing.T, queue *Queue, item task.Item) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := queue.Add(t.Context(), item)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// expect waits for an item; what was handled before may come again.
func expect(t *testing.T, handled <-chan string, name string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case got := <-handled:
			if got == name {
				return
			}
		case <-timeout:
			t.Fatalf("%s was not handled", name)
		}
	}
}

func TestPartitionsHaveToFitTheShards(t *testing.T) {
	queue := open(t, Config{Address: "127.0.0.1:1", Partitions: 3})
	err := queue.Run(t.Context(), nil, task.Options{Shard: task.Shard{Index: 0, Count: 2}})
	if err == nil || !strings.Contains(err.Error(), "3 partitions cannot be divided into 2 shards") {
		t.Error(err)
	}
}
