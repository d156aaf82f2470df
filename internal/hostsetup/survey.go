package hostsetup

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

//go:embed script/survey.sh
var surveyScript string

// capSysResource is the bit of CAP_SYS_RESOURCE, without which nobody may lower an oom_score_adj.
const capSysResource = 24

// machineContainer is what the first process of a machine that is a pod has in its environment, as container.
const machineContainer = "plasmacloud"

// survey is what a host is, as far as it matters here.
type survey struct {
	remote.Facts
	// container that the host is inside of; empty for real and virtual machines.
	container string
	// systemd tells whether it runs services there, and cgroupV2 whether there is only that version.
	systemd, cgroupV2 bool
	// resource tells whether processes may be given any oom_score_adj.
	resource bool
	// selinux is set where it is switched on.
	selinux bool
	// skew is how far the host's clock is before ours.
	skew time.Duration
	// ours is the version of Kubernetes that an earlier call has brought; empty for a host that was never set up.
	ours string
	// missing are programs and file systems, active units, used directories of Kubernetes, listening ports.
	missing, active, used []string
	listening             []int
}

// isMachine tells whether the host is one of the platform's own pods.
func (s survey) isMachine() bool { return s.container == machineContainer }

// needed are the programs that a host must have of its own, and who has them.
var needed = map[string]string{
	"systemctl": "systemd", "tar": "tar", "mount": "util-linux", "umount": "util-linux", "sha256sum": "coreutils", "find": "findutils",
	"sed": "sed", "ip": "iproute2 (Debian) or iproute (RHEL)",
}

// survey asks the host what it is.
func (i *Installer) survey(ctx context.Context, host Host) (survey, error) {
	facts, err := host.Client.Facts(ctx, StepPreflight)
	if err != nil {
		return survey{}, err
	}
	programs := make([]string, 0, len(needed))
	for program := range needed {
		programs = append(programs, program)
	}
	slices.Sort(programs)
	began := i.clock.Now()
	result, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: StepPreflight, Args: append([]string{"sh", "-c", surveyScript, "sh", MarkFile}, programs...), Timeout: time.Minute,
	})
	if err != nil {
		return survey{}, err
	}
	s := survey{Facts: facts}
	for line := range strings.Lines(result.Stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.learn(name, value, began)
	}
	slices.Sort(s.listening)
	s.listening = slices.Compact(s.listening)
	return s, nil
}

func (s *survey) learn(name, value string, now time.Time) {
	switch name {
	case "container":
		s.container = value
	case "systemd":
		s.systemd = true
	case "cgroup":
		s.cgroupV2 = value == "v2"
	case "capabilities":
		bits, err := strconv.ParseUint(value, 16, 64)
		s.resource = err == nil && bits&(1<<capSysResource) != 0
	case "selinux":
		s.selinux = true
	case "now":
		if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
			s.skew = time.Unix(seconds, 0).Sub(now)
		}
	case "ours":
		s.ours = value
	case "missing", "missing-file-system":
		s.missing = append(s.missing, value)
	case "active":
		s.active = append(s.active, value)
	case "ufw":
		if value != "yes" { // the unit is active also where the firewall is not
			s.active = slices.DeleteFunc(s.active, func(unit string) bool { return unit == "ufw" })
		}
	case "used":
		s.used = append(s.used, value)
	case "listen":
		if port, err := strconv.ParseUint(value, 16, 16); err == nil {
			s.listening = append(s.listening, int(port))
		}
	}
}
