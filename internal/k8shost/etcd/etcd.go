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

// PutBootstrap stores the sealed secrets. It writes only what has changed: see unchanged.
func PutBootstrap(ctx context.Context, client *clientv3.Client, sealed []byte, unchanged func(stored []byte) bool) error {
	stored, err := client.Get(ctx, BootstrapKey)
	if err != nil {
		return fmt.Errorf("read sealed secrets: %w", err)
	}
	if len(stored.Kvs) == 1 && unchanged(stored.Kvs[0].Value) {
		return nil
	}
	if _, err := client.Put(ctx, BootstrapKey, string(sealed)); err != nil {
		return fmt.Errorf("store sealed secrets: %w", err)
	}
	return nil
}

var errNoMember = errors.New("this server is no member of the etcd cluster")
