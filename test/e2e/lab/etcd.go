package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Etcd returns a client of the etcd on the node, which lasts as long as the test.
func (n *Node) Etcd(t testing.TB) *clientv3.Client {
	t.Helper()
	store := pki.New(n.Data.TLS(), clock.RealClock{})
	authority, err := os.ReadFile(store.CAPath(pki.EtcdCA))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(store.CertPath(pki.APIServerEtcdClient), store.KeyPath(pki.APIServerEtcdClient))
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://127.0.0.1:2379"},
		TLS:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, Certificates: []tls.Certificate{own}},
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return n.Dial(ctx, "tcp", address)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Certificate returns the certificate that a server on the node shows.
func (n *Node) Certificate(address string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := n.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	// What it shows is the question, not whether it can be trusted.
	client := tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake with %s: %w", address, err)
	}
	return client.ConnectionState().PeerCertificates[0], nil
}
