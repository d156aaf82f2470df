package byoclab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// Namespaces of a platform, and of its first project.
const (
	System = "plasmacloud-system"
	Team   = "project-default"
)

// Stub is what a scenario asks any stub.
type Stub interface {
	http.Handler
	Inventory() map[string]int
	Created() map[string]int
	Unknown() []string
}

// Platform is one that is installed, as its users have it.
type Platform interface {
	Cloud(t testing.TB, args ...string) string
	TryCloud(args ...string) (string, error)
	Kubectl(t testing.TB, args ...string) string
	TryKubectl(args ...string) (string, error)
}

// Product is a scenario through the whole product: a platform, and a cloud.
type Product struct {
	Platform
	Stub Stub // in place of the cloud; nil where it is the real one, of which nobody can tell what it has made
	// Provider is the cloud's name in lower case, and Type that of its clusters, as the command line takes it.
	Provider, Type string
	// Account are the flags of the account, and Credentials what is in the file with its credentials.
	Account     []string
	Credentials string
	// Secret is what of them may be nowhere but in the account's Secret, and in the environment of the provider.
	Secret string
	// Version of Kubernetes in full that clusters of v1.35 have; any where it is empty.
	Version string
	// Timeout is how long something may take to be made, such as 45m; the command line's own where it is empty.
	Timeout string
}

// made runs a command that makes or changes something, and waits for it.
func (p *Product) made(t *testing.T, args ...string) {
	t.Helper()
	args = append(args, "--wait")
	if p.Timeout != "" {
		args = append(args, "--timeout", p.Timeout)
	}
	p.Cloud(t, args...)
}

// created counts what the stub has ever made.
func (p *Product) created() map[string]int {
	if p.Stub == nil {
		return nil
	}
	return p.Stub.Created()
}

