package datastore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

func TestEnsureIsIdempotentAndQuick(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	first := w.ensure(shared, "one")
	began := time.Now()
	const times = 20
	for range times {
		again, err := shared.Ensure(t.Context(), Tenant{Name: "one", Have: first.Pair})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Cert, first.Cert) || !bytes.Equal(again.Key, first.Key) {
			t.Fatal("a good certificate was replaced")
		}
	}
	if each := time.Since(began) / times; each > 100*time.Millisecond {
		t.Errorf("ensuring what is there takes %v", each)
	}
	if first.Prefix != "/tenants/one" || len(first.Endpoints) != 1 || !strings.HasPrefix(first.Endpoints[0], "https://datastore."+w.config.Namespace+".svc") {
		t.Errorf("credentials: %v", first)
	}
}

func TestEnsureMendsWhatSomebodyChanged(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	credentials := w.ensure(shared, "one")
	root, _, err := shared.server.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func() error{
		"more permissions": func() error {
			_, err := root.RoleGrantPermission(t.Context(), "tenant:one", "/tenants/two/", "/tenants/two0", clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		"the role of root": func() error { _, err := root.UserGrantRole(t.Context(), "tenant:one", "root"); return err },
		"no permission": func() error {
			_, err := root.RoleRevokePermission(t.Context(), "tenant:one", "/tenants/one/", "/tenants/one0")
			return err
		},
		"no role":           func() error { _, err := root.RoleDelete(t.Context(), "tenant:one"); return err },
		"no user":           func() error { _, err := root.UserDelete(t.Context(), "tenant:one"); return err },
		"no authentication": func() error { _, err := root.AuthDisable(t.Context()); return err },
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		w.ensure(shared, "one")
		client := w.tenant(credentials)
		if _, err := client.Put(t.Context(), "/tenants/one/a", "1"); err != nil {
			t.Errorf("%s: the tenant cannot write: %v", what, err)
		}
		if _, err := client.Get(t.Context(), "/tenants/two/a"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("%s: the tenant reads another's: %v", what, err)
		}
	}
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	w := newWorld(t)
	fake := clocktesting.NewFakeClock(time.Now())
	shared := w.installed()
	shared.server.config.Clock = fake
	have := w.ensure(shared, "one")
	fake.SetTime(time.Now().Add(pki.LeafLifetime / 2))
	kept, err := shared.Ensure(t.Context(), Tenant{Name: "one", Have: have.Pair})
	if err != nil || !bytes.Equal(kept.Cert, have.Cert) {
		t.Fatalf("a certificate of half a year was replaced: %v", err)
	}
	fake.SetTime(time.Now().Add(pki.LeafLifetime * 3 / 4))
	renewed, err := shared.Ensure(t.Context(), Tenant{Name: "one", Have: have.Pair})
	if err != nil || bytes.Equal(renewed.Cert, have.Cert) {
		t.Fatalf("a certificate that is due was kept: %v", err)
	}
	for _, foreign := range []Pair{w.ensure(shared, "two").Pair, {Cert: have.Cert}, {Cert: []byte("x"), Key: []byte("y")}} {
		mended, err := shared.Ensure(t.Context(), Tenant{Name: "one", Have: foreign})
		if err != nil || bytes.Equal(mended.Cert, foreign.Cert) {
			t.Errorf("a certificate that is no good was kept: %v", err)
		}
	}
	// The members' own: etcd reads them anew.
	before := w.serverCertificate()
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, w.serverCertificate()) {
		t.Error("the members' certificate was not renewed")
	}
	shared.server.config.Clock = clock.RealClock{}
}

func TestRemoveLeavesNothing(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	leaving, staying := w.ensure(shared, "leaving"), w.ensure(shared, "leaving-not")
	client := w.tenant(leaving)
	const keys = pageSize*2 + 7
	var work sync.WaitGroup
	for part := range 8 {
		work.Go(func() {
			for i := part; i < keys; i += 8 {
				if _, err := client.Put(t.Context(), fmt.Sprintf("%s/%d", leaving.Prefix, i), strings.Repeat("x", 100)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	if _, err := w.tenant(staying).Put(t.Context(), staying.Prefix+"/a", "1"); err != nil {
		t.Fatal(err)
	}
	found, err := shared.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Holding{{"leaving", true, true, keys}, {"leaving-not", true, true, 1}}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("tenants: %v, want %v", found, want)
	}
	for range 2 {
		if err := shared.Remove(t.Context(), Tenant{Name: "leaving"}); err != nil {
			t.Fatal(err)
		}
		if found, err = shared.Tenants(t.Context()); err != nil || fmt.Sprint(found) != fmt.Sprint(want[1:]) {
			t.Errorf("tenants after removal: %v, %v", found, err)
		}
	}
}

func TestLeftoversAreFound(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	root, _, err := shared.server.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Put(t.Context(), "/tenants/a-b/registry/x", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Put(t.Context(), "/tenants/a/registry/x", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := root.RoleAdd(t.Context(), "tenant:c"); err != nil {
		t.Fatal(err)
	}
	found, err := shared.Tenants(t.Context())
	want := []Holding{{Tenant: "a", Keys: 1}, {Tenant: "a-b", Keys: 1}, {Tenant: "c", Role: true}}
	if err != nil || fmt.Sprint(found) != fmt.Sprint(want) {
		t.Fatalf("leftovers: %v, %v; want %v", found, err, want)
	}
	for _, holding := range found {
		if err := shared.Remove(t.Context(), Tenant{Name: holding.Tenant}); err != nil {
			t.Error(err)
		}
	}
	if found, err = shared.Tenants(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("left: %v, %v", found, err)
	}
}

func TestNothingIsInstalled(t *testing.T) {
	w := newWorld(t)
	shared := w.shared()
	if _, err := shared.Ensure(t.Context(), Tenant{Name: "one"}); !errors.Is(err, ErrNotReady) {
		t.Errorf("Ensure before Install: %v", err)
	}
	if err := shared.Remove(t.Context(), Tenant{Name: "one"}); err != nil {
		t.Errorf("Remove before Install: %v", err)
	}
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Ensure(t.Context(), Tenant{Name: "one"}); !errors.Is(err, ErrNotReady) {
		t.Errorf("Ensure before etcd runs: %v", err)
	}
	if err := shared.Remove(t.Context(), Tenant{Name: "one"}); !errors.Is(err, ErrNotReady) {
		t.Errorf("Remove while etcd is away: %v", err)
	}
	for _, bad := range []string{"", "a/b", "A", "root/", "..", strings.Repeat("x", 64)} {
		if _, err := shared.Ensure(t.Context(), Tenant{Name: bad}); err == nil || errors.Is(err, ErrNotReady) {
			t.Errorf("tenant %q: %v", bad, err)
		}
		if err := shared.Remove(t.Context(), Tenant{Name: bad}); err == nil || errors.Is(err, ErrNotReady) {
			t.Errorf("tenant %q: %v", bad, err)
		}
	}
}

func TestCopyBringsAllKeys(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	from, to := w.ensure(shared, "from"), w.ensure(shared, "to")
	source, target := w.tenant(from), w.tenant(to)
	lease, err := source.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	const keys = copyPage*2 + 3
	for i := range keys {
		value := strings.Repeat("x", i*10)
		if i < 4 {
			value = strings.Repeat("y", 700<<10) // more than a transaction takes
		}
		if _, err := source.Put(t.Context(), fmt.Sprintf("%s/registry/%04d", from.Prefix, i), value, clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := target.Put(t.Context(), to.Prefix+"/registry/of-before", "1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if copied, err := Copy(t.Context(), w.config, from, to); err != nil || copied != keys {
			t.Fatalf("Copy = %d, %v; want %d", copied, err, keys)
		}
	}
	have, err := source.Get(t.Context(), from.Prefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	got, err := target.Get(t.Context(), to.Prefix+"/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != len(have.Kvs) {
		t.Fatalf("%d keys, %v", len(got.Kvs), err)
	}
	for i, kv := range got.Kvs {
		if strings.TrimPrefix(string(kv.Key), to.Prefix) != strings.TrimPrefix(string(have.Kvs[i].Key), from.Prefix) || !bytes.Equal(kv.Value, have.Kvs[i].Value) || kv.Lease != 0 {
			t.Fatalf("key %s differs", kv.Key)
		}
	}
}

func (w *world) serverCertificate() []byte {
	w.t.Helper()
	w.writeSecret()
	return readFile(w.t, w.dir+"/tls/server.crt")
}
