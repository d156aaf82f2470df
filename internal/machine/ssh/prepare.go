package ssh

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// What the driver keeps on a host: who has it, and what was laid there.
const (
	claimFile = "/etc/plasmacloud-lease/owner"
	filesFile = "/etc/plasmacloud-lease/files"
)

var (
	//go:embed script/claim.sh
	claimScript string
	//go:embed script/keys.sh
	keysScript string
	//go:embed script/address.sh
	addressScript string
)

// validFiles tells whether the files of a description can be laid. Those of the driver are its own.
func validFiles(spec machine.Spec) error {
	for name := range spec.Files {
		if !path.IsAbs(name) || path.Clean(name) != name || strings.ContainsAny(name, "\n\\\x00") || strings.HasPrefix(name, path.Dir(claimFile)+"/") {
			return fmt.Errorf("%w: file %q", machine.ErrInvalid, name)
		}
	}
	for _, key := range spec.AuthorizedKeys {
		if strings.ContainsAny(key, "\n\r") || strings.HasPrefix(key, "#") {
			return fmt.Errorf("%w: an authorized key is not one line", machine.ErrInvalid)
		}
	}
	return nil
}

// ready verifies a host, takes it, and lays what the machine's description says. The lease is returned as it is then,
// also with an error.
func (d *Driver) ready(ctx context.Context, l *lease, host Host) (*lease, error) {
	client, err := d.client(ctx, host)
	if err != nil {
		return l, err
	}
	if err := d.verify(ctx, l, client); err != nil {
		return l, err
	}
	address, err := addressOf(ctx, client)
	if err != nil {
		return l, err
	}
	claimed, err := d.changeLease(ctx, l.Spec.Key, l.ID, func(l *lease) {
		l.Claimed = l.Claimed || l.State == machine.StatePending
		l.Address = address
	})
	if err != nil {
		return l, err
	}
	if claimed.State != machine.StatePending {
		return claimed, errOvertaken
	}
	if err := claim(ctx, claimed, client); err != nil {
		return claimed, err
	}
	return claimed, lay(ctx, claimed.Spec, client, client.Guarded(claimFile, claimed.ID))
}

const stepVerify = "verify host"

// verify tells whether a host can be a machine.
func (d *Driver) verify(ctx context.Context, l *lease, client *remote.Client) error {
	facts, err := client.Facts(ctx, stepVerify)
	if err != nil {
		return err
	}
	if len(d.Architectures) > 0 {
		if err := client.RequireArchitecture(stepVerify, facts, d.Architectures...); err != nil {
			return err
		}
	}
	small := func(what string, has, wants any) error {
		return fmt.Errorf("host %s: %s: it has %v of %s, and %v are asked for; use a larger host, or ask for less", client.Host(), stepVerify, has, what, wants)
	}
	const mib = 1 << 20
	switch {
	case int64(facts.CPUs)*1000 < l.Spec.CPU.MilliValue():
		return small("CPU", facts.CPUs, l.Spec.CPU.String())
	case facts.Memory < l.Spec.Memory.Value()/10*9: // what the kernel keeps for itself counts as given
		return small("memory", fmt.Sprint(facts.Memory/mib, "Mi"), l.Spec.Memory.String())
	case facts.Free < l.Spec.Disk.Value():
		return small("disk in /var/lib", fmt.Sprint(facts.Free/mib, "Mi"), l.Spec.Disk.String())
	}
	holder, err := client.Download(ctx, stepVerify, claimFile, 1<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return held(client, l, string(holder))
}

// addressOf is the address by which other machines know a host. Those that an inventory has by name are asked.
func addressOf(ctx context.Context, client *remote.Client) (string, error) {
	given := client.Host().Address
	if _, err := netip.ParseAddr(given); err == nil {
		return given, nil
	}
	result, err := client.RunIdempotent(ctx, remote.Command{Step: stepVerify, Args: []string{"sh", "-c", addressScript}})
	if err != nil {
		return "", err
	}
	address, err := netip.ParseAddr(strings.TrimSpace(result.Stdout))
	if err != nil {
		return "", fmt.Errorf("host %s: %s: it has no address in a network with a default route; give its IP address in the account instead of its name", client.Host(), stepVerify)
	}
	return address.String(), nil
}

// held is an error where the host says that another has it.
func held(client *remote.Client, l *lease, holder string) error {
	holder = strings.TrimSpace(holder)
	if holder == "" || holder == l.ID {
		return nil
	}
	return fmt.Errorf("host %s: %s: it is leased to machine %s, maybe of another installation; if that is gone, clean the host and remove %s",
		client.Host(), stepVerify, holder, claimFile)
}

// claim writes on the host who has it.
func claim(ctx context.Context, l *lease, client *remote.Client) error {
	result, err := client.RunIdempotent(ctx, remote.Command{Step: "claim host", Args: []string{"sh", "-c", claimScript, "sh", claimFile, l.ID}})
	if err != nil {
		return err
	}
	return held(client, l, result.Stdout)
}

// lay puts a machine's files and keys onto its host. What is laid is written down first, for who cleans.
func lay(ctx context.Context, spec machine.Spec, client, guarded *remote.Client) error {
	names := slices.Sorted(maps.Keys(spec.Files))
	if len(names) > 0 {
		list := remote.Bytes("lay files", filesFile, 0o600, []byte(strings.Join(names, "\n")+"\n"))
		if _, err := client.Upload(ctx, list); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := client.Upload(ctx, remote.Bytes("lay files", name, 0o600, spec.Files[name])); err != nil {
			return err
		}
	}
	if len(spec.AuthorizedKeys) == 0 {
		return nil
	}
	_, err := guarded.RunIdempotent(ctx, remote.Command{
		Step: "authorize keys", Args: []string{"sh", "-c", keysScript}, Stdin: []byte(strings.Join(spec.AuthorizedKeys, "\n") + "\n"),
	})
	return err
}
