package host_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

// sound is a host with nothing to complain about.
func sound() host.Facts {
	works := host.Trial{Works: true}
	writable := func(value string) host.Sysctl { return host.Sysctl{Value: value, Writable: true} }
	return host.Facts{
		Identity: host.Identity{Hostname: "a", Address: netip.MustParseAddr("10.0.0.1")},
		CPUs:     2, Memory: 8 << 30, Systemd: true, RootShared: true, OpenFiles: 1 << 20,
		Cgroup: host.Cgroup{Mode: host.CgroupV2, Controllers: []string{"cpu", "cpuset", "io", "memory", "pids"}},
		Capabilities: []string{
			"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_MKNOD", "CAP_CHOWN", "CAP_DAC_OVERRIDE",
			"CAP_FOWNER", "CAP_KILL", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_SYS_RESOURCE",
		},
		Disk: host.Disk{Existing: "/var/lib", FileSystem: "ext4", Size: 100 << 30, Free: 50 << 30, Inodes: 1000, FreeInodes: 900},
		Sysctls: map[string]host.Sysctl{
			host.SysctlForward: writable("0"), host.SysctlConntrackMax: writable("262144"),
			host.SysctlInotifyInstances: writable("8192"), host.SysctlInotifyWatches: writable("524288"),
			"vm.overcommit_memory": writable("0"),
		},
		Programs: map[string]string{"nft": "/usr/sbin/nft", "mount": "/bin/mount", "umount": "/bin/umount"},
		Clock:    host.Clock{Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), Floor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		Ports:    []host.PortState{{Port: host.Port{Number: 6443, For: "kube-apiserver"}, Free: true}},
		Trials: &host.Trials{
			Cgroup: works, Overlay: works, SharedMounts: works, Nftables: works, Veth: works, Bridge: works, Vxlan: works, Loop: works, Kmsg: works,
		},
	}
}

func TestASoundHostPasses(t *testing.T) {
	facts := sound()
	findings := host.Check(&facts)
	for _, f := range findings {
		if f.Level != host.OK || f.Name == "" || f.What == "" || f.Remedy != "" {
			t.Errorf("%+v", f)
		}
	}
	if host.AnyMissing(findings) {
		t.Error("something is missing")
	}
}

