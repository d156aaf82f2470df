package pki

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLeafIsIssuedAgainWhenItNoLongerFits(t *testing.T) {
	day := 24 * time.Hour
	withSAN := testServer()
	withSAN.TLSSANs = []string{"api.example.com", "203.0.113.7"}
	renamed := testServer()
	renamed.NodeName = "node-2"
	for name, tc := range map[string]struct {
		change func(t *testing.T, s *Store)
		server Server
		after  time.Duration
		want   []string // names of what is issued; nil is every leaf
		reason string
	}{
		"missing": {
			change: func(t *testing.T, s *Store) { remove(t, s.CertPath(Admin), s.KeyPath(Admin)) },
			want:   []string{Admin}, reason: "missing",
		},
		"key missing": {
			change: func(t *testing.T, s *Store) { remove(t, s.KeyPath(Admin)) },
			want:   []string{Admin}, reason: "key missing",
		},
		"key of another": {
			change: func(t *testing.T, s *Store) { copyFile(t, s.KeyPath(Scheduler), s.KeyPath(Admin)) },
			want:   []string{Admin}, reason: "do not belong together",
		},
		"unreadable": {
			change: func(t *testing.T, s *Store) { overwrite(t, s.CertPath(Admin), "junk") },
			want:   []string{Admin}, reason: "unreadable",
		},
		"key unreadable": {
			change: func(t *testing.T, s *Store) { overwrite(t, s.KeyPath(Admin), "") },
			want:   []string{Admin}, reason: "the key is unreadable",
		},
		"signed by another CA": {
			change: func(t *testing.T, s *Store) {
				other, _ := newStore(t)
				copyFile(t, other.CertPath(Admin), s.CertPath(Admin))
				copyFile(t, other.KeyPath(Admin), s.KeyPath(Admin))
			},
			want: []string{Admin}, reason: "signed by another CA",
		},
		"names added":           {server: withSAN, want: []string{APIServer}, reason: "names added: 203.0.113.7, api.example.com"},
		"node renamed":          {server: renamed, want: []string{APIServer, EtcdServer, EtcdPeer, KubeletClient, KubeletServer, NodeProxy}},
		"before the last third": {after: LeafLifetime - LeafLifetime/RenewalFraction - day, want: []string{}},
		"in the last third":     {after: LeafLifetime - LeafLifetime/RenewalFraction + day, reason: "expires at 2027-03-01"},
		"expired":               {after: LeafLifetime + 30*day, reason: "expired at 2027-03-01"},
	} {
		t.Run(name, func(t *testing.T) {
			s, clk := newStore(t)
			if tc.change != nil {
				tc.change(t, s)
			}
			server := tc.server
			if server.NodeName == "" {
				server = testServer()
			}
			clk.Step(tc.after)
			renewals := ensure(t, s, server.Leaves())
			want := tc.want
			if want == nil {
				for _, l := range server.Leaves() {
					want = append(want, l.Name)
				}
			}
			if got := names(renewals); !slices.Equal(got, want) {
				t.Fatalf("issued %v, want %v", got, want)
			}
			for _, r := range renewals {
				if !strings.Contains(r.Reason, tc.reason) {
					t.Errorf("%s was issued because %q, want %q", r.Name, r.Reason, tc.reason)
				}
			}
			if again := ensure(t, s, server.Leaves()); len(again) != 0 {
				t.Errorf("the next Ensure issued %v", again)
			}
		})
	}
}

func overwrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRemovedNameIsDroppedFromTheCertificate(t *testing.T) {
	s, _ := newStore(t)
	server := testServer()
	server.TLSSANs = []string{"*.api.example.com"}
	ensure(t, s, server.Leaves())
	if err := mustCert(t, s.CertPath(APIServer)).VerifyHostname("x.api.example.com"); err != nil {
		t.Error(err)
	}
	renewals := ensure(t, s, testServer().Leaves())
	if len(renewals) != 1 || renewals[0].Reason != "names removed: *.api.example.com" {
		t.Errorf("got %v", renewals)
	}
}

