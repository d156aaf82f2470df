package pod

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/guest"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

// reachable is a machine that a real SSH server answers for, and a driver that reaches it.
func reachable(t *testing.T, host *sshtest.Host, keys map[string][]byte) (*Driver, *fake.Clientset, machine.Key) {
	t.Helper()
	client := newCluster(run)
	pool := remote.NewPool(remote.Config{Backoff: 10 * time.Millisecond, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(host.Address, strconv.Itoa(host.Port)))
	}})
	t.Cleanup(pool.Close)
	driver := New(client, clocktesting.NewFakePassiveClock(time.Now()), Config{Image: "example.com/node:v1", SSH: pool})
	spec := newSpec("m0")
	var err error
	if spec.HostKey, err = remote.GenerateKey(""); err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	secrets, err := client.CoreV1().Secrets("infra").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 {
		t.Fatalf("secrets %v: %v", secrets, err)
	}
	files := secrets.Items[0]
	public, err := sshkey.Public(spec.HostKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files.Data {
		if strings.TrimSpace(string(content)) == public {
			files.Data[name] = []byte(host.HostKey) // what answers is not a machine that was given its files
		}
	}
	if _, err := client.CoreV1().Secrets("infra").Update(t.Context(), &files, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if keys != nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: sshkey.SecretName}, Data: keys}
		if _, err := client.CoreV1().Secrets("infra").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return driver, client, spec.Key
}

func TestAMachineIsReachedWithItsClustersKey(t *testing.T) {
	host := sshtest.Start(t)
	driver, _, key := reachable(t, host, map[string][]byte{corev1.SSHAuthPrivateKey: host.Key})
	reached, err := driver.Reach(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	result, err := reached.Run(t.Context(), remote.Command{Step: "look", Args: []string{"id", "-un"}})
	if err != nil || strings.TrimSpace(result.Stdout) != "root" {
		t.Errorf("%q: %v", result.Stdout, err)
	}
}

func TestAnotherHostKeyIsNotBelieved(t *testing.T) {
	host := sshtest.Start(t)
	driver, _, key := reachable(t, host, map[string][]byte{corev1.SSHAuthPrivateKey: host.Key})
	host.RenewHostKey()
	reached, err := driver.Reach(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reached.Run(t.Context(), remote.Command{Step: "look", Args: []string{"true"}}); !errors.Is(err, remote.ErrHostKeyChanged) {
		t.Error(err)
	}
}

func TestMachinesThatCannotBeReached(t *testing.T) {
	host := sshtest.Start(t)
	driver, client, key := reachable(t, host, nil)
	if _, err := driver.Reach(t.Context(), key); err == nil || !strings.Contains(err.Error(), "the cluster's SSH key") {
		t.Errorf("without the cluster's key: %v", err)
	}
	missing := key
	missing.Name = "m9"
	if _, err := driver.Reach(t.Context(), missing); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("without a machine: %v", err)
	}
	plain := newSpec("m1")
	if _, err := driver.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Reach(t.Context(), plain.Key); err == nil || !strings.Contains(err.Error(), "without SSH keys") {
		t.Errorf("without keys: %v", err)
	}
	if _, err := newDriver(client).Reach(t.Context(), key); err == nil || !strings.Contains(err.Error(), "no way to machines") {
		t.Errorf("without a pool: %v", err)
	}
	pod, err := client.CoreV1().Pods("infra").Get(t.Context(), "dev-m0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitingFor("CrashLoopBackOff", "", 1)(pod)
	if _, err := client.CoreV1().Pods("infra").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Reach(t.Context(), key); err == nil || !strings.Contains(err.Error(), "it is Pending: it restarts") {
		t.Errorf("one that does not run: %v", err)
	}
}

func TestAReplacedKeyReachesTheMachine(t *testing.T) {
	host := sshtest.Start(t)
	keys := map[string][]byte{corev1.SSHAuthPrivateKey: host.Key}
	if err := sshkey.Replace(keys, "dev"); err != nil {
		t.Fatal(err)
	}
	driver, _, key := reachable(t, host, keys)
	current, err := sshkey.Current(keys)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := driver.Rekey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{guest.KeptKeysFile, guest.AuthorizedKeysFile} {
		if got := host.Do("stat -c %a " + file + " && cat " + file); got != "600\n"+current.Authorized() {
			t.Errorf("%s: %s", file, got)
		}
	}
	if log := host.Log(); strings.Contains(log, "PRIVATE KEY") {
		t.Error("a private key was sent")
	}
}