// Serve runs the stub on a node, and tells deployers of it, as an operator would of private endpoints.
func (p *Product) Serve(t *testing.T, node *lab.Node, secure bool, environment func(address string) map[string]string) {
	t.Helper()
	listener, err := node.Listen(node.IP + ":0")
	must(t, err)
	address, settings := "http://"+listener.Addr().String(), map[string]string{}
	if secure {
		certificate, authority := selfSigned(t, node.IP)
		address, settings["PLASMACLOUD_CA_CERTIFICATES"] = "https://"+listener.Addr().String(), authority
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	}
	server := &http.Server{Handler: p.Stub, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() {
		if unknown := p.Stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	maps.Copy(settings, environment(address))
	args := []string{"create", "configmap", "deployer-" + p.Provider, "-n", System}
	for name, value := range settings {
		args = append(args, "--from-literal="+name+"="+value)
	}
	p.Kubectl(t, args...)
}

// selfSigned is a certificate for an address, and the same as those get it who shall trust it.
func selfSigned(t *testing.T, address string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// CreateAccount makes the account prod.
func (p *Product) CreateAccount(t *testing.T) {
	t.Helper()
	p.account(t, "prod")
	if shown := p.Cloud(t, "account", "verify", "prod"); !strings.Contains(shown, "RUNNING") {
		t.Errorf("verify says\n%s", shown)
	}
}

func (p *Product) account(t *testing.T, name string, flags ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	must(t, os.WriteFile(file, []byte(p.Credentials), 0o600))
	p.made(t, slices.Concat([]string{"account", "create", "--name", name, "--credentials-file", file}, p.Account, flags)...)
}

// CreateNetwork makes a network of the account.
func (p *Product) CreateNetwork(t *testing.T, name, cidr string) {
	t.Helper()
	p.made(t, "vpc", "create", "--name", name, "--account", "prod", "--cidr", cidr)
}

// CreateCluster makes the cluster shop in the network main, and looks for words in the list of clusters.
func (p *Product) CreateCluster(t *testing.T, words ...string) {
	t.Helper()
	p.made(t, "k8s", "create", "--name", "shop", "--type", p.Type, "--vpc", "main", "--version", "v1.35", "--workers", "3", "--instance-type", "u1.large",
		"--access-cidr", "198.51.100.0/24")
	list := p.Cloud(t, "k8s", "list")
	for _, want := range append(words, "shop", strings.ToUpper(p.Type), "RUNNING", p.Version, "3/3") {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
}

// CreateBucket makes the bucket assets, which keeps its cluster.
func (p *Product) CreateBucket(t *testing.T) {
	p.made(t, "bucket", "create", "--name", "assets", "--cluster", "shop")
	if list := p.Cloud(t, "bucket", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, "assets") {
		t.Errorf("the list shows\n%s", list)
	}
	if refusal := p.Refused(t, "k8s", "delete", "shop", "--yes"); !strings.Contains(refusal, "it still has buckets: assets") {
		t.Errorf("deleting its cluster: %s", refusal)
	}
}

// Unchanged has the platform look at the cluster again: there is nothing to do.
func (p *Product) Unchanged(t *testing.T) {
	before := p.created()
	p.made(t, "k8s", "repair", "shop")
	if plan := p.Planned(t, "shop", "Repair"); strings.TrimSpace(plan) != "nothing to do" {
		t.Errorf("planned again:\n%s", plan)
	}
	if after := p.created(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("made %v before, %v after", before, after)
	}
}

// Scale makes the cluster larger, in place.
func (p *Product) Scale(t *testing.T) {
	p.made(t, "k8s", "scale", "shop", "--workers", "5")
	if plan := p.Planned(t, "shop", "Scale"); !strings.Contains(plan, "0 created, 1 changed, 0 replaced, 0 destroyed") {
		t.Errorf("scaling was planned as\n%s", plan)
	}
	if list := p.Cloud(t, "k8s", "list"); !strings.Contains(list, "5/5") {
		t.Errorf("the list shows\n%s", list)
	}
}

// Killed kills a deployer with -9 while it makes a second network, once one of a kind was made: what it left behind is taken
// over, and of no kind there is more than a network has.
func (p *Product) Killed(t *testing.T, first string, kinds ...string) {
	before := p.Stub.Created()
	p.Cloud(t, "vpc", "create", "--name", "second", "--account", "prod", "--cidr", "10.1.0.0/16")
	lab.Eventually(t, 2*time.Minute, "something is made", func() error {
		if made := p.Stub.Created()[first]; made == before[first] {
			return fmt.Errorf("%d %s", made, first)
		}
		return nil
	})
	kill(t, "--stack=default.network.second.")
	lab.Eventually(t, 4*time.Minute, "it is made all the same", func() error {
		phase, err := p.TryKubectl("get", "network", "second", "-n", Team, "-o", "jsonpath={.status.phase}")
		if err == nil && phase != "RUNNING" {
			err = fmt.Errorf("it is %s", phase)
		}
		return err
	})
	after := p.Stub.Created()
	for _, kind := range append(kinds, first) {
		if after[kind] != before[kind]+1 {
			t.Errorf("%d %s were made, and before %d", after[kind], kind, before[kind])
		}
	}
}

// kill ends the program with an argument that begins so, and with it all that runs in its container.
func kill(t *testing.T, argument string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	killed := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), "\x00"+argument) {
			continue // it has ended, or is another one
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		must(t, err)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		killed++
	}
	if killed != 1 {
		t.Fatalf("%d programs have an argument %s", killed, argument)
	}
}

// Elsewhere leaves the work in a second account to a deployer that is no pod of the platform: a program on a host that
// reaches the platform by a port of its nodes.
func (p *Product) Elsewhere(t *testing.T, node *lab.Node) {
	t.Helper()
	p.account(t, "afar", "--remote-deployer")
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	for _, word := range strings.Fields(p.Cloud(t, "account", "deployer-token", "afar", "--ca-file", ca)) {
		if strings.HasPrefix(word, "pcd_") { // the rest is for people
			must(t, os.WriteFile(token, []byte(word), 0o600))
		}
	}
	port := p.Kubectl(t, "get", "service", "deployments", "-n", System, "-o", "jsonpath={.spec.ports[0].nodePort}")
	node.Serve(t, "root", filepath.Join(node.Release().Dir(), "bin", "cloudd"), "deployer", "--server=https://"+net.JoinHostPort(node.IP, port), "--account=default/afar",
		"--token-file="+token, "--ca-file="+ca, "--release-dir="+node.Release().Dir(), "--work-dir="+filepath.Join(dir, "work"))
	p.made(t, "vpc", "create", "--name", "third", "--account", "afar", "--cidr", "10.2.0.0/16")
	if pods := p.Kubectl(t, "get", "pods", "-n", System, "-l", "app=deployer", "-o", "name"); pods != "" {
		t.Errorf("the platform does it itself: %s", pods)
	}
	p.made(t, "vpc", "delete", "third", "--yes")
	p.made(t, "account", "delete", "afar", "--yes")
}

// Remove deletes everything: nothing is left, neither there nor here.
func (p *Product) Remove(t *testing.T, networks ...string) {
	t.Helper()
	if refusal := p.Refused(t, "vpc", "delete", "main", "--yes"); !strings.Contains(refusal, "it still has clusters: shop") {
		t.Errorf("deleting its network: %s", refusal)
	}
	p.made(t, "bucket", "delete", "assets", "--yes")
	p.made(t, "k8s", "delete", "shop", "--yes")
	for _, network := range networks {
		p.made(t, "vpc", "delete", network, "--yes")
	}
	p.made(t, "account", "delete", "prod", "--yes")
	if p.Stub != nil && len(p.Stub.Inventory()) > 0 {
		t.Errorf("this is left: %v", p.Stub.Inventory())
	}
	if left := p.Kubectl(t, "get", "pods,secrets", "-n", System, "-o", "name"); strings.Contains(left, "deploy") || strings.Contains(left, "tfstate") {
		t.Errorf("this is left of deployments:\n%s", left)
	}
}

// Untold looks for the credentials in all that people and programs get to see.
func (p *Product) Untold(t *testing.T) {
	if p.Secret == "" {
		t.Fatal("nobody knows what to look for")
	}
	for what, text := range map[string]string{
		"the daemon's log": p.Kubectl(t, "logs", "-n", System, "-l", "app=cloudd", "--tail=-1"),
		"an event":         p.Kubectl(t, "get", "events", "-A", "-o", "yaml"),
		"a task":           p.Kubectl(t, "get", "tasks", "-A", "-o", "yaml"),
		"a secret":         p.Kubectl(t, "get", "secrets", "-A", "-o", "yaml"),
	} {
		if strings.Contains(text, p.Secret) {
			t.Errorf("%s has the credentials in it", what)
		}
	}
}

// Has tells whether the stub has what is expected.
func (p *Product) Has(t *testing.T, want map[string]int) {
	t.Helper()
	have := p.Stub.Inventory()
	for kind, count := range want {
		if have[kind] != count {
			t.Errorf("there are %d %s, want %d: %v", have[kind], kind, count, have)
		}
	}
}

// Planned is what the latest task of an operation on a cluster has planned.
func (p *Product) Planned(t *testing.T, name, operation string) string {
	t.Helper()
	return p.Kubectl(t, "get", "tasks", "-n", Team, "-l", "plasmacloud.io/cluster="+name, "--sort-by=.metadata.creationTimestamp",
		"-o", `jsonpath={.items[?(@.spec.operation=="`+operation+`")].status.outputs.plan}`)
}

// Refused is why a command was.
func (p *Product) Refused(t *testing.T, args ...string) string {
	t.Helper()
	output, err := p.TryCloud(args...)
	if err == nil {
		t.Fatalf("cloud %s: not refused\n%s", strings.Join(args, " "), output)
	}
	return output + err.Error()
}
