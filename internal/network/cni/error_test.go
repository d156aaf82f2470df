package cni_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

func TestConfigurationErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change map[string]any
		code   uint
		names  string
	}{
		"version from the future":    {map[string]any{"cniVersion": "9.9.9"}, types.ErrIncompatibleCNIVersion, ""},
		"version from the past":      {map[string]any{"cniVersion": "0.2.0"}, types.ErrIncompatibleCNIVersion, ""},
		"version that is none":       {map[string]any{"cniVersion": 7}, types.ErrDecodingFailure, ""},
		"no network name":            {map[string]any{"name": ""}, types.ErrInvalidNetworkConfig, ""},
		"MTU that is no number":      {map[string]any{"mtu": "big"}, types.ErrDecodingFailure, "mtu"},
		"MTU too small":              {map[string]any{"mtu": 100}, types.ErrInvalidNetworkConfig, "mtu"},
		"no state directory":         {map[string]any{"stateDir": ""}, types.ErrInvalidNetworkConfig, "stateDir"},
		"relative state directory":   {map[string]any{"stateDir": "state"}, types.ErrInvalidNetworkConfig, "stateDir"},
		"state directory is a file":  {map[string]any{"stateDir": program}, types.ErrIOFailure, program},
		"no pod CIDR":                {map[string]any{"podCIDR": ""}, types.ErrInvalidNetworkConfig, "podCIDR"},
		"pod CIDR that is none":      {map[string]any{"podCIDR": "10.42.0.0/33"}, types.ErrInvalidNetworkConfig, "podCIDR"},
		"pod CIDR of IPv6":           {map[string]any{"podCIDR": "fd00::/64"}, types.ErrInvalidNetworkConfig, "podCIDR"},
		"pod CIDR without addresses": {map[string]any{"podCIDR": "10.42.0.0/31"}, types.ErrInvalidNetworkConfig, "podCIDR"},
		"node address that is none":  {map[string]any{"nodeIP": "node"}, types.ErrInvalidNetworkConfig, "nodeIP"},
		"host port out of range":     {netlab.Ports(port("tcp", 70000, 80)), types.ErrInvalidNetworkConfig, "70000"},
		"negative container port":    {netlab.Ports(port("tcp", 80, -1)), types.ErrInvalidNetworkConfig, "containerPort"},
		"unknown protocol":           {netlab.Ports(port("icmp", 80, 80)), types.ErrInvalidNetworkConfig, "icmp"},
		"host port mapped twice":     {netlab.Ports(port("tcp", 80, 80), port("tcp", 80, 81)), types.ErrInvalidNetworkConfig, "twice"},
		"host address that is none": {
			netlab.Ports(map[string]any{"hostPort": 80, "containerPort": 80, "hostIP": "here"}),
			types.ErrInvalidNetworkConfig, "hostIP",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime, _ := newRuntime(t)
			before := runtime.Node.Snapshot()
			told := wantCode(t, runtime.Add(netlab.NewPod(t, "a"), test.change), test.code)
			if !strings.Contains(told, test.names) {
				t.Errorf("error does not name %q: %s", test.names, told)
			}
			if diff := netlab.Difference(before, runtime.Node.Snapshot()); diff != "" {
				t.Errorf("failed ADD left:\n%s", diff)
			}
		})
	}
}

