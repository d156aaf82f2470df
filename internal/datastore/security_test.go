package datastore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTenantReachesNothingOfAnother(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	victim, thief := w.ensure(shared, "victim"), w.ensure(shared, "thief")
	// A name that begins like the other's: prefixes must not run into one another.
	longer := w.ensure(shared, "victim-2")
	owner := w.tenant(victim)
	lease, err := owner.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	secret := victim.Prefix + "/registry/secrets/a"
	if _, err := owner.Put(t.Context(), secret, "mine", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatalf("a tenant cannot write its own: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, credentials := range []Credentials{thief, longer} {
		client := w.tenant(credentials)
		for what, attempt := range trespasses(ctx, client, victim.Prefix, secret, lease.ID) {
			if err := attempt(); !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("%s: %s is not refused: %v", credentials.Prefix, what, err)
			}
		}
	}
	have, err := owner.Get(ctx, secret)
	if err != nil || len(have.Kvs) != 1 || string(have.Kvs[0].Value) != "mine" {
		t.Errorf("the key has changed: %v, %v", have, err)
	}
}

// trespasses are ways to get at another's keys, or to power over all.
func trespasses(ctx context.Context, client *clientv3.Client, prefix, key string, lease clientv3.LeaseID) map[string]func() error {
	return map[string]func() error{
		"read":       func() error { _, err := client.Get(ctx, key); return err },
		"stale read": func() error { _, err := client.Get(ctx, key, clientv3.WithSerializable()); return err },
		"list":       func() error { _, err := client.Get(ctx, prefix+"/", clientv3.WithPrefix()); return err },
		"count": func() error {
			_, err := client.Get(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			return err
		},
		"list everything": func() error { _, err := client.Get(ctx, "\x00", clientv3.WithFromKey()); return err },
		"list tenants": func() error {
			_, err := client.Get(ctx, "/tenants/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			return err
		},
		"key of nobody": func() error { _, err := client.Get(ctx, "compact_rev_key"); return err },
		"write":         func() error { _, err := client.Put(ctx, key, "stolen"); return err },
		"delete":        func() error { _, err := client.Delete(ctx, key); return err },
		"delete all":    func() error { _, err := client.Delete(ctx, prefix+"/", clientv3.WithPrefix()); return err },
		"transaction": func() error {
			_, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).Commit()
			return err
		},
		"watch":           func() error { return watch(ctx, client, key) },
		"watch all":       func() error { return watch(ctx, client, "/", clientv3.WithPrefix()) },
		"keys of a lease": func() error { _, err := client.TimeToLive(ctx, lease, clientv3.WithAttachedKeys()); return err },
		"list leases":     func() error { _, err := client.Leases(ctx); return err },
		"revoke a lease":  func() error { _, err := client.Revoke(ctx, lease); return err },
		"users":           func() error { _, err := client.UserList(ctx); return err },
		"roles":           func() error { _, err := client.RoleList(ctx); return err },
		"become root":     func() error { _, err := client.UserGrantRole(ctx, "tenant:thief", "root"); return err },
		"new user":        func() error { _, err := client.UserAdd(ctx, "x", "x"); return err },
		"no more auth":    func() error { _, err := client.AuthDisable(ctx); return err },
		"snapshot": func() error {
			stream, err := client.Snapshot(ctx)
			if err == nil {
				defer func() { _ = stream.Close() }()
				_, err = stream.Read(make([]byte, 1))
			}
			return err
		},
		"compact": func() error { _, err := client.Compact(ctx, 1); return err },
		"disarm": func() error {
			_, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: 1, Alarm: etcdserverpb.AlarmType_NOSPACE})
			return err
		},
		"defragment": func() error { _, err := client.Defragment(ctx, client.Endpoints()[0]); return err },
		"hash":       func() error { _, err := client.HashKV(ctx, client.Endpoints()[0], 0); return err },
	}
}

func watch(ctx context.Context, client *clientv3.Client, key string, options ...clientv3.OpOption) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	response, open := <-client.Watch(ctx, key, append(options, clientv3.WithCreatedNotify())...)
	if !open {
		return ctx.Err()
	}
	if err := response.Err(); err != nil && strings.Contains(err.Error(), "permission denied") {
		return rpctypes.ErrPermissionDenied
	}
	return response.Err()
}

func TestTenantsCertificateIsTheOnlyWayIn(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	credentials := w.ensure(shared, "one")
	authorities, err := shared.server.authorities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	handshake := func(address string, config *tls.Config) error {
		connection, err := tls.Dial("tcp", address, config)
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close() }()
		_ = connection.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, err = connection.Read(make([]byte, 1)) // with TLS 1.3 the refusal of a certificate comes after the handshake
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		return err
	}
	pair, err := tls.X509KeyPair(credentials.Cert, credentials.Key)
	if err != nil {
		t.Fatal(err)
	}
	stranger := stranger(t)
	clientTLS := func(certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: authorities.client.pool(), ServerName: "localhost", Certificates: certificates, NextProtos: []string{"h2"}}
	}
	if err := handshake(w.client, clientTLS(pair)); err != nil && strings.Contains(err.Error(), "certificate") {
		t.Errorf("the tenant's certificate is refused: %v", err)
	}
	if err := handshake(w.client, clientTLS()); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a client without certificate is let in: %v", err)
	}
	if err := handshake(w.client, clientTLS(stranger)); err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("a certificate of another authority is accepted: %v", err)
	}
	// The port of members takes members only: who speaks there can write anything.
	peerTLS := &tls.Config{RootCAs: authorities.peer.pool(), ServerName: "datastore-0.datastore-members." + w.config.Namespace + ".svc",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	if err := handshake(w.peer, peerTLS); err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("a tenant passes for a member: %v", err)
	}
}

// stranger is root by the word of somebody else.
func stranger(t *testing.T) tls.Certificate {
	t.Helper()
	other, err := newAuthority("plasmacloud-datastore-client-ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := parseAuthority(other)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := signer.issue(userLeaf(rootUser), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestACertificateWithoutUserIsNobody(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	credentials := w.ensure(shared, "removed")
	client := w.tenant(credentials)
	if _, err := client.Put(t.Context(), credentials.Prefix+"/a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := shared.Remove(t.Context(), Tenant{Name: "removed"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), credentials.Prefix+"/a", "1"); err == nil {
		t.Error("a tenant that was removed writes")
	}
	if _, err := client.Get(t.Context(), credentials.Prefix+"/a"); err == nil {
		t.Error("a tenant that was removed reads")
	}
}

func TestRootsCertificateIsInNoSecret(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	credentials := w.ensure(shared, "one")
	authority, err := w.api.CoreV1().Secrets(w.config.Namespace).Get(t.Context(), authoritySecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mounted, err := w.api.CoreV1().Secrets(w.config.Namespace).Get(t.Context(), tlsSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{authority.Data[clientAuthority+keySuffix], authority.Data[peerAuthority+keySuffix]} {
		for file, content := range mounted.Data {
			if bytes.Contains(content, bytes.TrimSpace(key)) {
				t.Errorf("members have an authority's key in %s", file)
			}
		}
	}
	// What members have does not make them clients.
	server := pairOf(mounted, serverFile)
	if _, err := w.tenant(Credentials{Endpoints: credentials.Endpoints, CA: credentials.CA, Pair: server}).Get(limited(t), "a"); err == nil {
		t.Error("a member's certificate is a client's too")
	}
	for _, text := range []string{credentials.String(), credentials.GoString(), credentials.Pair.String()} {
		if strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("a key is printed: %s", text)
		}
	}
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	t.Cleanup(cancel)
	return ctx
}
