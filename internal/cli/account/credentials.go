package account

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// secret is credentials that were given as a file, and the Secret that they go into.
type secret struct {
	name string
	kind corev1.SecretType
	data map[string][]byte
}

// readSecret reads the credentials that were given as a file; nil where none were.
func (f *flags) readSecret(s *session.Session, object *v1alpha1.Account) (*secret, error) {
	switch {
	case f.keyFile != "":
		key, err := readKey(s, f.keyFile)
		return &secret{keySecret(object.Name), corev1.SecretTypeSSHAuth, map[string][]byte{corev1.SSHAuthPrivateKey: key}}, err
	case f.credentialsFile != "" || f.state.connectionFile != "":
		data, err := f.readCredentials(s, object)
		return &secret{object.Name + "-credentials", corev1.SecretTypeOpaque, data}, err
	}
	return nil, nil
}

// readCredentials reads those of a cloud, and of where states are, as far as they were given.
func (f *flags) readCredentials(s *session.Session, object *v1alpha1.Account) (map[string][]byte, error) {
	data := map[string][]byte{}
	if f.credentialsFile != "" {
		content, err := readFile(s, "credentials-file", f.credentialsFile)
		if err != nil {
			return nil, err
		}
		if data, err = parseCredentials(object.Spec.Provider, bytes.TrimSpace(content)); err != nil {
			return nil, err
		}
	}
	return data, f.readConnection(s, &object.Spec, data)
}

// parseCredentials turns the content of a file into what the account looks for in its Secret. It tells nothing of it in
// errors.
func parseCredentials(provider v1alpha1.Provider, content []byte) (map[string][]byte, error) {
	if len(content) == 0 {
		return nil, exit.Usagef("--credentials-file: it is empty")
	}
	switch provider {
	case v1alpha1.ProviderGCP:
		if content[0] != '{' {
			return map[string][]byte{"access_token": content}, nil
		}
		if !json.Valid(content) {
			return nil, exit.Usagef("--credentials-file: it is no key file of Google Cloud: it is not JSON")
		}
		return map[string][]byte{"credentials.json": content}, nil
	case v1alpha1.ProviderAWS:
		return parseProfile(content)
	case v1alpha1.ProviderAzure:
		return map[string][]byte{"client_secret": content}, nil
	}
	return nil, exit.Usagef("--credentials-file is for accounts of AWS, GCP and Azure; give --provider")
}

// parseProfile reads a credentials file of AWS that has one profile.
func parseProfile(content []byte) (map[string][]byte, error) {
	data := map[string][]byte{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), "=")
		name = strings.TrimSpace(name)
		switch {
		case !found || !strings.HasPrefix(name, "aws_"):
		case data[name] != nil:
			return nil, exit.Usagef("--credentials-file: it has several profiles; give one with a single profile")
		default:
			data[name] = []byte(strings.TrimSpace(value))
		}
	}
	if data["aws_access_key_id"] == nil || data["aws_secret_access_key"] == nil {
		return nil, exit.Usagef("--credentials-file: it lacks aws_access_key_id or aws_secret_access_key")
	}
	return data, lines.Err()
}

// create stores the credentials before the account, which is looked at as soon as it is there, and lets them go with the
// account.
func (c *secret) create(ctx context.Context, s *session.Session, kind *resource.Kind[*v1alpha1.Account], object *v1alpha1.Account, creation *resource.Creation) error {
	object.Spec.Credentials = &v1alpha1.SecretReference{Name: c.name}
	if creation.Export || creation.DryRun.On() {
		return kind.Create(ctx, s, object, creation)
	}
	if err := keepSecret(ctx, s, c.name, c.kind, c.data, nil); err != nil {
		return err
	}
	waiting := creation.Waiting
	creation.Waiting.Wait = false
	if err := kind.Create(ctx, s, object, creation); err != nil {
		return err
	}
	if err := keepSecret(ctx, s, c.name, c.kind, c.data, object); err != nil {
		return err
	}
	if !waiting.Wait {
		return nil
	}
	return kind.Await(ctx, s, object, v1alpha1.OperationCreate, waiting.Timeout)
}

func setCredentials(s *session.Session, kind *resource.Kind[*v1alpha1.Account]) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "set-credentials ACCOUNT --credentials-file FILE", Short: "Replace the credentials of an account in a cloud",
		Long: "set-credentials replaces the credentials that the platform acts in a cloud with. The next operation uses them, and so does\n" +
			"one that failed and is tried again. Revoke the old ones after what runs has ended. What an account whose states are in\n" +
			"PostgreSQL reaches them by stays what it is, unless another file is given for it.",
		Example:           "  cloud account set-credentials prod --credentials-file key.json && cloud account verify prod",
		Args:              command.Exactly("ACCOUNT"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if !account.Spec.Provider.IsCloud() || account.Spec.Credentials == nil {
				return exit.Refusedf("", "account %s has no credentials of a cloud: its provider is %s", account.Name, account.Spec.Provider)
			}
			if err := f.replace(cmd.Context(), s, account); err != nil {
				return err
			}
			s.Note("the credentials of account %s are replaced", account.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&f.credentialsFile, "credentials-file", "", "`file` with the credentials, - for standard input")
	_ = cmd.MarkFlagFilename("credentials-file")
	f.state.addConnection(cmd)
	return cmd
}

// replace replaces what was given.
func (f *flags) replace(ctx context.Context, s *session.Session, account *v1alpha1.Account) error {
	credentials, err := f.readSecret(s, account)
	switch {
	case err != nil:
		return err
	case credentials == nil:
		return exit.Usagef("--credentials-file is missing")
	case f.credentialsFile == "":
		return keepSecret(ctx, s, account.Spec.Credentials.Name, credentials.kind, credentials.data, account)
	}
	return replaceSecret(ctx, s, account, credentials)
}

// replaceSecret leaves nothing of what was there, but the way to the states.
func replaceSecret(ctx context.Context, s *session.Session, account *v1alpha1.Account, credentials *secret) error {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	name := account.Spec.Credentials.Name
	stored := &corev1.Secret{}
	err = api.Get(ctx, client.ObjectKey{Namespace: account.Namespace, Name: name}, stored)
	if apierrors.IsNotFound(err) {
		return keepSecret(ctx, s, name, credentials.kind, credentials.data, account)
	}
	if err != nil {
		return fmt.Errorf("read secret %s: %w", name, err)
	}
	if connection := stored.Data[v1alpha1.KeyPostgresConnection]; connection != nil && credentials.data[v1alpha1.KeyPostgresConnection] == nil {
		credentials.data[v1alpha1.KeyPostgresConnection] = connection
	}
	stored.Data = credentials.data
	if err := api.Update(ctx, stored); err != nil {
		return fmt.Errorf("store the credentials in secret %s: %w", name, err)
	}
	return nil
}
