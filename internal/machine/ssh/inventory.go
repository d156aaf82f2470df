package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Inventory knows which hosts there are. The driver reads it whenever it needs a host, so that it may change at any time.
type Inventory interface {
	// AccountOf names the account that a cluster's machines come from. It is asked once for each machine.
	AccountOf(ctx context.Context, key machine.Key) (types.NamespacedName, error)
	// Hosts returns the hosts of an account, those to be leased first at the beginning. An account that is gone has none.
	Hosts(ctx context.Context, account types.NamespacedName) ([]Host, error)
}

// Host is a host of an inventory.
type Host struct {
	// Access is how to log in. Trust on first use is the driver's, for access and bastion alike.
	Access          remote.Host
	TrustOnFirstUse bool
	// Labels that a description can ask for.
	Labels map[string]string
}

// ID names the host for as long as it has its address. The same address behind another bastion is another host.
func (h Host) ID() string { return identify(h.Access) }

func identify(access remote.Host) string {
	id := net.JoinHostPort(access.Address, strconv.Itoa(cmp.Or(access.Port, 22)))
	if access.Bastion != nil {
		id += " via " + identify(*access.Bastion)
	}
	return id
}

// HostsOf are the hosts of an account whose credentials are the given Secret.
func HostsOf(account *v1alpha1.Account, credentials *corev1.Secret) ([]Host, error) {
	inventory := account.Spec.SSH
	if inventory == nil {
		return nil, fmt.Errorf("read inventory of account %s: it has none", account.Name)
	}
	key, err := keyOf(account, credentials)
	if err != nil {
		return nil, fmt.Errorf("read inventory of account %s: %w", account.Name, err)
	}
	access := func(h v1alpha1.SSHHost) remote.Host {
		return remote.Host{Address: h.Address, Port: int(h.Port), User: h.User, HostKey: h.HostKey, Key: key}
	}
	var hosts []Host
	for _, h := range inventory.Hosts {
		host := Host{Access: access(h), TrustOnFirstUse: inventory.TrustOnFirstUse, Labels: h.Labels}
		if inventory.Bastion != nil {
			bastion := access(*inventory.Bastion)
			host.Access.Bastion = &bastion
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// keyOf is the private key in an account's credentials, by default where Secrets of type kubernetes.io/ssh-auth have it.
func keyOf(account *v1alpha1.Account, credentials *corev1.Secret) (remote.Key, error) {
	if account.Spec.Credentials == nil || credentials == nil {
		return remote.Key{}, errors.New("name a Secret with a private key in spec.credentials")
	}
	name := cmp.Or(account.Spec.Credentials.Key, corev1.SSHAuthPrivateKey)
	content, ok := credentials.Data[name]
	if !ok {
		return remote.Key{}, fmt.Errorf("the Secret %s has no %s", credentials.Name, name)
	}
	return remote.ParseKey(content)
}
