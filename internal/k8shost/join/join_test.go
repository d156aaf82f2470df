package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func TestDiscoverFindsTheCAWithoutSayingAnything(t *testing.T) {
	c := newCluster(t, now())
	c.publishInfo()
	ca, err := Discover(t.Context(), c.server.URL, c.token)
	if err != nil {
		t.Fatal(err)
	}
	if string(ca) != string(c.bundle().ClusterCA()) {
		t.Errorf("found\n%s", ca)
	}
	if len(c.credentials) != 0 {
		t.Errorf("credentials were sent: %v", c.credentials)
	}
}

func TestDiscoverSaysWhatIsWrong(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	nobody := boundPort(t)
	silent := plainListener(t) // accepts, says nothing

	c := newCluster(t, now())
	c.publishInfo()
	other := newCluster(t, now())
	other.publishInfo()
	unpublished := newCluster(t, now())
	webSite := c.serveTLS(pki.APIServer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "<html>welcome</html>")
	}))
	starting := c.serveTLS(pki.APIServer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	redirecting := c.serveTLS(pki.APIServer, http.RedirectHandler(c.server.URL+clusterInfoPath, http.StatusFound))
	// An attacker repeats the public cluster-info with a certificate of its own.
	impostor := other.serveTLS(pki.APIServer, http.HandlerFunc(c.handle))
	// The right cluster, but under a name that its certificate lacks.
	otherName := c.serveTLS(pki.Scheduler, http.HandlerFunc(c.handle))

	bare, err := token.Parse("the-password")
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(c.server.URL, "https://")
	for name, tc := range map[string]struct {
		url  string
		tok  token.Token
		want error
		says []string
	}{
		"no hash":        {c.server.URL, bare, ErrNoHash, []string{"<data-dir>/server/token"}},
		"foreign":        {other.server.URL, c.token, ErrForeignToken, []string{c.token.CAHash(), other.token.CAHash()}},
		"refused":        {"https://" + nobody, c.token, ErrUnreachable, []string{nobody, "refused"}},
		"silent":         {"https://" + silent.Addr().String(), c.token, ErrUnreachable, []string{silent.Addr().String(), "no answer in time"}},
		"unknown name":   {"https://no-such-host.invalid:6443", c.token, ErrUnreachable, []string{"no-such-host.invalid", "resolved"}},
		"no TLS":         {"https://" + plain.Listener.Addr().String(), c.token, ErrNotKubernetes, []string{"TLS"}},
		"web site":       {webSite.URL, c.token, ErrNotKubernetes, []string{"200 OK"}},
		"redirect":       {redirecting.URL, c.token, ErrNotKubernetes, []string{"302"}},
		"starting":       {starting.URL, c.token, ErrNotReady, []string{"503"}},
		"not published":  {unpublished.server.URL, unpublished.token, ErrNotReady, []string{"cluster-info", "403"}},
		"impostor":       {impostor.URL, c.token, ErrUntrusted, []string{"signed by another"}},
		"other name":     {otherName.URL, c.token, ErrUntrusted, []string{"--tls-san=127.0.0.1"}},
		"not https":      {"http://" + host, c.token, nil, []string{"https://"}},
		"not a URL":      {"://", c.token, nil, []string{"invalid server URL"}},
		"with path":      {c.server.URL + "/x", c.token, nil, []string{"nothing may follow the port"}},
		"with user":      {"https://me:hidden@" + host, c.token, nil, []string{"user"}},
		"impossible one": {"https://127.0.0.1:0", c.token, nil, []string{"0 is not a port"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := Discover(ctx, tc.url, tc.tok)
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			for _, secret := range []string{"the-password", "hidden"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q repeats a secret", err)
				}
			}
		})
	}
	for _, cl := range []*cluster{c, other, unpublished} {
		if len(cl.credentials) != 0 {
			t.Errorf("credentials were sent: %v", cl.credentials)
		}
	}
}

func plainListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// boundPort is a port that refuses connections and that nothing else takes.
func boundPort(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
}

