package encryption_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"plasmacloud.io/plasmacloud/internal/k8shost/encryption"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

// secrets are more than fit into a page.
const secrets = 520

// world is a real API server with its etcd.
type world struct {
	t    *testing.T
	api  *testapi.Server
	file string // its encryption configuration
	// left is how many more points a rotation passes before it is killed; less than one is never.
	left int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, file: t.TempDir() + "/encryption-config.yaml"}
	keys, err := pki.Encryption{}.Add()
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteEncryption(w.file, keys); err != nil {
		t.Fatal(err)
	}
	w.api = testapi.New(t, testapi.Options{WithoutCRDs: true, APIServerArgs: []string{
		"--encryption-provider-config=" + w.file, "--encryption-provider-config-automatic-reload=true",
	}})
	return w
}

// point is where a rotation may be killed: nothing of it runs on.
func (w *world) point() {
	if w.left--; w.left == 0 {
		runtime.Goexit()
	}
}

// Load implements encryption.Keys.
func (w *world) Load(context.Context) (pki.Encryption, error) { return pki.ReadEncryption(w.file) }

// Store implements encryption.Keys. The API server would find the file within a minute; the test has no time for that.
func (w *world) Store(_ context.Context, keys pki.Encryption) error {
	if err := pki.WriteEncryption(w.file, keys); err != nil {
		return err
	}
	w.api.EndAPIServer(w.t)
	w.point()
	return nil
}

// rotation is one for a cluster that has the API server twice, so that a key is read before it writes.
func (w *world) rotation() *encryption.Rotation {
	objects, err := metadata.NewForConfig(w.api.Config())
	if err != nil {
		w.t.Fatal(err)
	}
	server := encryption.At(w.api.Config(), strings.TrimPrefix(w.api.URL(), "https://"))
	return &encryption.Rotation{
		Keys: w, Objects: objects, Patience: time.Minute,
		Servers: func(context.Context) ([]encryption.Server, error) { return []encryption.Server{server, server}, nil },
		Report:  func(message string) { w.t.Log(message); w.point() },
	}
}

// run rotates until the end, or until it is killed after so many points.
func (w *world) run(points int) (result encryption.Result, finished bool) {
	w.t.Helper()
	w.left = points
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = w.rotation().Run(w.t.Context())
		finished = true
	}()
	<-done
	if err != nil {
		w.t.Fatal(err)
	}
	return result, finished
}

// stored counts the Secrets in etcd by the name of the key that they are encrypted with, and looks for their content.
func (w *world) stored(content string) map[string]int {
	w.t.Helper()
	p := w.api.PKI()
	client, err := etcd.Connect(etcd.Credentials{
		CA: p.CAPath(pki.EtcdCA), Cert: p.CertPath(pki.APIServerEtcdClient), Key: p.KeyPath(pki.APIServerEtcdClient),
	}, w.api.Etcd())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	found, err := client.Get(w.t.Context(), "/registry/secrets/", clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, pair := range found.Kvs {
		rest, encrypted := bytes.CutPrefix(pair.Value, []byte("k8s:enc:secretbox:v1:"))
		name, _, _ := bytes.Cut(rest, []byte(":"))
		if !encrypted || bytes.Contains(pair.Value, []byte(content)) {
			name = []byte("none")
		}
		counts[string(name)]++
	}
	return counts
}

func TestRotationIsFinishedHoweverOftenItIsKilled(t *testing.T) {
	w := newWorld(t)
	client, err := kubernetes.NewForConfig(w.api.Config())
	if err != nil {
		t.Fatal(err)
	}
	const content = "the cat is in the cellar"
	namespace := w.api.Namespace(t)
	immutable := true
	for i := range secrets {
		_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)}, StringData: map[string]string{"word": content}, Immutable: &immutable,
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := w.stored(content); got["key1"] != secrets || len(got) != 1 {
		t.Fatalf("before, %v", got)
	}
	before, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	for points := 1; ; points++ {
		_, finished := w.run(points)
		keys, err := pki.ReadEncryption(w.file)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("after %d points: keys %s, %s; stored %v", points, keys, keys.Stage(), w.stored(content))
		if finished || keys.Stage() == pki.Settled && keys.String() != "key1" {
			break
		}
		if kills++; kills > 20 {
			t.Fatal("it does not come to an end")
		}
	}
	if kills < 3 {
		t.Errorf("it was killed %d times only", kills)
	}
	keys, err := pki.ReadEncryption(w.file)
	if err != nil || keys.String() != "key2" {
		t.Fatalf("keys are %s, %v", keys, err)
	}
	if got := w.stored(content); got["key2"] != secrets || len(got) != 1 {
		t.Errorf("afterwards, %v", got)
	}
	// With the new key alone, everything can be read.
	server := encryption.At(w.api.Config(), strings.TrimPrefix(w.api.URL(), "https://"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if loaded, err := server.Loaded(t.Context()); err == nil && loaded == keys.Hash() {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the API server works with %s, %v", loaded, err)
		}
	}
	for _, i := range []int{0, secrets - 1} {
		secret, err := client.CoreV1().Secrets(namespace).Get(t.Context(), fmt.Sprintf("s%d", i), metav1.GetOptions{})
		if err != nil || string(secret.Data["word"]) != content {
			t.Errorf("secret %d is %q, %v", i, secret.Data["word"], err)
		}
	}
	if after, err := os.ReadFile(w.file); err != nil || bytes.Contains(after, before[bytes.LastIndex(before, []byte("secret:")):]) {
		t.Errorf("the first key is still in the file: %v", err)
	}
}

func TestServersThatDoNotLearnTheKeysKeepTheOldOne(t *testing.T) {
	keys, err := pki.Encryption{}.Add()
	if err != nil {
		t.Fatal(err)
	}
	store := &memory{keys: keys}
	follower := encryption.Server{Name: "one", Loaded: func(context.Context) (string, error) { return store.keys.Hash(), nil }}
	for name, test := range map[string]struct {
		loaded func(context.Context) (string, error)
		says   []string
	}{
		"one that is stuck": {func(context.Context) (string, error) { return keys.Hash(), nil }, []string{"two", "run this again"}},
		"one that is away":  {func(context.Context) (string, error) { return "", errors.New("no route") }, []string{"two", "no route"}},
	} {
		t.Run(name, func(t *testing.T) {
			store.keys = keys
			stuck := encryption.Server{Name: "two", Loaded: test.loaded}
			rotation := &encryption.Rotation{
				Keys: store, Report: func(string) {}, Patience: 50 * time.Millisecond,
				Servers: func(context.Context) ([]encryption.Server, error) { return []encryption.Server{follower, stuck}, nil },
			}
			_, err := rotation.Run(t.Context())
			for _, says := range test.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("got %v, want %q", err, says)
				}
			}
			if store.keys.Names()[0] != "key1" {
				t.Errorf("keys are %s: a server cannot read what is written now", store.keys)
			}
		})
	}
}

// memory keeps keys for a test.
type memory struct{ keys pki.Encryption }

func (m *memory) Load(context.Context) (pki.Encryption, error)       { return m.keys, nil }
func (m *memory) Store(_ context.Context, keys pki.Encryption) error { m.keys = keys; return nil }
