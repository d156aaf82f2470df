package host

// Cgroup drivers as kubelet and containerd spell them.
const (
	DriverSystemd  = "systemd"
	DriverCgroupfs = "cgroupfs"
)

// Settings are what the components have to be told on this host.
type Settings struct {
	// CgroupDriver goes to both kubelet and containerd; they must agree.
	CgroupDriver string `json:"cgroupDriver"`
	// FailCgroupV1 is kubelet's: from 1.35 on it refuses cgroup v1 unless told otherwise.
	FailCgroupV1 bool `json:"failCgroupV1"`
	// FailSwapOn is kubelet's: with it, kubelet refuses to start on a host with swap.
	FailSwapOn bool `json:"failSwapOn"`
	// RestrictOOMScoreAdj is containerd's: without CAP_SYS_RESOURCE no process may be made
	// less likely to be killed than its parent, and runc dies trying.
	RestrictOOMScoreAdj bool `json:"restrictOOMScoreAdj"`
	// KubeProxyConntrackUntouched asks for maxPerCore and min of 0: in a network namespace
	// of its own nf_conntrack_max is read-only, and kube-proxy exits when it cannot write it.
	KubeProxyConntrackUntouched bool `json:"kubeProxyConntrackUntouched"`
	// MakeRootShared asks for mount propagation to be switched on before kubelet starts,
	// so that what pods mount is seen by kubelet and other pods.
	MakeRootShared bool `json:"makeRootShared"`
	// OwnCgroup tells that the node gets a cgroup root of its own by Cgroup.Ensure. Under
	// systemd it must not: there systemd owns the tree.
	OwnCgroup bool `json:"ownCgroup"`
}

// Settings derives what the components have to be told.
func (f *Facts) Settings() Settings {
	driver := DriverCgroupfs
	if f.Cgroup.Mode == CgroupV2 && f.Systemd {
		driver = DriverSystemd
	}
	return Settings{
		CgroupDriver:                driver,
		FailCgroupV1:                f.Cgroup.Mode == CgroupV2,
		FailSwapOn:                  len(f.Swap) == 0,
		RestrictOOMScoreAdj:         !f.Has("CAP_SYS_RESOURCE"),
		KubeProxyConntrackUntouched: !f.Sysctls[SysctlConntrackMax].Writable,
		MakeRootShared:              !f.RootShared,
		OwnCgroup:                   driver == DriverCgroupfs,
	}
}