func TestDiscoverSaysWhichClocksDisagree(t *testing.T) {
	for name, tc := range map[string]struct {
		made time.Duration
		says string
	}{
		"the server is ahead":                {2 * time.Hour, "the cluster's CA certificate"},
		"the server's certificate has ended": {-2 * pki.LeafLifetime, "the server's certificate"},
		"the CA has ended":                   {-2 * pki.AuthorityLifetime, "the cluster's CA certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			clk := at(tc.made)
			c := newCluster(t, clk)
			c.publishInfo()
			_, err := Discover(t.Context(), c.server.URL, c.token)
			if !errors.Is(err, ErrClock) {
				t.Fatalf("got %v, want ErrClock", err)
			}
			from := clk.Now().Add(-pki.Backdate).UTC().Format(time.RFC3339)
			for _, want := range []string{tc.says, "this host's clock says 2", "the server's 2", "valid from " + from, "set the clocks right"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestDiscoverRefusesBrokenClusterInfo(t *testing.T) {
	for name, kubeconfig := range map[string]string{
		"not YAML":         "{",
		"no cluster":       "apiVersion: v1\nkind: Config\n",
		"no certificate":   "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: https://x}}]\n",
		"junk certificate": "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {certificate-authority-data: eA==}}]\n",
		"":                 "",
	} {
		c := newCluster(t, now())
		c.publishInfo()
		info, err := c.objects.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		info.Data["kubeconfig"] = kubeconfig
		if _, err := c.objects.CoreV1().ConfigMaps("kube-public").Update(t.Context(), info, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Discover(t.Context(), c.server.URL, c.token); !errors.Is(err, ErrNotKubernetes) && !errors.Is(err, ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseServerURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://host":            "https://host:443",
		"https://host:443/":       "https://host:443",
		"https://[2001:db8::1]":   "https://[2001:db8::1]:443",
		"https://192.0.2.1:16443": "https://192.0.2.1:16443",
	} {
		if got, err := ParseServerURL(text); err != nil || got != want {
			t.Errorf("ParseServerURL(%q) = %q, %v", text, got, err)
		}
	}
}

func TestVerifyToken(t *testing.T) {
	c := newCluster(t, now())
	c.publish()
	agent, err := token.Create(t.Context(), c.objects, now(), c.token.CAHash(), token.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := token.Create(t.Context(), c.objects, at(-2*time.Hour), c.token.CAHash(), token.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := token.Parse("another-password")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		tok  token.Token
		want error
	}{
		"the cluster's own": {c.token, nil},
		"an agent's":        {agent, nil},
		"an expired one":    {expired, ErrTokenRefused},
		"a wrong one":       {wrong.WithCA(c.token.CAHash()), ErrTokenRefused},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := NewClient(c.server.URL, c.bundle().ClusterCA(), tc.tok)
			if err != nil {
				t.Fatal(err)
			}
			err = VerifyToken(t.Context(), client)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), "k8shost token create") {
				t.Errorf("%q does not say what to do", err)
			}
		})
	}
	client, err := NewClient(c.server.URL, c.bundle().ClusterCA(), c.token)
	if err != nil {
		t.Fatal(err)
	}
	c.server.Close()
	if err := VerifyToken(t.Context(), client); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without a server: %v", err)
	}
}

func TestServerBundleTravels(t *testing.T) {
	c := newCluster(t, now())
	client, err := NewClient(c.server.URL, c.bundle().ClusterCA(), c.token)
	if err != nil {
		t.Fatal(err)
	}
	c.publish()
	got, err := FetchServerBundle(t.Context(), client, c.token)
	if err != nil || !got.Equal(c.bundle()) {
		t.Fatalf("got %v, %v", got, err)
	}

	secret, err := c.objects.CoreV1().Secrets("kube-system").Get(t.Context(), serverBundleSecret, metav1.GetOptions{})
	if err != nil || strings.Contains(string(secret.Data[serverBundleKey]), "PRIVATE") {
		t.Errorf("not sealed: %v", err)
	}
}

func TestServerBundleIsRefusedToOthers(t *testing.T) {
	c := newCluster(t, now())
	c.publish()
	agent, err := token.Create(t.Context(), c.objects, now(), c.token.CAHash(), token.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(auth, tok token.Token) error {
		t.Helper()
		client, err := NewClient(c.server.URL, c.bundle().ClusterCA(), auth)
		if err != nil {
			t.Fatal(err)
		}
		_, err = FetchServerBundle(t.Context(), client, tok)
		return err
	}
	if err := fetch(agent, agent); !errors.Is(err, ErrAgentToken) || !strings.Contains(err.Error(), "server/token") {
		t.Errorf("an agent's token: %v", err)
	}
	if err := fetch(agent, c.token); !errors.Is(err, ErrAgentToken) {
		t.Errorf("the API's answer to an agent's token: %v", err)
	}
	if err := fetch(c.token, c.token.WithCA(strings.Repeat("0", 64))); !errors.Is(err, ErrForeignToken) {
		t.Errorf("keys of another CA: %v", err)
	}
	other, err := token.Parse("another-password")
	if err != nil {
		t.Fatal(err)
	}
	other = other.WithCA(c.token.CAHash())
	if err := fetch(other, other); !errors.Is(err, ErrTokenRefused) {
		t.Errorf("a wrong password: %v", err)
	}
	if err := fetch(c.token, other); !errors.Is(err, token.ErrWrongPassword) {
		t.Errorf("sealed with another password: %v", err)
	}
	if err := c.objects.CoreV1().Secrets("kube-system").Delete(t.Context(), serverBundleSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := fetch(c.token, c.token); !errors.Is(err, ErrNotReady) {
		t.Errorf("nothing published: %v", err)
	}
}

func TestPublishingAgainWritesOnlyChanges(t *testing.T) {
	c := newCluster(t, now())
	c.publish()
	info, err := c.objects.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info.Data["jws-kubeconfig-abcdef"] = "signature"
	if _, err := c.objects.CoreV1().ConfigMaps("kube-public").Update(t.Context(), info, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.objects.ClearActions()
	c.publish()
	if writes := c.writes(); len(writes) != 0 {
		t.Errorf("wrote %v", writes)
	}
	if err := PublishClusterInfo(t.Context(), c.objects, "https://elsewhere:6443", c.bundle().ClusterCA()); err != nil {
		t.Fatal(err)
	}
	info, err = c.objects.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
	if err != nil || !strings.Contains(info.Data["kubeconfig"], "elsewhere") || info.Data["jws-kubeconfig-abcdef"] == "" {
		t.Errorf("cluster-info is %v, %v", info.Data, err)
	}
	c.objects.ClearActions()
	if err := PublishServerBundle(t.Context(), c.objects, c.bundle(), "new-password"); err != nil {
		t.Fatal(err)
	}
	if writes := c.writes(); len(writes) != 1 {
		t.Errorf("a new password wrote %v", writes)
	}
}

// Someone took rights away or changed them: the next start puts them right.
func TestPublishingRepairsRBAC(t *testing.T) {
	c := newCluster(t, now())
	c.publish()
	rbac := c.objects.RbacV1()
	binding, err := rbac.RoleBindings("kube-system").Get(t.Context(), serverBundleRole, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding.Subjects = nil
	if _, err := rbac.RoleBindings("kube-system").Update(t.Context(), binding, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	role, err := rbac.Roles("kube-system").Get(t.Context(), serverBundleRole, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = nil
	if _, err := rbac.Roles("kube-system").Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.publish()
	binding, err = rbac.RoleBindings("kube-system").Get(t.Context(), serverBundleRole, metav1.GetOptions{})
	if err != nil || len(binding.Subjects) != 1 || binding.Subjects[0].Name != token.ServerGroup {
		t.Errorf("subjects are %v, %v", binding.Subjects, err)
	}
	role, err = rbac.Roles("kube-system").Get(t.Context(), serverBundleRole, metav1.GetOptions{})
	if err != nil || len(role.Rules) != 1 {
		t.Errorf("rules are %v, %v", role.Rules, err)
	}
}

func (c *cluster) writes() []string {
	var writes []string
	for _, action := range c.objects.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			writes = append(writes, verb+" "+action.GetResource().Resource)
		}
	}
	return writes
}

func TestBootstrapKubeconfig(t *testing.T) {
	c := newCluster(t, now())
	c.publishInfo()
	path := filepath.Join(t.TempDir(), "bootstrap.kubeconfig")
	if err := BootstrapKubeconfig(path, c.server.URL, c.bundle().ClusterCA(), c.token); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	bearer, err := c.token.Bootstrap()
	if err != nil || config.BearerToken != bearer || config.Host != c.server.URL {
		t.Errorf("config is for %s, %v", config.Host, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "the-password") {
		t.Errorf("the password itself is in the file: %v", err)
	}
	if err := BootstrapKubeconfig(path, "http://x", nil, c.token); err == nil {
		t.Error("a server without TLS was accepted")
	}
}

func TestClientsVerifyTheServer(t *testing.T) {
	c, other := newCluster(t, now()), newCluster(t, now())
	c.publishInfo()
	client, err := NewClient(c.server.URL, other.bundle().ClusterCA(), c.token)
	if err != nil {
		t.Fatal(err)
	}
	err = VerifyToken(t.Context(), client)
	if !errors.Is(err, ErrUntrusted) {
		t.Errorf("got %v", err)
	}
	if len(c.credentials) != 0 {
		t.Error("the token was sent to a server that is not trusted")
	}
}