func TestWhatIsWrongIsNamedWithItsRemedy(t *testing.T) {
	broken := host.Trial{Error: "operation not supported"}
	without := func(capability string) func(*host.Facts) {
		return func(f *host.Facts) {
			f.Capabilities = slices.DeleteFunc(f.Capabilities, func(c string) bool { return c == capability })
		}
	}
	tests := []struct {
		level  host.Level
		name   string
		says   string
		damage func(*host.Facts)
	}{
		{host.Missing, "privileges", "CAP_NET_ADMIN", without("CAP_NET_ADMIN")},
		{host.Warning, "out-of-memory order", "CAP_SYS_RESOURCE", without("CAP_SYS_RESOURCE")},
		{host.Missing, "cgroups", "no cgroup", func(f *host.Facts) { f.Cgroup = host.Cgroup{Mode: host.CgroupNone} }},
		{host.Missing, "cgroups", "memory", func(f *host.Facts) { f.Cgroup.Controllers = []string{"cpu", "cpuset", "pids"} }},
		{host.Warning, "cgroups", "hybrid", func(f *host.Facts) {
			f.Cgroup = host.Cgroup{Mode: host.CgroupHybrid, Controllers: []string{"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}}
		}},
		{host.Missing, "cgroup writing", "not supported", func(f *host.Facts) { f.Trials.Cgroup = broken }},
		{host.Missing, "overlayfs", "not supported", func(f *host.Facts) { f.Trials.Overlay = broken }},
		{host.Missing, "nftables", "not supported", func(f *host.Facts) { f.Trials.Nftables = broken }},
		{host.Missing, "veth", "not supported", func(f *host.Facts) { f.Trials.Veth = broken }},
		{host.Warning, "vxlan", "not supported", func(f *host.Facts) { f.Trials.Vxlan = broken }},
		{host.Warning, "loop devices", "not supported", func(f *host.Facts) { f.Trials.Loop = broken }},
		{host.Missing, "/dev/kmsg", "not supported", func(f *host.Facts) { f.Trials.Kmsg = broken }},
		{host.Missing, "nft", "not in PATH", func(f *host.Facts) { delete(f.Programs, "nft") }},
		{host.Missing, "mount", "not in PATH", func(f *host.Facts) { delete(f.Programs, "mount") }},
		{host.Missing, "forwarding", "off", func(f *host.Facts) { f.Sysctls[host.SysctlForward] = host.Sysctl{Value: "0"} }},
		{host.Missing, "kernel settings", "vm.overcommit_memory=1", func(f *host.Facts) { f.Sysctls["vm.overcommit_memory"] = host.Sysctl{Value: "0"} }},
		{host.Warning, host.SysctlInotifyInstances, "128", func(f *host.Facts) { f.Sysctls[host.SysctlInotifyInstances] = host.Sysctl{Value: "128"} }},
		{host.Missing, "mount propagation", "not supported", func(f *host.Facts) { f.RootShared, f.Trials.SharedMounts = false, broken }},
		{host.Missing, "memory", "512 MiB", func(f *host.Facts) { f.Memory = 512 << 20 }},
		{host.Warning, "memory", "1.5 GiB", func(f *host.Facts) { f.Memory = 3 << 29 }},
		{host.Warning, "swap", "/dev/sda2", func(f *host.Facts) { f.Swap = []string{"/dev/sda2"} }},
		{host.Missing, "disk", "100 MiB free", func(f *host.Facts) { f.Disk.Free = 100 << 20 }},
		{host.Warning, "disk", "10.0 GiB free", func(f *host.Facts) { f.Disk.Free = 10 << 30 }},
		{host.Warning, "disk", "tmpfs", func(f *host.Facts) { f.Disk.FileSystem = "tmpfs" }},
		{host.Warning, "disk", "nfs4", func(f *host.Facts) { f.Disk.FileSystem = "nfs4" }},
		{host.Warning, "inodes", "10 free", func(f *host.Facts) { f.Disk.FreeInodes = 10 }},
		{host.Warning, "open files", "1024", func(f *host.Facts) { f.OpenFiles = 1024 }},
		{host.Missing, "clock", "1970-01-01", func(f *host.Facts) { f.Clock.Now = time.Unix(0, 0).UTC() }},
		{host.Warning, "address", "no default route", func(f *host.Facts) { f.Address = netip.Addr{} }},
		{host.Missing, "port 6443", "nginx (pid 7)", func(f *host.Facts) { f.Ports[0].Free, f.Ports[0].Holder = false, "nginx (pid 7)" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			facts := sound()
			tt.damage(&facts)
			findings := host.Check(&facts)
			var complaints []host.Finding
			for _, f := range findings {
				if f.Level != host.OK {
					complaints = append(complaints, f)
				}
			}
			if len(complaints) != 1 {
				t.Fatalf("want one complaint, got %+v", complaints)
			}
			got := complaints[0]
			if got.Level != tt.level || got.Name != tt.name || !strings.Contains(got.What, tt.says) || got.Remedy == "" {
				t.Errorf("got %+v", got)
			}
			if host.AnyMissing(findings) != (tt.level == host.Missing) {
				t.Error("exit code would be wrong")
			}
		})
	}
}

func TestThisHostLacksNothingNeeded(t *testing.T) {
	facts, err := host.Detect(host.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range host.Check(&facts) {
		if f.Level == host.Missing {
			t.Errorf("%+v", f)
		}
	}
}

func TestATakenPortNamesItsHolder(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "0.0.0.0", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		state := host.ProbePorts([]host.Port{{Number: port, For: "etcd"}})[0]
		if state.Free || !strings.Contains(state.Holder, fmt.Sprintf("(pid %d)", os.Getpid())) {
			t.Errorf("on %s: %+v", address, state)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if state := host.ProbePorts([]host.Port{{Number: port, For: "etcd"}})[0]; !state.Free {
			t.Errorf("after closing %s: %+v", address, state)
		}
	}
}
