// Package etcd deals with the embedded etcd cluster as its administrator does: members that join, snapshots, and the
// restoration of a lost cluster. Starting etcd itself is controlplane's business.
package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Credentials are the files by which a server is known to etcd.
type Credentials struct{ CA, Cert, Key string }

// Connect returns a client of the given members. The caller closes it.
func Connect(c Credentials, endpoints ...string) (*clientv3.Client, error) {
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("connect to etcd: no certificate in %s", c.CA)
	}
	certificate, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints,
		TLS:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{certificate}},
		// A member that is away must not hold up the answer of the others.
		DialTimeout:          2 * time.Second,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return client, nil
}

// BootstrapKey is where a cluster keeps its sealed secrets, so that a snapshot is all that is needed, besides the
// token, to bring it back on another host.
const BootstrapKey = "/k8shost/bootstrap"

// Bootstrap returns the sealed secrets, and the revision to replace them by; nil where there are none yet.
func Bootstrap(ctx context.Context, client *clientv3.Client) (sealed []byte, revision int64, err error) {
	stored, err := client.Get(ctx, BootstrapKey)
	if err != nil {
		return nil, 0, fmt.Errorf("read sealed secrets: %w", err)
	}
	if len(stored.Kvs) == 0 {
		return nil, 0, nil
	}
	return stored.Kvs[0].Value, stored.Kvs[0].ModRevision, nil
}

// ErrChanged says that somebody else has stored sealed secrets meanwhile.
var ErrChanged = errors.New("the cluster's sealed secrets were changed by somebody else")

// PutBootstrap stores sealed secrets in the place of those of the revision.
func PutBootstrap(ctx context.Context, client *clientv3.Client, sealed []byte, revision int64) error {
	answer, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(BootstrapKey), "=", revision)).
		Then(clientv3.OpPut(BootstrapKey, string(sealed))).Commit()
	if err != nil {
		return fmt.Errorf("store sealed secrets: %w", err)
	}
	if !answer.Succeeded {
		return ErrChanged
	}
	return nil
}

var errNoMember = errors.New("this server is no member of the etcd cluster")
