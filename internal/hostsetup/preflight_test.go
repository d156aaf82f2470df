package hostsetup

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// good is a host that will do.
func good() survey {
	return survey{
		Facts: remote.Facts{
			Architecture: runtime.GOARCH, Kernel: "6.1.0-28-amd64", OS: "debian", OSName: "Debian GNU/Linux 12 (bookworm)", Memory: 4 << 30, Free: 20 << 30, CPUs: 2,
		},
		systemd: true, cgroupV2: true, resource: true, listening: []int{22},
	}
}

func TestWhatAHostMustBe(t *testing.T) {
	host := Host{Name: "dev-0", Address: "192.0.2.7"}
	for name, test := range map[string]struct {
		role   Role
		change func(*survey)
		says   string // part of the finding; none where it is empty
	}{
		"a good host": {ControlPlane, func(*survey) {}, ""},
		"Rocky": {Worker, func(s *survey) {
			s.OS, s.OSLike, s.Kernel = "rocky", []string{"rhel", "centos", "fedora"}, "5.14.0-427.el9.x86_64"
		}, ""},
		"Ubuntu":                    {Worker, func(s *survey) { s.OS, s.OSLike = "ubuntu", []string{"debian"} }, ""},
		"Alpine":                    {Worker, func(s *survey) { s.OS, s.OSName = "alpine", "Alpine Linux v3.20" }, "Alpine Linux v3.20 is neither"},
		"an old kernel":             {Worker, func(s *survey) { s.Kernel = "4.18.0-553.el8_10.x86_64" }, "its kernel is 4.18.0"},
		"another architecture":      {Worker, func(s *survey) { s.Architecture = "riscv64" }, "it is riscv64"},
		"no systemd":                {Worker, func(s *survey) { s.systemd, s.Init = false, "openrc" }, "openrc"},
		"a program missing":         {Worker, func(s *survey) { s.missing = []string{"tar"} }, "tar is missing; install tar"},
		"no overlayfs":              {Worker, func(s *survey) { s.missing = []string{"overlay"} }, "modprobe overlay"},
		"a clock that is behind":    {Worker, func(s *survey) { s.skew = -time.Hour }, "1h0m0s off"},
		"firewalld":                 {Worker, func(s *survey) { s.active = []string{"firewalld"} }, "systemctl disable --now firewalld"},
		"little memory":             {ControlPlane, func(s *survey) { s.Memory = 1 << 30 }, "1024 MiB of memory; a control-plane machine needs"},
		"little memory, but enough": {Worker, func(s *survey) { s.Memory = 1 << 30 }, ""},
		"a full disk":               {Worker, func(s *survey) { s.Free = 1 << 30 }, "1024 MiB free in /var/lib"},
		"Docker":                    {Worker, func(s *survey) { s.active = []string{"docker", "containerd"} }, "docker runs there already"},
		"another kubelet's files":   {Worker, func(s *survey) { s.used = []string{"/var/lib/kubelet"} }, "not ours"},
		"a port that is taken":      {ControlPlane, func(s *survey) { s.listening = []int{2379} }, "port 2379 is in use; it is for etcd"},
		"a port of others":          {Worker, func(s *survey) { s.listening = []int{2379} }, ""},
		"a host that is a node of ours": {ControlPlane, func(s *survey) {
			s.ours, s.listening, s.active, s.Free = "v1.36.3", []int{6443}, []string{"kubelet"}, 1<<30
		}, ""},
		"a firewall on a node of ours": {ControlPlane, func(s *survey) { s.ours, s.active = "v1.36.3", []string{"firewalld"} }, "firewalld is active"},
	} {
		found := good()
		test.change(&found)
		findings := found.judge(host, test.role)
		if test.says == "" {
			if len(findings) > 0 {
				t.Errorf("%s: found %v", name, findings)
			}
			continue
		}
		err := &PreflightError{Host: host.String(), Findings: findings}
		if !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "dev-0 (192.0.2.7)") {
			t.Errorf("%s: %q does not say %q of the host", name, err, test.says)
		}
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Remedy == "" || f.Check == "" }) {
			t.Errorf("%s: no remedy in %+v", name, findings)
		}
	}
}

func TestAllFindingsAreToldAtOnce(t *testing.T) {
	found := good()
	found.Memory, found.Free, found.systemd, found.active = 1<<20, 1<<20, false, []string{"docker", "ufw"}
	if findings := found.judge(Host{Address: "192.0.2.7"}, ControlPlane); len(findings) != 5 {
		t.Errorf("found %d: %v", len(findings), findings)
	}
}

func TestWhatAHostSaysIsUnderstood(t *testing.T) {
	var s survey
	now := time.Unix(1_000_000, 0)
	for _, line := range []string{
		"container=plasmacloud", "systemd=yes", "cgroup=v2", "capabilities=000001ffffffffff", "now=1000060", "ours=v1.36.3",
		"missing=tar", "active=ufw", "active=docker", "ufw=no", "listen=192B", "listen=0016", "used=/etc/kubernetes", "rubbish",
	} {
		name, value, _ := strings.Cut(line, "=")
		s.learn(name, value, now)
	}
	if !s.isMachine() || !s.systemd || !s.cgroupV2 || !s.resource || s.skew != time.Minute || s.ours != "v1.36.3" {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(s.active, []string{"docker"}) || !slices.Equal(s.listening, []int{6443, 22}) || !slices.Equal(s.missing, []string{"tar"}) {
		t.Errorf("%+v", s)
	}
	s.learn("capabilities", "000001fffeffffff", now)
	if s.resource {
		t.Error("CAP_SYS_RESOURCE is seen where it is not")
	}
}

func TestKernelVersions(t *testing.T) {
	for release, want := range map[string]string{
		"6.18.5": "v6.18", "5.14.0-427.el9.x86_64": "v5.14", "6.1.0-28-cloud-amd64": "v6.1", "5.15-generic": "v5.15", "unknown": "",
	} {
		if got := kernelVersion(release); got != want {
			t.Errorf("%s is %q, not %q", release, got, want)
		}
	}
}

func TestImagesThatThereAre(t *testing.T) {
	digests := imageDigests(`REF                          TYPE                                                 DIGEST                                                                  SIZE
registry.k8s.io/pause:3.10.2 application/vnd.oci.image.manifest.v1+json sha256:abc 332.0 KiB linux/amd64 io.cri-containerd.image=managed
rubbish
`)
	if len(digests) != 1 || digests["registry.k8s.io/pause:3.10.2"] != "abc" {
		t.Errorf("%v", digests)
	}
}