func TestConfigurationThatIsNoJSON(t *testing.T) {
	runtime, _ := newRuntime(t)
	cmd, err := runtime.Command("ADD", netlab.NewPod(t, "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader("{")
	_, err = runtime.Run(cmd)
	wantCode(t, err, types.ErrDecodingFailure)
}

func TestEnvironmentErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		variable string
		names    string
	}{
		"unknown command":               {"CNI_COMMAND=FLY", "FLY"},
		"no container":                  {"CNI_CONTAINERID=", "CNI_CONTAINERID"},
		"no interface":                  {"CNI_IFNAME=", "CNI_IFNAME"},
		"no namespace":                  {"CNI_NETNS=", "CNI_NETNS"},
		"namespace that does not exist": {"CNI_NETNS=/run/netns/never-was", "CNI_NETNS"},
		"namespace that is a file":      {"CNI_NETNS=" + file, "CNI_NETNS"},
		"the node's own namespace":      {"CNI_NETNS=/proc/self/ns/net", "CNI_NETNS"},
	} {
		t.Run(name, func(t *testing.T) {
			runtime, _ := newRuntime(t)
			cmd, err := runtime.Command("ADD", netlab.NewPod(t, "a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(cmd.Env, test.variable)
			_, err = runtime.Run(cmd)
			told := wantCode(t, err, types.ErrInvalidEnvironmentVariables)
			if !strings.Contains(told, test.names) {
				t.Errorf("error does not name %s: %s", test.names, told)
			}
		})
	}
}

func TestInterfaceThatIsNotOurs(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := netlab.NewPod(t, "a")
	pod.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth0"
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	})
	told := wantCode(t, runtime.Add(pod, nil), types.ErrInvalidEnvironmentVariables)
	if !strings.Contains(told, "CNI_IFNAME") {
		t.Errorf("error does not name CNI_IFNAME: %s", told)
	}
	if left := leases(t, runtime); len(left) != 0 {
		t.Errorf("failed ADD left leases %v", left)
	}
}

func TestCheckOfUnknownContainer(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := runtime.Start(t, "a", nil)
	if err := runtime.Del(pod); err != nil {
		t.Fatal(err)
	}
	wantCode(t, runtime.Check(pod), types.ErrUnknownContainer)
}

func TestCheckNeedsThePreviousResult(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := runtime.Start(t, "a", nil)
	_, err := runtime.Call("CHECK", pod, nil)
	wantCode(t, err, types.ErrInvalidNetworkConfig)
}

func TestVersionsAreAnswered(t *testing.T) {
	runtime, _ := newRuntime(t)
	output, err := runtime.Call("VERSION", netlab.NewPod(t, "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ SupportedVersions []string }
	if err := json.Unmarshal(output, &answer); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}; !slices.Equal(answer.SupportedVersions, want) {
		t.Errorf("plugin supports %v, want %v", answer.SupportedVersions, want)
	}
	for _, version := range answer.SupportedVersions {
		runtime.Config["cniVersion"] = version
		output, err := runtime.Call("ADD", netlab.NewPod(t, "pod-"+version), nil)
		if err != nil {
			t.Errorf("ADD with version %s: %v", version, err)
			continue
		}
		var result struct{ CNIVersion string }
		if err := json.Unmarshal(output, &result); err != nil || result.CNIVersion != version {
			t.Errorf("ADD with version %s printed %s", version, output)
		}
	}
}

func TestResultDescribesTheInterface(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := runtime.Start(t, "a", map[string]any{"dns": map[string]any{"nameservers": []string{"10.43.0.10"}}})
	if len(pod.Result.Interfaces) != 2 || pod.Result.Interfaces[0].Sandbox != "" || pod.Result.Interfaces[1].Sandbox != pod.Path {
		t.Fatalf("interfaces are %v", pod.Result.Interfaces)
	}
	for n, i := range map[*netlab.Namespace]*types100.Interface{
		runtime.Node: pod.Result.Interfaces[0], pod.Namespace: pod.Result.Interfaces[1],
	} {
		n.Do(func() error {
			link, err := netlink.LinkByName(i.Name)
			if err == nil && link.Attrs().HardwareAddr.String() != i.Mac {
				t.Errorf("%s has address %s, result says %s", i.Name, link.Attrs().HardwareAddr, i.Mac)
			}
			return err
		})
	}
	ip := pod.Result.IPs[0]
	if ones, bits := ip.Address.Mask.Size(); ones != 32 || bits != 32 || ip.Gateway.String() != "169.254.1.1" || *ip.Interface != 1 {
		t.Errorf("address is %v", ip)
	}
	if len(pod.Result.Routes) != 1 || pod.Result.Routes[0].Dst.String() != "0.0.0.0/0" {
		t.Errorf("routes are %v", pod.Result.Routes)
	}
	if !slices.Equal(pod.Result.DNS.Nameservers, []string{"10.43.0.10"}) {
		t.Errorf("DNS is %v", pod.Result.DNS)
	}
}
