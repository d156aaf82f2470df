package securitygroup

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Where it is on a machine. The record is how the kernel listed the rules when they were loaded.
const (
	rulesFile  = "/etc/plasmacloud/security-group.nft"
	recordFile = "/run/plasmacloud-security-group"
	unitName   = "plasmacloud-security-group.service"
)

const (
	step       = "security group"
	removeStep = "remove security group"
)

var (
	//go:embed script/unit.service
	unit string
	//go:embed script/install.sh
	installScript string
	//go:embed script/check.sh
	checkScript string
	//go:embed script/remove.sh
	removeScript string
)

// exitNoNFT is how the script says that there is no nft.
const exitNoNFT = 69

// ErrLockedOut is a policy with which nobody could log in to the machine any more. It was taken off again.
var ErrLockedOut = errors.New("locked out")

// Install makes the policy the machine's. A machine that has it already is left alone; on another the old rules are in
// force until, in one moment, the new ones are. Whether one can still log in is tried before it is called a success.
func Install(ctx context.Context, host *remote.Client, policy Policy) error {
	rules, err := render(host, policy)
	if err != nil {
		return err
	}
	result, err := host.RunIdempotent(ctx, remote.Command{Step: step, Args: script(installScript, unit), Stdin: rules})
	if code, ok := remote.ExitCode(err); ok && code == exitNoNFT {
		return &remote.Error{Host: host.Host().String(), Step: step, Kind: errors.New("nftables is missing"), Remedy: "install the package nftables"}
	}
	if err != nil || strings.TrimSpace(result.Stdout) != "changed" {
		return err
	}
	if err := host.LogIn(ctx, step); err != nil && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("host %s: %s: %w: %w; the group was taken off again: see that SSH listens at port 22 or the one that it is reached by",
			host.Host(), step, ErrLockedOut, err), Remove(ctx, host))
	}
	return ctx.Err()
}

// Check tells what is wrong with the policy on a machine, for people; nothing where it is in force as it was installed.
// With a policy it also tells whether it was that which was installed.
func Check(ctx context.Context, host *remote.Client, policy *Policy) (problem string, err error) {
	var rules []byte
	if policy != nil {
		if rules, err = render(host, *policy); err != nil {
			return "", err
		}
	}
	result, err := host.RunIdempotent(ctx, remote.Command{Step: step, Args: script(checkScript), Stdin: rules})
	return strings.TrimSpace(result.Stdout), err
}

// Remove takes the policy off a machine and looks whether everything of it is gone. One that has none is no error.
func Remove(ctx context.Context, host *remote.Client) error {
	result, err := host.RunIdempotent(ctx, remote.Command{Step: removeStep, Args: script(removeScript)})
	if err != nil {
		return err
	}
	if left := strings.TrimSpace(result.Stdout); left != "" {
		return &remote.Error{Host: host.Host().String(), Step: removeStep, Kind: fmt.Errorf("left are %s", strings.ReplaceAll(left, "\n", ", ")),
			Remedy: "remove them by hand if this persists"}
	}
	return nil
}

// render renders a policy for a host: the port by which it is reached is open.
func render(host *remote.Client, policy Policy) ([]byte, error) {
	if port := host.Host().Port; port != 0 {
		policy.SSHPorts = append([]int{port}, policy.SSHPorts...)
	}
	return Render(policy)
}

// script is a script as a command.
func script(text string, more ...string) []string {
	return append([]string{"sh", "-c", text, "sh", rulesFile, recordFile, table, unitName}, more...)
}
