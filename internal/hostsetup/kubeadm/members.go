package kubeadm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

// etcdPatience is how long etcd has to answer altogether.
const etcdPatience = time.Minute

// datastore connects to the cluster's etcd through a control-plane host, with that host's credentials. Members on other
// hosts are reached from there too.
func (d *Distribution) datastore(ctx context.Context, host hostsetup.Host, step string) (*clientv3.Client, error) {
	file := func(name string) ([]byte, error) {
		return host.Client.Download(ctx, step, kubernetesDir+"/pki/"+name, 1<<16)
	}
	authority, err := file("etcd/ca.crt")
	if err != nil {
		return nil, err
	}
	cert, err := file("apiserver-etcd-client.crt")
	if err != nil {
		return nil, err
	}
	key, err := file("apiserver-etcd-client.key")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("host %s: %s: read etcd's credentials: %w", host, step, err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("host %s: %s: read etcd's authority: no certificate in it", host, step)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://127.0.0.1:2379"}, Context: ctx, DialTimeout: 10 * time.Second,
		TLS: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return host.Client.Dial(ctx, step, "tcp", address)
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("host %s: %s: reach etcd: %w", host, step, err)
	}
	return client, nil
}

// RemoveMember implements hostsetup.Distribution.
func (d *Distribution) RemoveMember(ctx context.Context, via hostsetup.Host, name string) error {
	if err := d.strike(ctx, via, stepRemoveMember, func(member string) bool { return member == name }); err != nil {
		return err
	}
	// The node goes too: kubeadm looks for etcd's members among the pods of nodes.
	_, err := d.script(ctx, via, stepRemoveMember, `kubectl --kubeconfig /etc/kubernetes/admin.conf delete node --ignore-not-found --wait=false -- "$1"`, name)
	return err
}

// strike takes members out of etcd, as long as a majority of the rest is well.
func (d *Distribution) strike(ctx context.Context, via hostsetup.Host, step string, chosen func(member string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	client, err := d.datastore(ctx, via, step)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = etcd.Remove(ctx, client, chosen, false)
	switch {
	case errors.Is(err, etcd.ErrQuorum):
		return fmt.Errorf("host %s: %s: %w: %w", via, step, hostsetup.ErrQuorum, err)
	case err != nil:
		return fmt.Errorf("host %s: %s: %w", via, step, err)
	}
	return nil
}
