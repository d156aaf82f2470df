package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Trial is the outcome of using a feature once.
type Trial struct {
	Works bool   `json:"works"`
	Error string `json:"error,omitempty"`
}

// Trials are the features that were tried, each in a way that leaves nothing behind.
type Trials struct {
	// Cgroup is a cgroup made and removed in every hierarchy.
	Cgroup Trial `json:"cgroup"`
	// Overlay is an overlay mount with its layers on the data directory's file system.
	Overlay Trial `json:"overlay"`
	// SharedMounts is mount propagation switched on for the root mount.
	SharedMounts Trial `json:"sharedMounts"`
	// Nftables is a table with what PrismNET and kube-proxy put into theirs.
	Nftables Trial `json:"nftables"`
	Veth     Trial `json:"veth"`
	Bridge   Trial `json:"bridge"`
	Vxlan    Trial `json:"vxlan"`
	// Loop is the question for a free loop device.
	Loop Trial `json:"loop"`
	// Kmsg is the kernel's log opened for reading, as kubelet does.
	Kmsg Trial `json:"kmsg"`
}

func tried(err error) Trial {
	if err != nil {
		return Trial{Error: err.Error()}
	}
	return Trial{Works: true}
}

// try makes every trial; dir is an existing directory on the file system of the data.
func try(dir string, cgroup Cgroup) Trials {
	t := Trials{
		Cgroup: tried(tryCgroup(cgroup)),
		Loop:   tried(tryLoop()),
		Kmsg:   tried(tryKmsg()),
	}
	err := inThrowAwayNamespaces(func() {
		t.Overlay = tried(tryOverlay(dir))
		t.SharedMounts = tried(remountRoot(unix.MS_SHARED))
		t.Nftables = tried(tryNftables())
		t.Veth = tried(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth0"}, PeerName: "veth1"}))
		t.Bridge = tried(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge0"}}))
		t.Vxlan = tried(netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vxlan0"}, VxlanId: 1, Port: 4789}))
	})
	if err != nil {
		failed := tried(err)
		t.Overlay, t.SharedMounts, t.Nftables, t.Veth, t.Bridge, t.Vxlan = failed, failed, failed, failed, failed, failed
	}
	return t
}

// inThrowAwayNamespaces runs a function in a mount and a network namespace that vanish
// with everything in them, also when this process is killed in the middle.
func inThrowAwayNamespaces(run func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		// The main thread cannot end before the process, and is what others see of it in
		// /proc: keep it busy here while another thread does the work.
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- inThrowAwayNamespaces(run)
			return
		}
		// Any other thread is never unlocked, so that it ends with this goroutine instead of
		// going back to the runtime with the wrong namespaces.
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("make namespaces: %w", err)
			return
		}
		if err := remountRoot(unix.MS_PRIVATE); err != nil {
			done <- err
			return
		}
		run()
		done <- nil
	}()
	return <-done
}

func remountRoot(propagation uintptr) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
		return fmt.Errorf("change propagation of the root mount: %w", err)
	}
	return nil
}

func tryCgroup(c Cgroup) error {
	if len(c.Hierarchies) == 0 {
		return errors.New("no cgroup file system below " + cgroupMount)
	}
	name := fmt.Sprintf("k8shost-trial-%d", os.Getpid())
	for _, h := range c.Hierarchies {
		dir := filepath.Join(h.Mount, name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			return err
		}
		if err := unix.Rmdir(dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}

// tryOverlay mounts an overlay and removes a file of its lower layer: the whiteout this
// leaves in the upper layer is what some file systems cannot hold.
func tryOverlay(dir string) (err error) {
	work, err := os.MkdirTemp(dir, ".trial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(work, name), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(work, "lower", "file"), nil, 0o600); err != nil {
		return err
	}
	merged := filepath.Join(work, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", work)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	removed := os.Remove(filepath.Join(merged, "file"))
	return errors.Join(removed, unix.Unmount(merged, unix.MNT_DETACH))
}

// tryNftables loads, in one transaction, the kinds of chain and expression that the
// data plane is made of. An expression the kernel lacks fails the whole of it.
func tryNftables() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netfilter: %w", err)
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyIPv4} {
		table := conn.AddTable(&nftables.Table{Family: family, Name: "trial"})
		nat := conn.AddChain(&nftables.Chain{
			Name: "nat", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})
		filter := conn.AddChain(&nftables.Chain{
			Name: "filter", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
		})
		verdicts := &nftables.Set{
			Table: table, Name: "verdicts", IsMap: true,
			KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict,
		}
		if err := conn.AddSet(verdicts, nil); err != nil {
			return fmt.Errorf("describe verdict map: %w", err)
		}
		conn.AddRule(&nftables.Rule{Table: table, Chain: nat, Exprs: []expr.Any{&expr.Masq{}}})
		conn.AddRule(&nftables.Rule{Table: table, Chain: filter, Exprs: []expr.Any{
			&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
			&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
			&expr.Numgen{Register: 1, Modulus: 2, Type: unix.NFT_NG_RANDOM},
			&expr.Lookup{SourceRegister: 1, SetName: verdicts.Name, SetID: verdicts.ID, DestRegister: 0, IsDestRegSet: true},
		}})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("load nftables rules: %w", err)
	}
	return nil
}

func tryLoop() error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	return errors.Join(err, control.Close())
}

func tryKmsg() error {
	f, err := os.Open("/dev/kmsg")
	if err != nil {
		return err
	}
	return f.Close()
}
