package pod

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/guest"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

//go:embed script/rekey.sh
var rekeyScript string

const stepRekey = "replace SSH key"

// Reach implements machine.Reacher. The machine's host key is the one that it was made with; no other is believed.
func (d *Driver) Reach(ctx context.Context, key machine.Key) (*remote.Client, error) {
	host, keys, err := d.access(ctx, key)
	if err == nil && sshkey.Replaced(keys) {
		err = d.rekey(ctx, host, keys)
	}
	if err != nil {
		return nil, fmt.Errorf("reach machine %s: %w", key, err)
	}
	return d.config.SSH.Client(host), nil
}

// Rekey implements machine.Keyed.
func (d *Driver) Rekey(ctx context.Context, key machine.Key) error {
	host, keys, err := d.access(ctx, key)
	if err == nil {
		err = d.rekey(ctx, host, keys)
	}
	if err != nil {
		return fmt.Errorf("replace SSH key of machine %s: %w", key, err)
	}
	return nil
}

// rekey lets in the present key of the cluster only, with the one before it where the machine does not know it yet.
func (d *Driver) rekey(ctx context.Context, host remote.Host, keys map[string][]byte) error {
	command := remote.Command{
		Step: stepRekey, Stdin: []byte(host.Key.Authorized() + "\n"),
		Args: []string{"sh", "-c", rekeyScript, "sh", guest.KeptKeysFile, guest.AuthorizedKeysFile},
	}
	_, err := d.config.SSH.Client(host).RunIdempotent(ctx, command)
	if !errors.Is(err, remote.ErrAuthentication) || !sshkey.Replaced(keys) {
		return err
	}
	previous, problem := sshkey.Previous(keys)
	if problem != nil {
		return errors.Join(err, problem)
	}
	host.Key = previous
	_, err = d.config.SSH.Client(host).RunIdempotent(ctx, command)
	return err
}

// access is how to log in to a machine that runs, and the keys of its cluster.
func (d *Driver) access(ctx context.Context, key machine.Key) (remote.Host, map[string][]byte, error) {
	if d.config.SSH == nil {
		return remote.Host{}, nil, errors.New("this process has no way to machines")
	}
	pod, err := d.find(ctx, key)
	if err != nil {
		return remote.Host{}, nil, err
	}
	m := show(pod)
	if m.State != machine.StateRunning {
		return remote.Host{}, nil, fmt.Errorf("it is %s", strings.TrimSuffix(fmt.Sprintf("%s: %s", m.State, m.Message), ": "))
	}
	hostKey, err := d.hostKey(ctx, pod)
	if err != nil {
		return remote.Host{}, nil, err
	}
	secret, err := d.client.CoreV1().Secrets(key.Namespace).Get(ctx, sshkey.SecretName, metav1.GetOptions{})
	if err != nil {
		return remote.Host{}, nil, fmt.Errorf("read the cluster's SSH key: %w", translate(ctx, err))
	}
	current, err := sshkey.Current(secret.Data)
	if err != nil {
		return remote.Host{}, nil, err
	}
	return remote.Host{Address: m.Address, Key: current, HostKey: hostKey}, secret.Data, nil
}

// hostKey is the public key that a machine was made with.
func (d *Driver) hostKey(ctx context.Context, pod *corev1.Pod) (string, error) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		for _, item := range volume.Secret.Items {
			if "/"+item.Path != hostPublicKeyFile {
				continue
			}
			secret, err := d.client.CoreV1().Secrets(pod.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("read its host key: %w", translate(ctx, err))
			}
			return strings.TrimSpace(string(secret.Data[item.Key])), nil
		}
	}
	return "", errors.New("it was made without SSH keys: only machines of clusters of type Kubeadm and K3s have them")
}
