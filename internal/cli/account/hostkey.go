package account

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

const sshPort = 22

// pin gives the hosts the keys that they have in the file of --known-hosts.
func (f *flags) pin(inventory *v1alpha1.SSHInventory) error {
	if f.knownHosts == "" {
		return nil
	}
	if inventory == nil {
		return exit.Usagef("--known-hosts: there is no --host that it could be about")
	}
	check, err := knownhosts.New(f.knownHosts)
	if err != nil {
		return exit.Usagef("--known-hosts: %w", err)
	}
	hosts := make([]*v1alpha1.SSHHost, 0, len(inventory.Hosts)+1)
	for i := range inventory.Hosts {
		hosts = append(hosts, &inventory.Hosts[i])
	}
	if inventory.Bastion != nil {
		hosts = append(hosts, inventory.Bastion)
	}
	for _, host := range hosts {
		if host.HostKey != "" {
			continue
		}
		key, err := keyOf(check, host)
		if err != nil {
			return err
		}
		switch {
		case key != nil:
			host.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
		case !inventory.TrustOnFirstUse:
			return exit.Usagef("--known-hosts: %s has no key of %s; `ssh-keyscan -p %d %s` prints it", f.knownHosts, host.Address, port(host), host.Address)
		}
	}
	return nil
}

func port(host *v1alpha1.SSHHost) int32 { return cmp.Or(host.Port, sshPort) }

// keyOf is the best key that the file has of a host, or nil. The file's reader only answers whether a key is right; to one
// that is nobody's it answers with those that would be.
func keyOf(check ssh.HostKeyCallback, host *v1alpha1.SSHHost) (ssh.PublicKey, error) {
	nobodys, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return nil, fmt.Errorf("ask for a host's key: %w", err)
	}
	address := net.JoinHostPort(host.Address, strconv.Itoa(int(port(host))))
	answer, ok := errors.AsType[*knownhosts.KeyError](check(address, &net.TCPAddr{}, nobodys))
	if !ok || len(answer.Want) == 0 {
		return nil, nil
	}
	// The shortest is the most modern: ed25519 before ECDSA before RSA.
	best := slices.MinFunc(answer.Want, func(a, b knownhosts.KnownKey) int { return len(a.Key.Marshal()) - len(b.Key.Marshal()) })
	return best.Key, nil
}
