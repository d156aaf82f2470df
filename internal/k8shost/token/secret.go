package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/utils/clock"
)

// Groups that a token's user is in, beside system:bootstrappers.
const (
	AgentGroup  = "system:bootstrappers:k8shost:agent"
	ServerGroup = "system:bootstrappers:k8shost:server"
)

// ErrNotFound says that the cluster has no such token.
var ErrNotFound = errors.New("no such token")

// Options are the choices a new bootstrap token has.
type Options struct {
	TTL         time.Duration // zero: it does not expire
	Description string
}

// NewBootstrap makes a bootstrap token for agents of the cluster with the CA given by its hash. The cluster accepts it
// once its Secret (BootstrapSecret) is there.
func NewBootstrap(caHash string) (Token, error) {
	if err := checkHash(caHash); err != nil {
		return Token{}, fmt.Errorf("make token: %w", err)
	}
	text, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, fmt.Errorf("make token: %w", err)
	}
	return Token{caHash: caHash, id: text[:idLength], secret: text[idLength+1:]}, nil
}

// BootstrapSecret is the Secret by which the cluster accepts a bootstrap token, until it expires; never where that is
// the zero time.
func BootstrapSecret(t Token, description string, expires time.Time) (*corev1.Secret, error) {
	if t.JoinsServers() || t.id == "" {
		return nil, errors.New("make bootstrap secret: this is no bootstrap token")
	}
	secret := bootstrapSecret(t.id, t.secret, description, []string{AgentGroup})
	// The signature lets kubeadm's discovery trust cluster-info. Passwords get
	// none: it can be read by anyone, and tried against guesses.
	secret.Data[bootstrapapi.BootstrapTokenUsageSigningKey] = []byte("true")
	if !expires.IsZero() {
		secret.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(expires.UTC().Format(time.RFC3339))
	}
	return secret, nil
}

// Create makes a bootstrap token for agents of the cluster with the CA given by
// its hash.
func Create(ctx context.Context, client kubernetes.Interface, clk clock.PassiveClock, caHash string, opts Options) (Token, error) {
	if opts.TTL < 0 {
		return Token{}, fmt.Errorf("create token: the lifetime %v is negative", opts.TTL)
	}
	t, err := NewBootstrap(caHash)
	if err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	var expires time.Time
	if opts.TTL > 0 {
		expires = clk.Now().Add(opts.TTL)
	}
	secret, err := BootstrapSecret(t, opts.Description, expires)
	if err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	if _, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	return t, nil
}

// PasswordSecret is the Secret by which the cluster accepts its own token: t has
// to hold the password and the hash of the CA. Its name depends on the CA alone,
// so that a new password takes the place of the old one.
func PasswordSecret(t Token) (*corev1.Secret, error) {
	if !t.JoinsServers() {
		return nil, errors.New("make password secret: the token holds no password")
	}
	bootstrap, err := t.Bootstrap()
	if err != nil {
		return nil, err
	}
	id, secret, _ := strings.Cut(bootstrap, ".")
	return bootstrapSecret(id, secret, "the cluster's own token", []string{AgentGroup, ServerGroup}), nil
}

func bootstrapSecret(id, secret, description string, groups []string) *corev1.Secret {
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey:               []byte(id),
		bootstrapapi.BootstrapTokenSecretKey:           []byte(secret),
		bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
		bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(strings.Join(groups, ",")),
	}
	if description != "" {
		data[bootstrapapi.BootstrapTokenDescriptionKey] = []byte(description)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem,
			Name:      bootstraputil.BootstrapTokenSecretName(id),
		},
		Type: bootstrapapi.SecretTypeBootstrapToken,
		Data: data,
	}
}

// Info is what may be shown of a token in the cluster.
type Info struct {
	ID          string    `json:"id"`
	Description string    `json:"description,omitempty"`
	Groups      []string  `json:"groups,omitempty"`
	Usages      []string  `json:"usages,omitempty"`
	Expires     time.Time `json:"expires,omitzero"` // zero: never
	Expired     bool      `json:"expired,omitempty"`
	// Problem says why the API server does not accept the token.
	Problem string `json:"problem,omitempty"`
}

// List returns the bootstrap tokens of the cluster, the cluster's own included,
// ordered by id.
func List(ctx context.Context, client kubernetes.Interface, clk clock.PassiveClock) ([]Info, error) {
	selector := fields.OneTermEqualSelector("type", string(bootstrapapi.SecretTypeBootstrapToken))
	secrets, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	var infos []Info
	for i := range secrets.Items {
		if secrets.Items[i].Type == bootstrapapi.SecretTypeBootstrapToken {
			infos = append(infos, info(&secrets.Items[i], clk.Now()))
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.ID, b.ID) })
	return infos, nil
}

// info reads a Secret that anyone with the right to may have written.
func info(secret *corev1.Secret, now time.Time) Info {
	id, named := bootstrapsecrets.ParseName(secret.Name)
	in := Info{
		ID:          id,
		Description: bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenDescriptionKey),
		Expired:     bootstrapsecrets.HasExpired(secret, now),
	}
	for key, value := range secret.Data {
		if usage, ok := strings.CutPrefix(key, bootstrapapi.BootstrapTokenUsagePrefix); ok && string(value) == "true" {
			in.Usages = append(in.Usages, usage)
		}
	}
	slices.Sort(in.Usages)
	groups, err := bootstrapsecrets.GetGroups(secret)
	if err != nil {
		in.Problem = err.Error()
	}
	in.Groups = groups
	if text := bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenExpirationKey); text != "" {
		if in.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			in.Problem = "its expiration is not a time"
		}
	}
	if !named || bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenIDKey) != id {
		in.ID = strings.TrimPrefix(secret.Name, bootstrapapi.BootstrapTokenSecretPrefix)
		in.Problem = "its name and its id differ"
	}
	return in
}

// Delete removes a bootstrap token, given by its id or in any form that holds
// it.
func Delete(ctx context.Context, client kubernetes.Interface, idOrToken string) error {
	id := idOrToken
	if !bootstraputil.IsValidBootstrapTokenID(id) {
		t, err := Parse(idOrToken)
		if err != nil {
			return fmt.Errorf("delete token: %w", err)
		}
		if t.JoinsServers() {
			return fmt.Errorf("delete token: %w: give the id of a bootstrap token", ErrInvalid)
		}
		id = t.id
	}
	err := client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, bootstraputil.BootstrapTokenSecretName(id), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("delete token %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("delete token %s: %w", id, err)
	}
	return nil
}