func TestRenewalKeepsTheKey(t *testing.T) {
	s, clk := newStore(t)
	before := snapshot(t, s.Dir())
	clk.Step(300 * 24 * time.Hour)
	ensure(t, s, testServer().Leaves())
	after := snapshot(t, s.Dir())
	if before[s.KeyPath(APIServer)] != after[s.KeyPath(APIServer)] {
		t.Error("the key changed")
	}
	if before[s.CertPath(APIServer)] == after[s.CertPath(APIServer)] {
		t.Error("the certificate did not change")
	}
}

// Near the CA's end a leaf ends with it, and is not issued over and over.
func TestLeafDoesNotOutliveItsAuthority(t *testing.T) {
	s, clk := newStore(t)
	clk.SetTime(start.Add(AuthorityLifetime - 24*time.Hour))
	ensure(t, s, testServer().Leaves())
	ca, leaf := mustCert(t, s.CAPath(ClusterCA)), mustCert(t, s.CertPath(APIServer))
	if !leaf.NotAfter.Equal(ca.NotAfter) {
		t.Errorf("the leaf ends at %v, the CA at %v", leaf.NotAfter, ca.NotAfter)
	}
	clk.Step(23 * time.Hour)
	if renewals := ensure(t, s, testServer().Leaves()); len(renewals) != 0 {
		t.Errorf("issued %v", renewals)
	}
}

func TestAPIServerIsValidUnderAllItsNames(t *testing.T) {
	s, _ := newStore(t)
	cert := mustCert(t, s.CertPath(APIServer))
	for _, name := range []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "node-1", "127.0.0.1", "::1", "10.43.0.1", "192.0.2.10", "192.0.2.11",
	} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestIdentities(t *testing.T) {
	s, _ := newStore(t)
	for leaf, want := range map[string]string{
		APIServerKubeletClient: "CN=kube-apiserver-kubelet-client",
		ControllerManager:      "CN=system:kube-controller-manager",
		Scheduler:              "CN=system:kube-scheduler",
		Admin:                  "CN=k8shost-admin,O=system:masters",
		Supervisor:             "CN=system:k8shost,O=system:masters",
		KubeletClient:          "CN=system:node:node-1,O=system:nodes",
		NodeProxy:              "CN=system:node-proxy:node-1,O=k8shost:node-proxies",
	} {
		if got := mustCert(t, s.CertPath(leaf)).Subject.String(); got != want {
			t.Errorf("%s is %s, want %s", leaf, got, want)
		}
	}
}

func TestServerValidate(t *testing.T) {
	if err := testServer().Validate(); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(*Server){
		`invalid node name "Node_1"`:        func(n *Server) { n.NodeName = "Node_1" },
		`invalid cluster domain ""`:         func(n *Server) { n.ClusterDomain = "" },
		"no service CIDR":                   func(n *Server) { n.ServiceCIDRs = nil },
		`invalid service CIDR "10.0.0.1/32`: func(n *Server) { n.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")} },
		"invalid node IP":                   func(n *Server) { n.NodeIPs = append(n.NodeIPs, netip.Addr{}) },
		`invalid TLS name "a b"`:            func(n *Server) { n.TLSSANs = []string{"ok.example", "a b"} },
		`invalid TLS name "*.*.x"`:          func(n *Server) { n.TLSSANs = []string{"*.*.x"} },
		`invalid TLS name "https://x"`:      func(n *Server) { n.TLSSANs = []string{"https://x"} },
	} {
		n := testServer()
		change(&n)
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestUnknownAuthorityIsAnError(t *testing.T) {
	s, _ := newStore(t)
	if _, err := s.Ensure([]Leaf{{Name: "x", CA: "nobody"}}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v", err)
	}
}

func TestUnwritableDirectoryIsAnError(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, clk := newStore(t)
	if _, err := New(filepath.Join(blocked, "tls"), clk).Ensure(nil); err == nil {
		t.Error("no error")
	}
}
