package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

const maxKey = 64 << 10

// keySecret is the name of the Secret that keeps the private key of an account.
func keySecret(account string) string { return account + "-ssh-key" }

// readFile reads the file that a flag names, or standard input.
func readFile(s *session.Session, flag, path string) ([]byte, error) {
	from := s.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, exit.Usagef("--%s: %w", flag, err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	content, err := io.ReadAll(io.LimitReader(from, maxKey))
	if err != nil {
		return nil, exit.Usagef("--%s: %w", flag, err)
	}
	return content, nil
}

// readKey reads a private key, and refuses one that nobody could use.
func readKey(s *session.Session, path string) ([]byte, error) {
	content, err := readFile(s, "key-file", path)
	if err != nil {
		return nil, err
	}
	_, err = ssh.ParsePrivateKey(content)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return nil, exit.With(exit.Usage, fmt.Sprintf("`ssh-keygen -p -f %s` takes it away; the platform keeps keys encrypted", path), errors.New("--key-file: the key has a passphrase, which nobody will be there to type"))
	}
	if err != nil {
		return nil, exit.Usagef("--key-file: %s is no private key: %w", path, err)
	}
	return content, nil
}

// keep stores a private key in the project, in place of one that is there.
func keep(ctx context.Context, s *session.Session, name string, key []byte, owner *v1alpha1.Account) error {
	return keepSecret(ctx, s, name, corev1.SecretTypeSSHAuth, map[string][]byte{keyName(owner): key}, owner)
}

// keepSecret stores credentials in the project, in place of those that are there. They go with their owner.
func keepSecret(ctx context.Context, s *session.Session, name string, kind corev1.SecretType, data map[string][]byte, owner *v1alpha1.Account) error {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	namespace, err := s.Namespace()
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err = api.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read secret %s: %w", name, err)
	}
	missing := apierrors.IsNotFound(err)
	if missing {
		secret.Type = kind
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.Copy(secret.Data, data)
	if owner != nil && len(secret.OwnerReferences) == 0 && owner.UID != "" {
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Account", Name: owner.Name, UID: owner.UID}}
	}
	if missing {
		err = api.Create(ctx, secret)
	} else {
		err = api.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("store the credentials in secret %s: %w", name, err)
	}
	return nil
}

// keyName is where an account looks for its key in the Secret.
func keyName(account *v1alpha1.Account) string {
	if account != nil && account.Spec.Credentials != nil && account.Spec.Credentials.Key != "" {
		return account.Spec.Credentials.Key
	}
	return corev1.SSHAuthPrivateKey
}

func setKey(s *session.Session, kind *resource.Kind[*v1alpha1.Account]) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "set-key ACCOUNT --key-file FILE", Short: "Replace the SSH key of an account",
		Long: "set-key replaces the private key that the platform logs in to the hosts of an account with. Add the new public key to the\n" +
			"hosts' authorized_keys before, and remove the old one after.",
		Example:           "  cloud account set-key lab --key-file ~/.ssh/id_ed25519",
		Args:              command.Exactly("ACCOUNT"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if account.Spec.Provider != v1alpha1.ProviderSSH || account.Spec.Credentials == nil {
				return exit.Refusedf("", "account %s has no SSH key: its provider is %s", account.Name, account.Spec.Provider)
			}
			key, err := readKey(s, file)
			if err != nil {
				return err
			}
			if err := keep(cmd.Context(), s, account.Spec.Credentials.Name, key, account); err != nil {
				return err
			}
			s.Note("account %s has a new key", account.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "key-file", "", "`file` with the new private key, - for standard input")
	_ = cmd.MarkFlagRequired("key-file")
	_ = cmd.MarkFlagFilename("key-file")
	return cmd
}
