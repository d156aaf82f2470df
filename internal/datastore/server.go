package datastore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	name    = "datastore"         // of the StatefulSet, the Service and most else
	members = "datastore-members" // the Service that gives members names

	// patience is how long a call waits for an etcd that starts.
	patience = 2 * time.Second
	// rootLifetime is long enough for a handshake between hosts whose clocks differ.
	rootLifetime = time.Hour
)

// server is one etcd on the management cluster.
type server struct {
	config Config
	shared bool

	mu     sync.Mutex
	client *clientv3.Client // root's
	ca     string           // the authority that client trusts
}

// address is where clients find it.
func (s *server) address() string {
	return "https://" + name + "." + s.config.Namespace + ".svc:2379"
}

func (s *server) memberName(ordinal int) string { return fmt.Sprintf("%s-%d", name, ordinal) }

func (s *server) peerURL(member string) string {
	return "https://" + member + "." + members + "." + s.config.Namespace + ".svc:2380"
}

// connect returns root's client. It is kept, and made anew when the authority has changed.
func (s *server) connect(client *authority) (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.ca == string(client.pem) {
		return s.client, nil
	}
	if s.client != nil {
		_ = s.client.Close()
		s.client = nil
	}
	made, err := s.dialRoot(client, s.address())
	if err != nil {
		return nil, err
	}
	s.client, s.ca = made, string(client.pem)
	return made, nil
}

// dialRoot connects root to an endpoint.
func (s *server) dialRoot(client *authority, endpoint string) (*clientv3.Client, error) {
	made, err := clientv3.New(clientConfig(s.config, []string{endpoint}, &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    client.pool(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return s.rootCertificate(client)
		},
	}))
	if err != nil {
		return nil, fmt.Errorf("connect to datastore: %w", err)
	}
	return made, nil
}

// rootCertificate is issued for one handshake, and kept nowhere.
func (s *server) rootCertificate(client *authority) (*tls.Certificate, error) {
	pair, err := client.issue(userLeaf(rootUser), rootLifetime, s.config.Clock.Now())
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return &cert, err
}

// close ends the connection.
func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil
	}
	client := s.client
	s.client = nil
	return client.Close()
}

func clientConfig(c Config, endpoints []string, tlsConfig *tls.Config) clientv3.Config {
	options := []grpc.DialOption{
		// An etcd that starts is tried again soon.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
	}
	if c.Dial != nil {
		options = append(options, grpc.WithContextDialer(c.Dial))
	}
	return clientv3.Config{
		Endpoints: endpoints, TLS: tlsConfig, DialOptions: options,
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	}
}

// open returns root's client of an etcd that answers and knows who its clients are.
func (s *server) open(ctx context.Context) (*clientv3.Client, *authority, error) {
	authorities, err := s.authorities(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("%w: it is not installed", ErrNotReady)
	}
	if err != nil {
		return nil, nil, err
	}
	client, err := s.connect(authorities.client)
	if err != nil {
		return nil, nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := enableAuth(waiting, client); err != nil {
		if ctx.Err() == nil && unavailable(err) {
			return nil, nil, fmt.Errorf("%w: it does not answer yet (%w)", ErrNotReady, err)
		}
		return nil, nil, fmt.Errorf("open datastore: %w", err)
	}
	return client, authorities.client, nil
}

// unavailable tells whether an error goes away when the etcd is up.
func unavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, rpctypes.ErrNotCapable) {
		return true
	}
	var etcd rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &etcd) {
		code = etcd.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// ensure is what both kinds of etcd do for a tenant.
func (s *server) ensure(ctx context.Context, tenant Tenant) (Credentials, error) {
	client, signer, err := s.open(ctx)
	if err != nil {
		return Credentials{}, err
	}
	if err := ensureTenant(ctx, client, tenant.Name); err != nil {
		return Credentials{}, err
	}
	pair, _, err := signer.keep(tenant.Have, userLeaf(userOf(tenant.Name)), s.config.Clock.Now())
	if err != nil {
		return Credentials{}, err
	}
	endpoints, err := s.endpoints(ctx, client)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{Endpoints: endpoints, Prefix: prefixOf(tenant.Name), CA: signer.pem, Pair: pair}, nil
}

// endpoints are where tenants find it. Of several members they know each: an API server that is connected to all of them
// goes on with the others when one is lost, without a name to look up or a connection to make.
func (s *server) endpoints(ctx context.Context, client *clientv3.Client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	var voting []string
	for _, member := range list.Members {
		if !member.IsLearner && len(member.ClientURLs) > 0 {
			voting = append(voting, member.ClientURLs[0])
		}
	}
	if len(voting) < 2 {
		return []string{s.address()}, nil
	}
	slices.Sort(voting)
	return voting, nil
}

// args are etcd's flags.
func (s *server) args() []string {
	const tlsDir = "/etc/etcd/tls/"
	quota := s.config.Size.Quota
	return []string{
		"--name=$(MEMBER)",
		"--data-dir=/var/lib/etcd/data",
		"--listen-client-urls=https://0.0.0.0:2379",
		"--advertise-client-urls=" + strings.Replace(s.peerURL("$(MEMBER)"), ":2380", ":2379", 1),
		"--listen-peer-urls=https://0.0.0.0:2380",
		"--initial-advertise-peer-urls=" + s.peerURL("$(MEMBER)"),
		"--listen-metrics-urls=http://0.0.0.0:2381",
		"--client-cert-auth",
		"--trusted-ca-file=" + tlsDir + caFile,
		"--cert-file=" + tlsDir + serverFile + certSuffix,
		"--key-file=" + tlsDir + serverFile + keySuffix,
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + tlsDir + peerCAFile,
		"--peer-cert-file=" + tlsDir + peerFile + certSuffix,
		"--peer-key-file=" + tlsDir + peerFile + keySuffix,
		// Members' names are in the DNS a moment after they start; their authority signs nobody else.
		"--peer-skip-client-san-verification",
		"--tls-min-version=TLS1.3",
		// Clients speak gRPC; the gateway would be one more way in.
		"--enable-grpc-gateway=false",
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=5m",
		fmt.Sprintf("--quota-backend-bytes=%d", quota.Value()),
		// The log since the last snapshot is in memory: a smaller one, and still minutes of catching up for a member.
		"--snapshot-count=5000",
		"--snapshot-catchup-entries=2500",
		// API servers learn how far others' changes have brought the revision, long before compaction forgets what they
		// know; they have thousands of watches together, so not every few seconds.
		"--watch-progress-notify-interval=30s",
		"--feature-gates=InitialCorruptCheck=true",
		"--logger=zap",
		"--log-level=warn",
	}
}
