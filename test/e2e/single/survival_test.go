//go:build e2e

package single

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// components are all processes that the launcher keeps running.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet", "kube-proxy"}

func (s *scenario) killComponents(t *testing.T) {
	before := s.survivor(t)
	for _, component := range components {
		old, err := s.server.ComponentPID(component)
		if err != nil {
			t.Fatal(err)
		}
		// One that ended by itself, for want of one killed before, is as good.
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("kill %s: %v", component, err)
		}
		lab.Eventually(t, time.Minute, component+" is started again", func() error {
			pid, err := s.server.ComponentPID(component)
			if err == nil && pid == old {
				err = errors.New("no new process yet")
			}
			return err
		})
	}
	s.works(t, "after-kills")
	s.compare(t, before)
}

func (s *scenario) killLauncher(t *testing.T) {
	before := s.survivor(t)
	s.server.Kill(t)
	lab.Eventually(t, 20*time.Second, "no component outlives the launcher", func() error {
		for _, component := range components {
			pid, err := s.server.ComponentPID(component)
			if err != nil {
				return err // its record stays, for the next start to look at
			}
			if syscall.Kill(pid, 0) == nil {
				return fmt.Errorf("%s runs (process %d)", component, pid)
			}
		}
		return nil
	})
	if start, err := lab.StartTime(before.pid); err != nil || start != before.start {
		t.Fatalf("the pod's process did not outlive the launcher: %v", err)
	}
	s.server.Restart(t)
	s.server.AwaitNodeReady(t, s.server.Name)
	s.works(t, "after-launcher")
	s.compare(t, before)
}

func (s *scenario) restart(t *testing.T) {
	before := s.survivor(t)
	const name, address = "api.example.test", "203.0.113.7"
	if s.served(t, name) || !s.served(t, s.server.IP) {
		t.Error("the API server's certificate is not what it should be before the restart")
	}
	s.server.Stop(t)
	for _, component := range components {
		if _, err := s.server.ComponentPID(component); err == nil {
			t.Errorf("%s is recorded as running after a clean stop", component)
		}
	}
	s.server.Restart(t, "--tls-san", name, "--tls-san", address)
	s.server.AwaitNodeReady(t, s.server.Name)
	if !s.served(t, name) || !s.served(t, address) {
		t.Error("--tls-san, given at a restart, is not in the certificate that is served")
	}
	s.works(t, "after-restart")
	s.compare(t, before)
	expect(t, "an emptyDir after the restart", s.server.Exec(t, "reader", "cat", "/scratch/note"), "kept")
}

// served tells whether the API server's certificate is good for a name.
func (s *scenario) served(t *testing.T, name string) bool {
	t.Helper()
	certificate, err := s.server.Certificate(s.server.IP + ":6443")
	if err != nil {
		t.Fatal(err)
	}
	return certificate.VerifyHostname(name) == nil
}

// works makes sure that the whole of the cluster does its job: an order to the API becomes a pod that finds a service.
func (s *scenario) works(t *testing.T, name string) {
	t.Helper()
	lab.Eventually(t, time.Minute, "the API takes orders", func() error {
		_, err := s.server.TryKubectl("create", "namespace", name)
		if err != nil && strings.Contains(err.Error(), "already exists") {
			err = nil
		}
		return err
	})
	s.server.Kubectl(t, "apply", "-n", name, "-f", "testdata/errand.yaml")
	s.server.Kubectl(t, "wait", "-n", name, "job/errand", "--for=condition=Complete", "--timeout=110s")
	if err := contains(s.server.Kubectl(t, "logs", "-n", name, "job/errand"), "first on web-"); err != nil {
		t.Errorf("a new pod does not find the service: %v", err)
	}
}

// identity is by what a pod's container is known not to have been replaced.
type identity struct {
	pid         int
	start       string
	description string
}

// survivor looks at the pod that has to outlive everything.
func (s *scenario) survivor(t *testing.T) identity {
	t.Helper()
	pids := lab.ProcessesWith("sleep 987654321")
	pids = slices.DeleteFunc(pids, func(pid int) bool { return !s.server.Owns(pid) })
	if len(pids) != 1 {
		t.Fatalf("the client's process is one of %v", pids)
	}
	start, err := lab.StartTime(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	description := s.server.Kubectl(t, "get", "pod", "client", "-o",
		`jsonpath={.metadata.uid} {.status.podIP} {.status.containerStatuses[0].containerID} restarts={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.running.startedAt}`)
	if err := contains(description, "restarts=0"); err != nil {
		t.Error(err)
	}
	return identity{pids[0], start, description}
}

func (s *scenario) compare(t *testing.T, before identity) {
	t.Helper()
	if after := s.survivor(t); after != before {
		t.Errorf("the pod is another one now:\nbefore %+v\nafter  %+v", before, after)
	}
}
