//go:build e2e

// Package management is the scenario of the management plane: `cloud up` on a host, people who log in, projects that do not
// see each other, clusters of the fake type through real tasks, and a daemon that is killed in the middle and again. It
// takes place with either queue, and on a cluster that was there before.
package management

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestManagement(t *testing.T) {
	host := lab.New(t).Node(t, "host")
	admin := up(t, host, nil)
	flow(t, admin, func(*testing.T) {})
	lab.Step(t, "people log in, and out", func(t *testing.T) { logins(t, admin) })
	ada, bob := people(t, admin)
	lab.Step(t, "projects do not see each other", func(t *testing.T) { isolation(t, admin, ada, bob) })
	lab.Step(t, "who is kept out is out within seconds", func(t *testing.T) { revocation(t, admin, ada, bob) })
	lab.Step(t, "down", func(t *testing.T) { admin.cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

func TestManagementRedis(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	const secret = "sesame-sesame"
	settings := filepath.Join(l.Dir, "redis.conf")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "bind %s\nport 6379\nrequirepass %s\nsave \"\"\nappendonly no\ndir %s\n", host.IP, secret, l.Dir), 0o600); err != nil {
		t.Fatal(err)
	}
	host.Serve(t, "root", "redis-server", settings)
	redis := goredis.NewClient(&goredis.Options{Addr: host.IP + ":6379", Password: secret, Dialer: host.Dial})
	defer func() { _ = redis.Close() }()
	lab.Eventually(t, 10*time.Second, "redis answers", func() error { return redis.Ping(t.Context()).Err() })

	admin := up(t, host, []string{"PLASMACLOUD_REDIS=redis://:" + secret + "@" + host.IP + ":6379/0"})
	flow(t, admin, func(t *testing.T) { flush(t, redis) })
	lab.Step(t, "repairing leaves the queue where it is", func(t *testing.T) {
		admin.cloud(t, "up", "--data-dir", host.Data.Path())
		if args := host.Kubectl(t, "get", "deployment", "cloudd", "-n", "plasmacloud-system", "-o", "jsonpath={.spec.template.spec.containers[0].args}"); !strings.Contains(args, "--queue=redis") {
			t.Fatalf("cloudd runs with %s", args)
		}
	})
}

// flush loses everything that is in the queue, which has to be something.
func flush(t *testing.T, redis *goredis.Client) {
	t.Helper()
	lab.Eventually(t, 10*time.Second, "the queue is in use", func() error {
		keys, err := redis.Keys(context.Background(), "asynq:*").Result()
		if err == nil && len(keys) == 0 {
			err = fmt.Errorf("there is nothing in it")
		}
		return err
	})
	if err := redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// up installs the platform on a host, and returns its administrator.
func up(t *testing.T, host *lab.Node, environment []string) *person {
	t.Helper()
	admin := &person{host: host, config: host.CloudConfig(), environment: environment}
	data := host.Data.Path()
	lab.Step(t, "up installs the platform", func(t *testing.T) { admin.cloud(t, "up", "--data-dir", data) })
	lab.Step(t, "and may be repeated, in no time", func(t *testing.T) {
		began := time.Now()
		admin.cloud(t, "up", "--data-dir", data)
		if took := time.Since(began); took > 30*time.Second { // usually it is one, but the machine may be busy
			t.Errorf("it took %s", took)
		}
		if report := admin.cloud(t, "status", "--data-dir", data, "-o", "json"); strings.Contains(report, `"ready": false`) {
			t.Fatalf("not all of it is ready:\n%s", report)
		}
	})
	return admin
}

// flow is what happens with either queue; between is done while a cluster is made and its daemon was killed.
func flow(t *testing.T, admin *person, between func(*testing.T)) {
	lab.Step(t, "a project with a network", func(t *testing.T) { admin.makeProject(t, "shop") })
	lab.Step(t, "a cluster is created, scaled and shown", func(t *testing.T) {
		admin.cloud(t, "k8s", "create", "--project", "shop", "--name", "dev-cluster", "--vpc", "main", "--type", "fake", "--workers", "2", "--wait")
		admin.cloud(t, "k8s", "scale", "dev-cluster", "--project", "shop", "--workers", "5", "--wait")
		want(t, admin.host, "dev-cluster", "RUNNING 5")
	})
	lab.Step(t, "mistakes are named", func(t *testing.T) { mistakes(t, admin) })
	lab.Step(t, "a daemon killed in the middle, and again after, goes on", func(t *testing.T) { killed(t, admin, between) })
	lab.Step(t, "parents go after their children", func(t *testing.T) {
		admin.refused(t, "dev-cluster", "vpc", "delete", "main", "--project", "shop", "--yes")
		for _, name := range []string{"dev-cluster", "slow"} {
			admin.cloud(t, "k8s", "delete", name, "--project", "shop", "--yes", "--wait")
		}
		admin.cloud(t, "vpc", "delete", "main", "--project", "shop", "--yes")
	})
}

// want waits for a cluster's phase and number of ready nodes.
func want(t *testing.T, host *lab.Node, cluster, state string) {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, cluster+" is "+state, func() error {
		have, err := host.TryKubectl("get", "clusters.plasmacloud.io", cluster, "-n", "project-shop", "-o", "jsonpath={.status.phase} {.status.nodes.ready}")
		if err == nil && have != state {
			err = fmt.Errorf("it is %s", have)
		}
		return err
	})
}

func mistakes(t *testing.T, admin *person) {
	for wanted, args := range map[string][]string{
		"v1.36":        {"k8s", "create", "--name", "old", "--type", "fake", "--vpc", "main", "--version", "v1.20"},
		"nowhere":      {"k8s", "create", "--name", "lost", "--type", "fake", "--vpc", "nowhere"},
		"overlap":      {"vpc", "create", "--name", "twin", "--cidr", "10.9.1.0/24"},
		"dev-cluster":  {"k8s", "create", "--name", "dev-cluster", "--type", "fake", "--vpc", "main"},
		"Did you mean": {"k8s", "crate"},
		// A release with the part for clouds could make it, in an account of the cloud.
		"of type EKS|an account of provider AWS": {"k8s", "create", "--name", "real", "--vpc", "main", "--type", "eks", "--version", "v1.35"},
	} {
		admin.refused(t, wanted, append(args, "--project", "shop")...)
	}
}

// killed creates a slow cluster, kills the daemon twice while it is made, and again when it is.
func killed(t *testing.T, admin *person, between func(*testing.T)) {
	host := admin.host
	manifest := admin.cloud(t, "k8s", "create", "--project", "shop", "--name", "slow", "--vpc", "main", "--type", "fake", "--workers", "3", "--export")
	manifest = strings.Replace(manifest, "metadata:\n", "metadata:\n  annotations: {fake.plasmacloud.io/step-seconds: \"2\"}\n", 1)
	host.KubectlWith(t, manifest, "apply", "-n", "project-shop", "-f", "-")
	for _, step := range []string{"1/5", "3/5"} {
		lab.Eventually(t, time.Minute, "the task is at "+step, func() error {
			progress, err := host.TryKubectl("get", "tasks.plasmacloud.io", "-n", "project-shop", "-l", "plasmacloud.io/cluster=slow", "-o", "jsonpath={.items[0].status.progress}")
			if err == nil && progress < step {
				err = fmt.Errorf("it is at %q", progress)
			}
			return err
		})
		killDaemon(t, host)
		between(t)
	}
	want(t, host, "slow", "RUNNING 3")
	killDaemon(t, host)
	lab.Eventually(t, time.Minute, "it is scaled after that", func() error {
		// Until the daemon is back, admission refuses.
		output, err := admin.tryCloud("k8s", "scale", "slow", "--project", "shop", "--workers", "4", "--wait")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return err
	})
	want(t, host, "slow", "RUNNING 4")
	operations := host.Kubectl(t, "get", "tasks.plasmacloud.io", "-n", "project-shop", "-l", "plasmacloud.io/cluster=slow",
		"--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={.items[*].spec.operation}")
	if operations != "Create Scale" {
		t.Fatalf("tasks of the cluster: %q, want one of each", operations)
	}
}

// killDaemon kills the daemon's process without a chance to do anything.
func killDaemon(t *testing.T, host *lab.Node) {
	t.Helper()
	killed := false
	for _, pid := range lab.ProcessesWith("/usr/local/bin/cloudd") {
		if host.Owns(pid) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed = true
		}
	}
	if !killed {
		t.Fatal("the daemon does not run")
	}
}
