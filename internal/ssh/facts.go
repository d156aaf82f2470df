package remote

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed script/facts.sh
var factsScript string

// Facts are what a host is.
type Facts struct {
	// Architecture as Go names it, such as amd64; the kernel's own name where Go has none.
	Architecture string
	Kernel       string
	HostName     string
	// MachineID tells hosts apart, and BootID their boots.
	MachineID, BootID string
	// Init is the name of the first process, such as systemd.
	Init string
	CPUs int
	// Memory, and Free room in /var/lib, in bytes.
	Memory, Free int64
	// OS is the distribution's ID, such as debian, OSLike those it descends from, OSVersion its version, and OSName its
	// name for people.
	OS, OSVersion, OSName string
	OSLike                []string
}

// Like tells whether the host's distribution is of a family, such as debian or rhel.
func (f Facts) Like(family string) bool { return f.OS == family || slices.Contains(f.OSLike, family) }

// Facts asks the host what it is. It does so as root, and so fails where the user cannot become that.
func (c *Client) Facts(ctx context.Context, step string) (Facts, error) {
	var err error
	for attempt := range c.pool.config.Attempts {
		if err := c.pause(ctx, attempt); err != nil {
			return Facts{}, err
		}
		answer := &limited{most: 64 << 10}
		if err = c.script(ctx, step, factsScript, nil, nil, answer); err == nil {
			return c.parseFacts(step, answer.String())
		}
		if !errors.Is(err, ErrLost) {
			break
		}
	}
	return Facts{}, err
}

func (c *Client) parseFacts(step, text string) (Facts, error) {
	facts := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			facts[name] = strings.Trim(value, `"'`)
		}
	}
	if facts["uid"] != "0" {
		return Facts{}, c.fail(step, ErrSudo, fmt.Errorf("commands run as user %s", facts["uid"]), "let sudo make %s root", c.host.user())
	}
	cpus, cpuErr := strconv.Atoi(facts["cpus"])
	memory, memoryErr := strconv.ParseInt(facts["memory"], 10, 64)
	free, freeErr := strconv.ParseInt(facts["free"], 10, 64)
	if err := errors.Join(cpuErr, memoryErr, freeErr); err != nil {
		return Facts{}, fmt.Errorf("host %s: %s: read what it is: %w", c.host, step, err)
	}
	return Facts{
		Architecture: goArchitecture(facts["machine"]), Kernel: facts["kernel"], HostName: facts["hostname"],
		MachineID: facts["machineid"], BootID: facts["bootid"], Init: facts["init"],
		CPUs: cpus, Memory: memory << 10, Free: free << 10,
		OS: facts["os.ID"], OSVersion: facts["os.VERSION_ID"], OSName: facts["os.PRETTY_NAME"], OSLike: strings.Fields(facts["os.ID_LIKE"]),
	}, nil
}

func goArchitecture(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return machine
	}
}

// RequireArchitecture is an error where the host is of none of the architectures that there are programs for.
func (c *Client) RequireArchitecture(step string, facts Facts, architectures ...string) error {
	if slices.Contains(architectures, facts.Architecture) {
		return nil
	}
	return c.fail(step, ErrArchitecture, fmt.Errorf("it is %s", facts.Architecture),
		"this release has programs for %s: use such a host, or a release that was built for it", strings.Join(architectures, " and "))
}
