package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/iam"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/store"
)

const (
	administrator      = "admin"
	administratorEmail = "admin@plasmacloud.local"
	passwordFile       = "admin-password"

	// loginPatience is how long a first login may take: the identity service hears of a new user by a watch, and the way
	// to it has just been made.
	loginPatience = 30 * time.Second
	// elsewherePatience is the same for a service that may not be reachable from here at all.
	elsewherePatience = 5 * time.Second
)

// applyAdministrator makes the first user, who may do everything, where there is none, and a password where the user has
// none. What people made of either stays.
func (in *installation) applyAdministrator(ctx context.Context, _ platform.UpOptions) error {
	user := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: administrator},
		Spec: v1alpha1.UserSpec{
			Kind: v1alpha1.UserPerson, Organization: defaultName, Email: administratorEmail, PlatformAdmin: true,
			Projects: []v1alpha1.Membership{{Project: defaultName, Role: v1alpha1.RoleAdmin}},
		},
	}
	if err := in.create(ctx, user); err != nil {
		return err
	}
	if err := in.client.Get(ctx, client.ObjectKeyFromObject(user), user); err != nil {
		return err
	}
	secret, key := directory.PasswordSecretName(user), directory.DefaultPasswordKey
	if user.Spec.PasswordSecret != nil {
		return nil // somebody keeps it elsewhere
	}
	kept := &corev1.Secret{}
	err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: secret}, kept)
	if err == nil && len(kept.Data[key]) > 0 {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	chosen, err := in.choosePassword()
	if err != nil {
		return err
	}
	hasher, err := password.NewHasher(password.DefaultParams(), 1)
	if err != nil {
		return err
	}
	hash, err := hasher.Hash(ctx, chosen)
	if err != nil {
		return err
	}
	identities, err := store.NewIdentityClient(in.rest)
	if err != nil {
		return err
	}
	return store.NewWriter(identities, in.kube, Namespace).SavePassword(ctx, user.Name, secret, key, hash)
}

func (in *installation) passwordFile() string { return filepath.Join(in.files, passwordFile) }

// choosePassword returns a new password, which is written down first: one that nobody knows would lock everybody out.
func (in *installation) choosePassword() (string, error) {
	text := rand.Text()
	if err := os.MkdirAll(in.files, 0o700); err != nil {
		return "", err
	}
	return text, atomicfile.Write(in.passwordFile(), []byte(text+"\n"), 0o600)
}

// session is how the caller works with the installation from now on: as the administrator, with a login, where the API
// server accepts it, and otherwise with the kubeconfig that the installer was given.
func (in *installation) session(ctx context.Context) (*platform.Installation, error) {
	ca, err := in.ca(ctx)
	if err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(in.rest); err != nil {
		return nil, err
	}
	place := config.Context{Name: "default", Project: defaultName, User: administratorEmail, CA: string(slices.Concat(in.rest.CAData, ca))}
	if place.IAM, err = in.iamEndpoint(ctx); err != nil {
		return nil, err
	}
	made := &platform.Installation{Context: place}
	patience := loginPatience
	if !in.embedded() {
		patience = elsewherePatience
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made.Token, err = in.login(limited, &place)
	switch {
	case err == nil:
		made.Notes = append(made.Notes, fmt.Sprintf("the administrator is %s; the password is in %s", administratorEmail, in.passwordFile()))
		err = in.accepts(limited, made.Token.AccessToken)
	case errors.Is(err, errPasswordUnknown):
		made.Notes = append(made.Notes, fmt.Sprintf("log in with `cloud login`: the password of %s is not the one that the installer chose", administratorEmail))
		err = nil // the login is somebody else's by now
	}
	if in.embedded() {
		made.Context.Server = in.rest.Host
		return made, err
	}
	if err == nil && made.Token.AccessToken != "" {
		made.Context.Server = in.rest.Host
		return made, nil
	}
	made.Context.Kubeconfig = in.target.Kubeconfig
	if made.Token.AccessToken == "" && err != nil {
		made.Notes = append(made.Notes, fmt.Sprintf("the identity service cannot be reached from here at %s: %v", place.IAM, err))
	}
	if err := in.exportTrust(ctx); err != nil {
		return nil, fmt.Errorf("write what the API server needs: %w", err)
	}
	made.Notes = append(made.Notes, in.trustNotes()...)
	return made, nil
}

var errPasswordUnknown = errors.New("the administrator has another password")

// login begins a session with the password that the installer chose.
func (in *installation) login(ctx context.Context, place *config.Context) (config.Token, error) {
	content, err := os.ReadFile(in.passwordFile())
	if errors.Is(err, os.ErrNotExist) {
		return config.Token{}, errPasswordUnknown
	}
	if err != nil {
		return config.Token{}, err
	}
	service, err := iam.New(place.IAM, place.CA)
	if err != nil {
		return config.Token{}, err
	}
	var token config.Token
	refused := 0
	err = in.until(ctx, func(ctx context.Context) (bool, error) {
		begun, err := service.Login(ctx, administratorEmail, string(bytes.TrimSpace(content)))
		if err == nil {
			token = config.Token{AccessToken: begun.AccessToken, ExpiresAt: begun.ExpiresAt, RefreshToken: begun.RefreshToken}
			return true, nil
		}
		if apierrors.IsUnauthorized(err) { // it may not have heard of a new user, or of the password, yet
			refused++
		}
		return refused == 4, err // one more would begin the waits for everybody
	})
	if err == nil && token.AccessToken == "" {
		err = errPasswordUnknown
	}
	return token, err
}

// accepts asks the API server whom it takes the bearer of a token for.
func (in *installation) accepts(ctx context.Context, token string) error {
	bearer := rest.AnonymousClientConfig(in.rest)
	bearer.BearerToken = token
	api, err := kubernetes.NewForConfig(bearer)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (bool, error) {
		_, err := api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err == nil, err
	}
	if in.embedded() { // the way to the identity service may just be made
		err = in.until(ctx, ask)
	} else {
		_, err = ask(ctx)
	}
	if err != nil {
		return fmt.Errorf("the management API does not accept the platform's tokens: %w", err)
	}
	return nil
}

// iamEndpoint is where the identity service is reached from here: where the cluster runs on this host, by its own address;
// otherwise by the port that every node has for it.
func (in *installation) iamEndpoint(ctx context.Context) (string, error) {
	if in.embedded() {
		return iamURL(in.iamAddress), nil
	}
	service := &corev1.Service{}
	if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: iamService}, service); err != nil {
		return "", err
	}
	addresses, err := in.nodeAddresses(ctx)
	if err != nil || len(addresses) == 0 {
		return "", errors.Join(err, errors.New("the cluster has no node with an address"))
	}
	host := addresses[0]
	if server, err := url.Parse(in.rest.Host); err == nil && slices.Contains(addresses, server.Hostname()) {
		host = server.Hostname()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(service.Spec.Ports[0].NodePort))), nil
}

// maxNames is how many addresses of nodes are in the identity service's certificate.
const maxNames = 20

// nodeAddresses are those that nodes are reached by, external ones first.
func (in *installation) nodeAddresses(ctx context.Context) ([]string, error) {
	var nodes corev1.NodeList
	if err := in.client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var external, internal []string
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if _, err := netip.ParseAddr(address.Address); err != nil {
				continue
			}
			switch address.Type {
			case corev1.NodeExternalIP:
				external = append(external, address.Address)
			case corev1.NodeInternalIP:
				internal = append(internal, address.Address)
			}
		}
	}
	slices.Sort(external)
	slices.Sort(internal)
	all := append(external, internal...)
	return all[:min(len(all), maxNames)], nil
}
