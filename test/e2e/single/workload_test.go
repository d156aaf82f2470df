//go:build e2e

package single

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func (s *scenario) pods(t *testing.T) {
	s.server.Kubectl(t, "apply", "-f", "testdata/talker.yaml")
	s.server.AwaitPods(t, "app in (talker,client)")
	if err := contains(s.server.Output(), "image archive imported"); err != nil {
		t.Errorf("the launcher does not tell of the import: %v", err)
	}
}

func (s *scenario) interact(t *testing.T) {
	logs := s.server.Kubectl(t, "logs", "talker")
	if !strings.HasPrefix(logs, "word 1\nword 2\n") {
		t.Errorf("logs begin with %.40q", logs)
	}
	followed := s.server.Background(t, "logs", "-f", "--tail=1", "talker")
	lab.Eventually(t, 30*time.Second, "logs -f shows what is said later", func() error {
		content, err := os.ReadFile(followed)
		if lines := bytes.Count(content, []byte("\n")); err == nil && lines < 10 {
			err = fmt.Errorf("%d lines so far", lines)
		}
		return err
	})
	expect(t, "exec", s.server.Exec(t, "talker", "cat", "/www/index.html"), "a page of the talker")
	expect(t, "exec with input", s.server.KubectlWith(t, "abc", "exec", "-i", "talker", "--", "tr", "a-c", "x-z"), "xyz")
	if output, err := s.server.TryExec("talker", "sh", "-c", "exit 7"); err == nil || !strings.Contains(output, "exit code 7") {
		t.Errorf("exec does not pass on the exit code: %v: %s", err, output)
	}
	forwarded := s.server.Background(t, "port-forward", "pod/talker", ":8080")
	var address string
	lab.Eventually(t, 30*time.Second, "port-forward listens", func() error {
		content, err := os.ReadFile(forwarded)
		if err != nil {
			return err
		}
		match := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`).FindSubmatch(content)
		if match == nil {
			return fmt.Errorf("it says %q", content)
		}
		address = string(match[1])
		return nil
	})
	page, err := s.server.Fetch("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "through port-forward", page, "a page of the talker\n")
}

func (s *scenario) deployment(t *testing.T) {
	s.server.Kubectl(t, "apply", "-f", "testdata/web.yaml")
	s.awaitEdition(t, "first")
	s.server.Kubectl(t, "set", "env", "deployment/web", "EDITION=second")
	s.awaitEdition(t, "second")
	s.server.Kubectl(t, "rollout", "undo", "deployment/web")
	s.awaitEdition(t, "first")
}

// awaitEdition waits for a roll-out, and then for the service to lead to nothing else.
func (s *scenario) awaitEdition(t *testing.T, edition string) {
	t.Helper()
	s.server.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=110s")
	lab.Eventually(t, time.Minute, "the service shows the edition "+edition, func() error {
		for range 4 {
			page, err := s.server.TryExec("client", "timeout", "5", "wget", "-q", "-O", "-", "http://web")
			if err != nil {
				return err
			}
			if !strings.HasPrefix(page, edition+" on web-") {
				return fmt.Errorf("it says %q", page)
			}
		}
		return nil
	})
}

func (s *scenario) services(t *testing.T) {
	clusterIP := s.server.Kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	answer := s.server.Exec(t, "client", "nslookup", "web.default.svc.cluster.local")
	if err := contains(answer, "Address: "+clusterIP); err != nil {
		t.Errorf("the service's name: %v", err)
	}
	if err := contains(answer, "10.43.0.10"); err != nil {
		t.Errorf("the name server: %v", err)
	}
	// Pods of the edition before may take a moment to go.
	lab.Eventually(t, time.Minute, "the headless service's name leads to its pods", func() error {
		ips := strings.Fields(s.server.Kubectl(t, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
		answer := s.server.Exec(t, "client", "nslookup", "web-headless.default.svc.cluster.local")
		var found []string
		for _, match := range regexp.MustCompile(`Address: (10\.42\.\d+\.\d+)`).FindAllStringSubmatch(answer, -1) {
			found = append(found, match[1])
		}
		slices.Sort(ips)
		slices.Sort(found)
		if len(ips) != 2 || !slices.Equal(ips, found) {
			return fmt.Errorf("it leads to %v, the pods are %v", found, ips)
		}
		return nil
	})
	for what, check := range map[string]struct{ url, want string }{
		"NodePort from the node":         {"http://" + s.server.IP + ":30080", "first on web-"},
		"hostPort from the node":         {"http://" + s.server.IP + ":8888", "a page of the talker"},
		"the service's address, from it": {"http://" + clusterIP, "first on web-"},
	} {
		lab.Eventually(t, 30*time.Second, what, func() error {
			page, err := s.server.Fetch(check.url)
			if err != nil {
				return err
			}
			return contains(page, check.want)
		})
	}
}

func (s *scenario) mounts(t *testing.T) {
	s.server.Kubectl(t, "apply", "-f", "testdata/mounts.yaml")
	s.server.AwaitPods(t, "app=reader")
	expect(t, "mounted ConfigMap", s.server.Exec(t, "reader", "cat", "/settings/colour"), "sea green")
	expect(t, "mounted Secret", s.server.Exec(t, "reader", "cat", "/credentials/password"), "correct horse battery staple")
	expect(t, "Secret in the environment", s.server.Exec(t, "reader", "sh", "-c", `echo "$PASSWORD"`), "correct horse battery staple")
	expect(t, "service account", s.server.Exec(t, "reader", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace"), "default")
	s.server.Exec(t, "reader", "sh", "-c", "echo kept > /scratch/note")
}

func (s *scenario) safekeeping(t *testing.T) {
	stored, err := s.server.Etcd(t).Get(t.Context(), "/registry/secrets/default/credentials")
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("read the stored Secret: %v, %d found", err, len(stored.Kvs))
	}
	value := stored.Kvs[0].Value
	if !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:")) || bytes.Contains(value, []byte("battery")) {
		t.Errorf("the Secret is stored as %.40q", value)
	}
	// What is not secret is stored as it is: the check above does not pass by accident.
	plain, err := s.server.Etcd(t).Get(t.Context(), "/registry/configmaps/default/settings")
	if err != nil || len(plain.Kvs) != 1 || !bytes.Contains(plain.Kvs[0].Value, []byte("sea green")) {
		t.Errorf("read the stored ConfigMap: %v", err)
	}
	s.audit(t)
}

// audit looks for who made the pod, and for the Secret's content, which must not be there.
func (s *scenario) audit(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(s.server.Data.Path("server", "logs"), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("battery")) {
		t.Error("the audit log holds the content of a Secret")
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var event struct {
			Verb string
			User struct {
				Username string
				Groups   []string
			}
			ObjectRef struct{ Resource, Name, Subresource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("read audit log: %v", err)
		}
		if event.Verb == "create" && event.ObjectRef.Resource == "pods" && event.ObjectRef.Name == "talker" && event.ObjectRef.Subresource == "" {
			if !slices.Contains(event.User.Groups, "system:masters") {
				t.Errorf("the audit log says that %+v made the pod", event.User)
			}
			return
		}
	}
	t.Error("the audit log does not tell that the pod was made")
}
