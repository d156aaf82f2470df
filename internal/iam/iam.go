// Package iam is the identity service in one piece: it puts together what the packages below it do, each a room of its
// own, and runs it as a replica beside others.
//
//	wire       the HTTP interface's paths and JSON, for clients
//	server     HTTPS in front of everything
//	review     judges tokens: who is it to Kubernetes
//	session    logs people in, makes access tokens, changes passwords
//	directory  all users, tokens, organizations and projects, by watch
//	token      access tokens, session tokens
//	keys       the keys that sign session tokens, and their rotation
//	password   argon2id
//	throttle   slows down whoever guesses
//	authority  certificates of the service and of the API servers that ask it
//	store      what is written to the Kubernetes API
//	webhook    files that make an API server ask or trust the service
//	rbac       what the groups that it tells Kubernetes of may do
package iam

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/keys"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/server"
	"plasmacloud.io/plasmacloud/internal/iam/session"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/throttle"
	"plasmacloud.io/plasmacloud/internal/iam/token"
)

// DefaultPort is where the service listens.
const DefaultPort = 3000

// Config is what the service needs to know.
type Config struct {
	// REST is the management API.
	REST *rest.Config
	// Namespace is the platform's own, where its Secrets are.
	Namespace string
	// Address to listen on, such as :3000.
	Address string
	// Issuer is the URL that the service is known by: https, without a path. It is in every token; changing it ends all
	// sessions.
	Issuer string
	// Names are the DNS names and addresses that the service is called by besides the one in Issuer.
	Names []string
	// SessionLifetime is how long one works after a login; session.DefaultLifetime where it is zero.
	SessionLifetime time.Duration
	// Keys is how keys rotate; keys.DefaultPolicy where it is zero. TokenLifetime in it is filled in.
	Keys keys.Policy
	// Password is what hashes cost; password.DefaultParams where it is zero.
	Password password.Params
	// Scratch is where certificates are made, best in memory; the system's temporary directory where it is empty.
	Scratch string
	// More is what others serve on the same port, by its pattern: it is the one that people reach.
	More map[string]http.Handler

	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Logger   *slog.Logger
}

// Validate tells what is wrong with it.
func (c *Config) Validate() error {
	var broken []error
	if c.Namespace == "" {
		broken = append(broken, errors.New("namespace: it is missing"))
	}
	issuer, err := url.Parse(c.Issuer)
	if err != nil || issuer.Scheme != "https" || issuer.Host == "" || issuer.Path != "" || issuer.RawQuery != "" {
		broken = append(broken, fmt.Errorf("issuer: %q is no https URL without a path, such as https://iam.example.com:3000", c.Issuer))
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		broken = append(broken, fmt.Errorf("address: %w", err))
	}
	if c.SessionLifetime != 0 && c.SessionLifetime < token.Lifetime {
		broken = append(broken, fmt.Errorf("session lifetime: it is shorter than a token's, %s", token.Lifetime))
	}
	return errors.Join(broken...)
}

// Service is a replica of the identity service.
type Service struct {
	config    Config
	directory *directory.Directory
	keeper    *keys.Keeper
	authority *authority.Authority
	clients   *authority.Clients
	serving   *authority.Serving
	recorder  *review.Recorder
	server    *server.Server
}

