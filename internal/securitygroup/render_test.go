package securitygroup_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
	"plasmacloud.io/plasmacloud/internal/securitygroup"
)

var update = flag.Bool("update", false, "write testdata/*.nft anew")

func port(number int) string { return strconv.Itoa(number) }

// Everything that a rule can say.
var every = []v1alpha1.SecurityRule{
	{Protocol: v1alpha1.ProtocolTCP, Ports: "443", Source: "10.0.0.7/8"},
	{Protocol: v1alpha1.ProtocolUDP, Ports: "5000-5010", Source: "fd00::/8", Description: `say "hello"; { $x } \`},
	{Protocol: v1alpha1.ProtocolTCP, Ports: "1-65535", Source: "::/0"},
	{Protocol: v1alpha1.ProtocolICMP},
	{Protocol: v1alpha1.ProtocolICMP, Source: "0.0.0.0/0", Description: "Größe\nzwei"},
	{Protocol: v1alpha1.ProtocolAny, Source: "203.0.113.9/32"},
	{Protocol: v1alpha1.ProtocolARP},
}

func TestRender(t *testing.T) {
	group := v1alpha1.SecurityGroup{Name: "sg-dev", Rules: every}
	for name, policy := range map[string]securitygroup.Policy{
		"default": defaultPolicy(t),
		"every": {
			Group: group, Internal: securitygroup.Etcd("10.0.0.4", "fd00::4"), PodCIDR: "192.168.0.0/16, fd00:1::/64", SSHPorts: []int{2222, 22},
		},
		"nothing": {Group: v1alpha1.SecurityGroup{Name: "sg-closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := securitygroup.Render(policy)
			if err != nil {
				t.Fatal(err)
			}
			golden := "testdata/" + name + ".nft"
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("it is not %s (go test -update writes it anew):\n%s", golden, got)
			}
			// The kernel takes it, where there is nothing and where there is the same already.
			netlab.New(t).Do(func() error {
				for range 2 {
					load := exec.Command("nft", "--file", "-")
					load.Stdin = bytes.NewReader(got)
					if out, err := load.CombinedOutput(); err != nil {
						t.Errorf("nft: %v\n%s", err, out)
					}
				}
				return nil
			})
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, policy := range map[string]securitygroup.Policy{
		"rule 1: \"0\" is neither":           {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "TCP", Ports: "0"}}}},
		"rule 1: \"\" is neither":            {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "UDP"}}}},
		"rule 1: \"9-8\" is neither":         {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "UDP", Ports: "9-8"}}}},
		"rule 1: \"80 accept\" is neither":   {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "TCP", Ports: "80 accept"}}}},
		"rule 1: \"SCTP\" is no protocol":    {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "SCTP"}}}},
		"rule 1: ICMP has no ports":          {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "ICMP", Ports: "8"}}}},
		"rule 2: netip.ParsePrefix":          {Group: v1alpha1.SecurityGroup{Rules: []v1alpha1.SecurityRule{{Protocol: "Any"}, {Protocol: "Any", Source: "office"}}}},
		"internal rule 1: netip.ParsePrefix": {Internal: securitygroup.Etcd("cp-1")},
		"pods' range: netip.ParsePrefix":     {PodCIDR: "10.0.0.0"},
		"70000 is no port":                   {SSHPorts: []int{70000}},
	} {
		if _, err := securitygroup.Render(policy); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestTheOrderOfMembersDoesNotMatter(t *testing.T) {
	one, other := securitygroup.Etcd("10.42.0.15", "10.42.0.9", "10.42.0.10"), securitygroup.Etcd("10.42.0.9", "10.42.0.10", "10.42.0.15")
	if !slices.Equal(one, other) {
		t.Errorf("%v is not %v", one, other)
	}
}
