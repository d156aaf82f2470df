package hostsetup

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// What a host must have at least.
const (
	leastMemoryControlPlane = 1500 << 20
	leastMemoryWorker       = 700 << 20
	leastRoom               = 3 << 30
	leastKernel             = "v5.13" // kube-proxy's nftables mode
	mostSkew                = 2 * time.Minute
)

// The ports that a node's programs listen on, by what is there.
var (
	workerPorts       = map[int]string{10250: "the kubelet"}
	controlPlanePorts = map[int]string{
		6443: "the API server", 2379: "etcd", 2380: "etcd's peers", 10257: "the controller manager", 10259: "the scheduler",
	}
)

// foreign are units that cannot be beside ours.
var foreign = []string{"docker", "crio", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker", "containerd", "kubelet"}

// Preflight looks whether the host will do, and changes nothing. The error is a *PreflightError with all that it found,
// or says that the host could not be asked.
func (i *Installer) Preflight(ctx context.Context, host Host, role Role) error {
	_, err := i.preflight(ctx, host, role)
	return err
}

func (i *Installer) preflight(ctx context.Context, host Host, role Role) (survey, error) {
	found, err := i.survey(ctx, host)
	if err != nil {
		return survey{}, err
	}
	if findings := found.judge(host, role); len(findings) > 0 {
		return found, &PreflightError{Host: host.String(), Findings: findings}
	}
	return found, nil
}

// judge returns what stands in the way.
func (s survey) judge(host Host, role Role) []Finding {
	findings := slices.Concat(s.judgeSystem(), s.judgeSize(role))
	if s.ours == "" {
		findings = append(findings, s.judgeOthers(role)...)
	}
	for i := range findings {
		findings[i].Subject = host.String()
	}
	return findings
}

func (s survey) judgeSystem() []Finding {
	var findings []Finding
	find := func(check, remedy, format string, args ...any) {
		findings = append(findings, Finding{Check: check, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	if s.Architecture != runtime.GOARCH {
		find("architecture", "use a host of that architecture, or a release that was built for this one", "it is %s, and this release has programs for %s", s.Architecture, runtime.GOARCH)
	}
	if !s.systemd {
		find("init", "use a host that is started by systemd", "its first process is %s; services are run by systemd", s.Init)
	}
	if !s.Like("debian") && !s.Like("rhel") && !s.Like("fedora") {
		find("distribution", "use Debian, Ubuntu, RHEL, Rocky, Alma, or a descendant of theirs", "%s is neither like Debian nor like RHEL", s.osName())
	}
	if kernel := kernelVersion(s.Kernel); kernel == "" || semver.Compare(kernel, leastKernel) < 0 {
		find("kernel", "update the host's system", "its kernel is %s; services need %s", s.Kernel, strings.TrimPrefix(leastKernel, "v"))
	}
	for _, missing := range s.missing {
		if missing == "overlay" {
			find("file system", "load the module: modprobe overlay", "its kernel has no overlay file system, which containers need")
			continue
		}
		find("program", "install "+needed[missing], "%s is missing", missing)
	}
	if s.skew > mostSkew || s.skew < -mostSkew {
		find("clock", "set the clock, and let chrony or systemd-timesyncd keep it", "its clock is %s off: certificates would not be valid", s.skew.Round(time.Second).Abs())
	}
	for _, unit := range []string{"firewalld", "ufw"} {
		if slices.Contains(s.active, unit) {
			find("firewall", fmt.Sprintf("switch it off: systemctl disable --now %s", unit), "%s is active; the cluster's security group takes its place, and two firewalls stand in each other's way", unit)
		}
	}
	return findings
}

func (s survey) judgeSize(role Role) []Finding {
	var findings []Finding
	least := int64(leastMemoryWorker)
	if role == ControlPlane {
		least = leastMemoryControlPlane
	}
	if s.Memory < least {
		findings = append(findings, Finding{
			Check: "memory", Message: fmt.Sprintf("it has %d MiB of memory; a %s machine needs %d", s.Memory>>20, word(role), least>>20), Remedy: "use a larger host",
		})
	}
	if s.Free < leastRoom && s.ours == "" {
		findings = append(findings, Finding{
			Check: "disk", Message: fmt.Sprintf("there are %d MiB free in /var/lib; %d are needed", s.Free>>20, leastRoom>>20), Remedy: "make room, or use a larger disk",
		})
	}
	return findings
}

// judgeOthers tells of what is there already, on a host that was never set up: it is somebody else's.
func (s survey) judgeOthers(role Role) []Finding {
	var findings []Finding
	for _, unit := range foreign {
		if slices.Contains(s.active, unit) {
			findings = append(findings, Finding{
				Check: "other software", Message: fmt.Sprintf("%s runs there already", unit), Remedy: fmt.Sprintf("stop it (systemctl disable --now %s), or use another host", unit),
			})
		}
	}
	for _, folder := range s.used {
		findings = append(findings, Finding{
			Check: "other software", Message: folder + " has files in it that are not ours", Remedy: "remove what made them (kubeadm reset, or uninstall it) and the directory, or use another host",
		})
	}
	for _, port := range s.listening {
		user, taken := workerPorts[port]
		if !taken && role == ControlPlane {
			user, taken = controlPlanePorts[port]
		}
		if taken {
			findings = append(findings, Finding{
				Check: "port", Message: fmt.Sprintf("port %d is in use; it is for %s", port, user), Remedy: "stop who listens there: ss -ltnp 'sport = :" + strconv.Itoa(port) + "'",
			})
		}
	}
	return findings
}

func (s survey) osName() string {
	if s.OSName != "" {
		return s.OSName
	}
	return "its system"
}

func word(role Role) string {
	if role == ControlPlane {
		return "control-plane"
	}
	return "worker"
}

// kernelVersion is the version in a kernel's release, such as 5.14.0-427.el9.x86_64; empty where it has none.
func kernelVersion(release string) string {
	end := strings.IndexFunc(release, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		release = release[:end]
	}
	parts := strings.SplitN(strings.TrimSuffix(release, "."), ".", 3)
	version := "v" + strings.Join(parts[:min(2, len(parts))], ".")
	if !semver.IsValid(version) {
		return ""
	}
	return version
}