// New puts a replica together. Nothing happens before Run.
func New(config Config) (*Service, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("configure identity service: %w", err)
	}
	config.complete()
	client, err := kubernetes.NewForConfig(config.REST)
	if err != nil {
		return nil, fmt.Errorf("make identity service: %w", err)
	}
	identities, err := store.NewIdentityClient(config.REST)
	if err != nil {
		return nil, err
	}
	feed, err := directory.NewFeed(identities, client, config.Namespace, config.Clock)
	if err != nil {
		return nil, err
	}
	record := func(name, kind string) *store.Record { return store.NewRecord(client, config.Namespace, name, kind) }
	issuer, err := url.Parse(config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("make identity service: %w", err)
	}
	s := &Service{config: config}
	s.directory = directory.New(feed, config.Clock)
	s.keeper = keys.NewKeeper(record(keys.SecretName, store.KindSigningKeys), config.Keys, config.Clock, config.Logger)
	s.authority = authority.New(record(authority.SecretName, store.KindAuthority), config.Scratch, config.Clock, config.Logger)
	s.clients = authority.NewClients(s.authority, client, config.Namespace, config.Clock, config.Logger)
	s.serving = authority.NewServing(s.authority, append([]string{issuer.Hostname()}, config.Names...), config.Clock, config.Logger)
	if err := s.makeServer(store.NewWriter(identities, client, config.Namespace)); err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Config) complete() {
	if c.SessionLifetime == 0 {
		c.SessionLifetime = session.DefaultLifetime
	}
	if c.Keys == (keys.Policy{}) {
		c.Keys = keys.DefaultPolicy(c.SessionLifetime)
	}
	c.Keys.TokenLifetime = max(c.SessionLifetime, token.Lifetime)
	if c.Password == (password.Params{}) {
		c.Password = password.DefaultParams()
	}
}

func (s *Service) makeServer(writer *store.Writer) error {
	c := s.config
	// Half of the CPUs hash passwords, so that the others judge tokens.
	hasher, err := password.NewHasher(c.Password, runtime.GOMAXPROCS(0)/2)
	if err != nil {
		return err
	}
	metrics, err := server.NewMetrics(c.Registry, server.Gauges{
		Objects:            func() map[string]int { return s.directory.View().Counts() },
		SigningKeys:        func() int { return len(s.keeper.Public().Keys) },
		CertificateExpires: s.serving.NotAfter,
	})
	if err != nil {
		return err
	}
	issuer := token.NewIssuer(c.Issuer, s.keeper, c.Clock)
	s.recorder = review.NewRecorder(writer.RecordUse, c.Clock, c.Logger)
	sessions := session.New(session.Config{
		Directory: s.directory, Writer: writer, Issuer: issuer, Hasher: hasher,
		Accounts: throttle.New(session.AccountPolicy(), c.Clock), Addresses: throttle.New(session.AddressPolicy(), c.Clock),
		Lifetime: c.SessionLifetime, Clock: c.Clock, Logger: c.Logger,
	})
	s.server, err = server.New(server.Config{
		Issuer: c.Issuer, Reviewer: review.New(s.directory, issuer, s.recorder, c.Clock), Sessions: sessions,
		Keys: s.keeper, Revoked: s.authority.Revoked, Ready: s.Ready, TLS: s.serving.TLS(), Metrics: metrics, Logger: c.Logger, More: c.More,
	})
	return err
}

// Run answers requests until ctx ends, and returns when those under way are answered. Several replicas may run at once.
// While the API server is away, it answers from what it knows.
func (s *Service) Run(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.config.Address)
	if err != nil {
		return fmt.Errorf("run identity service: %w", err)
	}
	return s.RunOn(ctx, listener)
}

// RunOn is Run on a listener that is there already. It is closed in the end.
func (s *Service) RunOn(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.directory.Run(ctx) })
	group.Go(func() error { return s.keeper.Run(ctx) })
	group.Go(func() error { return s.authority.Run(ctx) })
	for _, run := range []func(context.Context){s.serving.Run, s.clients.Run, s.recorder.Run} {
		group.Go(func() error { run(ctx); return nil })
	}
	s.config.Logger.InfoContext(ctx, "identity service starts", "address", listener.Addr().String(), "issuer", s.config.Issuer)
	group.Go(func() error { return s.server.Serve(ctx, listener) })
	return group.Wait()
}

// Ready says what is missing until requests can be answered; nil for nothing.
func (s *Service) Ready() error {
	switch {
	case !s.directory.Ready():
		return errors.New("the directory is not complete yet")
	case !s.keeper.Ready():
		return keys.ErrNoKeys
	case !s.serving.Ready():
		return authority.ErrNotReady
	}
	return nil
}

// Clients keeps the certificates of API servers.
func (s *Service) Clients() *authority.Clients { return s.clients }

// Authority is the service's own.
func (s *Service) Authority() *authority.Authority { return s.authority }

// RotateKeys makes a new signing key now.
func (s *Service) RotateKeys(ctx context.Context) error { return s.keeper.Rotate(ctx) }
