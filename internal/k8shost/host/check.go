package host

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Level tells how much a finding matters.
type Level string

const (
	// OK needs nothing to be done.
	OK Level = "ok"
	// Warning is what will work, but less well than it could.
	Warning Level = "warning"
	// Missing is what a node cannot run without.
	Missing Level = "missing"
)

// Finding is one line of `k8shost check`.
type Finding struct {
	Level  Level  `json:"level"`
	Name   string `json:"name"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// AnyMissing reports whether something is missing that a node cannot run without.
func AnyMissing(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Missing })
}

// Check judges the facts. The order is the one to read and to fix things in.
func Check(f *Facts) []Finding {
	findings := []Finding{f.checkPrivilege(), f.checkOOMScore(), f.checkCgroup(), f.checkSystemd()}
	findings = append(findings, f.checkTrials()...)
	findings = append(findings, f.checkPrograms()...)
	findings = append(findings, f.checkSysctls()...)
	findings = append(findings, f.checkMounts(), f.checkMemory(), f.checkSwap(), f.checkDisk(), f.checkInodes(), f.checkOpenFiles(), f.checkClock(), f.checkAddress())
	return append(findings, f.checkPorts()...)
}

func (f *Facts) checkPrivilege() Finding {
	needed := []string{
		"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_MKNOD",
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP",
	}
	lacking := slices.DeleteFunc(needed, f.Has)
	switch {
	case len(lacking) == 0:
		return Finding{OK, "privileges", "all capabilities a node needs", ""}
	case os.Geteuid() != 0:
		return Finding{Missing, "privileges", "not root: without " + strings.Join(lacking, ", "), "run it as root, for instance with sudo"}
	default:
		return Finding{Missing, "privileges", "without " + strings.Join(lacking, ", "),
			"grant them: in a container by privileged: true, in a systemd unit by removing CapabilityBoundingSet"}
	}
}

func (f *Facts) checkOOMScore() Finding {
	if f.Settings().RestrictOOMScoreAdj {
		return Finding{Warning, "out-of-memory order", "without CAP_SYS_RESOURCE: the scores of system pods stay at this process's",
			"grant CAP_SYS_RESOURCE so that the kernel spares system pods when memory runs out; containerd is configured to do without"}
	}
	return Finding{OK, "out-of-memory order", "CAP_SYS_RESOURCE held", ""}
}

func (f *Facts) checkCgroup() Finding {
	what := fmt.Sprintf("%s, driver %s, controllers %s", f.Cgroup.Mode, f.Settings().CgroupDriver, strings.Join(f.Cgroup.Controllers, " "))
	missing := f.Cgroup.missingControllers()
	switch {
	case f.Cgroup.Mode == CgroupNone:
		return Finding{Missing, "cgroups", "no cgroup file system below " + cgroupMount, "mount it: mount -t cgroup2 cgroup2 " + cgroupMount}
	case len(missing) > 0:
		return Finding{Missing, "cgroups", fmt.Sprintf("%s; without %s", what, strings.Join(missing, " ")),
			"boot with these controllers (cgroup_enable=" + missing[0] + " on some kernels), and in a container give it the host's cgroup namespace"}
	case f.Cgroup.Mode != CgroupV2:
		return Finding{Warning, "cgroups", what, "boot with systemd.unified_cgroup_hierarchy=1: Kubernetes is leaving cgroup v1 behind; kubelet is configured to accept it"}
	default:
		return Finding{OK, "cgroups", what, ""}
	}
}

func (f *Facts) checkSystemd() Finding {
	if f.Systemd {
		return Finding{OK, "systemd", "runs as process 1", ""}
	}
	return Finding{OK, "systemd", "not there; k8shost runs as a plain daemon", ""}
}

func (f *Facts) checkTrials() []Finding {
	if f.Trials == nil {
		return nil
	}
	t := f.Trials
	judge := func(level Level, name string, trial Trial, remedy string) Finding {
		if trial.Works {
			return Finding{OK, name, "works", ""}
		}
		return Finding{level, name, trial.Error, remedy}
	}
	kernel := func(option string) string {
		return "load the module, or use a kernel with " + option
	}
	return []Finding{
		judge(Missing, "cgroup writing", t.Cgroup, "mount /sys/fs/cgroup read-write"),
		judge(Missing, "overlayfs", t.Overlay, "put --data-dir on ext4 or xfs (with ftype=1), not on an overlay or a network file system"),
		judge(Missing, "nftables", t.Nftables, kernel("CONFIG_NF_TABLES, NFT_CT, NFT_NAT, NFT_MASQ, NFT_NUMGEN and NFT_FIB_INET")),
		judge(Missing, "veth", t.Veth, kernel("CONFIG_VETH")),
		judge(Warning, "bridge", t.Bridge, kernel("CONFIG_BRIDGE; only other pod networks need it")),
		judge(Warning, "vxlan", t.Vxlan, kernel("CONFIG_VXLAN; without it all nodes must share a network segment")),
		judge(Warning, "loop devices", t.Loop, kernel("CONFIG_BLK_DEV_LOOP; without it there are no local volumes")),
		judge(Missing, "/dev/kmsg", t.Kmsg, "provide it: kubelet reads it to learn of processes killed for lack of memory"),
	}
}

func (f *Facts) checkPrograms() []Finding {
	needed := map[string]string{
		"nft":    "install nftables: kube-proxy runs it",
		"mount":  "install mount (util-linux): kubelet runs it",
		"umount": "install mount (util-linux): kubelet runs it",
	}
	var findings []Finding
	for _, name := range programs() {
		path, remedy := f.Programs[name], needed[name]
		switch {
		case path != "":
			findings = append(findings, Finding{OK, name, path, ""})
		case remedy != "":
			findings = append(findings, Finding{Missing, name, "not in PATH", remedy})
		default:
			findings = append(findings, Finding{OK, name, "not in PATH; nothing k8shost starts needs it", ""})
		}
	}
	return findings
}

func (f *Facts) checkSysctls() []Finding {
	findings := []Finding{f.checkForwarding(), f.checkConntrack()}
	var stuck []string
	wanted := kubeletSysctls()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if now, ok := f.Sysctls[name]; ok && !now.Writable && now.Value != wanted[name] {
			stuck = append(stuck, name+"="+wanted[name])
		}
	}
	if len(stuck) > 0 {
		findings = append(findings, Finding{Missing, "kernel settings", "kubelet cannot write " + strings.Join(stuck, " "),
			"set them from outside: sysctl -w " + strings.Join(stuck, " ")})
	}
	return append(findings,
		f.checkAtLeast(SysctlInotifyInstances, 512),
		f.checkAtLeast(SysctlInotifyWatches, 65536),
	)
}

func (f *Facts) checkForwarding() Finding {
	forward := f.Sysctls[SysctlForward]
	if forward.Value != "1" && !forward.Writable {
		return Finding{Missing, "forwarding", "off, and cannot be switched on from here", "set it from outside: sysctl -w " + SysctlForward + "=1"}
	}
	return Finding{OK, "forwarding", "on, or can be switched on", ""}
}

func (f *Facts) checkConntrack() Finding {
	if f.Settings().KubeProxyConntrackUntouched {
		return Finding{OK, "connection tracking", "table size is set outside of this network namespace; kube-proxy leaves it alone", ""}
	}
	return Finding{OK, "connection tracking", "table size can be set", ""}
}

func (f *Facts) checkAtLeast(sysctl string, least int) Finding {
	value, err := strconv.Atoi(f.Sysctls[sysctl].Value)
	if err == nil && value < least {
		return Finding{Warning, sysctl, fmt.Sprintf("%d is low for a node with many pods", value), fmt.Sprintf("sysctl -w %s=%d", sysctl, least)}
	}
	return Finding{OK, sysctl, f.Sysctls[sysctl].Value, ""}
}

func (f *Facts) checkMounts() Finding {
	switch {
	case f.RootShared:
		return Finding{OK, "mount propagation", "root mount is shared", ""}
	case f.Trials == nil || f.Trials.SharedMounts.Works:
		return Finding{OK, "mount propagation", "root mount is private; k8shost makes it shared", ""}
	default:
		return Finding{Missing, "mount propagation", f.Trials.SharedMounts.Error, "mount --make-rshared / on the host"}
	}
}

func (f *Facts) checkAddress() Finding {
	if f.Address.IsValid() {
		return Finding{OK, "address", f.Address.String(), ""}
	}
	return Finding{Warning, "address", "no default route, and not exactly one address", "tell the node's address with --node-ip"}
}

func (f *Facts) checkClock() Finding {
	now := f.Clock.Now.Format("2006-01-02 15:04:05 MST")
	if f.Clock.Behind() {
		return Finding{Missing, "clock", fmt.Sprintf("reads %s, but %s has passed", now, f.Clock.Floor.Format(time.DateOnly)), "set the clock: certificates made now would not be valid anywhere else"}
	}
	return Finding{OK, "clock", now, ""}
}

func (f *Facts) checkPorts() []Finding {
	var findings []Finding
	for _, p := range f.Ports {
		name := "port " + strconv.Itoa(p.Number)
		switch {
		case p.Free:
			findings = append(findings, Finding{OK, name, "free for " + p.For, ""})
		case p.Holder != "":
			findings = append(findings, Finding{Missing, name, "taken by " + p.Holder + ", needed for " + p.For, "stop that program; if it is k8shost itself, all is well"})
		default:
			findings = append(findings, Finding{Missing, name, "needed for " + p.For + ": " + p.Error, "free the port"})
		}
	}
	return findings
}
