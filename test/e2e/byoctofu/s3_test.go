//go:build e2e

package byoctofu

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

// bucket is as much of S3 as keeps files, by path. It takes none that is not to be encrypted, and locks not twice.
type bucket struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, found := b.files[r.URL.Path]
	switch {
	case r.Method == http.MethodPut && found && r.Header.Get("If-None-Match") == "*":
		http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>", http.StatusPreconditionFailed)
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Server-Side-Encryption") == "":
		http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
	case r.Method == http.MethodPut:
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.files[r.URL.Path] = data
	case r.URL.Query().Has("list-type"): // for workspaces, of which there are none
		_, _ = io.WriteString(w, "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
	case r.Method == http.MethodDelete:
		delete(b.files, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
	default:
		_, _ = w.Write(content) // to a client that may be gone
	}
}

func (b *bucket) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.files))
}

// TestStatesInS3 keeps the state in a bucket, with the settings that an account's deployers get. A killed operation leaves its
// lock there, by its host's name, and it can be taken away.
func TestStatesInS3(t *testing.T) {
	b, files := newBench(t), &bucket{files: map[string][]byte{}}
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	stub, _ := b.AWS(t, 0)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		b.environment[name] = stub.Environment[name]
	}
	b.environment["AWS_ENDPOINT_URL_STS"] = stub.Environment["AWS_ENDPOINT_URL"]
	account := byoclab.AWSAccount()
	account.Spec.State = &v1alpha1.AccountState{Type: v1alpha1.StateS3, S3: &v1alpha1.S3State{Bucket: "states", Prefix: "plasmacloud", Endpoint: server.URL}}
	b.backend = *cloud.BackendOf(account, "stack")
	b.killedAndRepeated(t)
	if have := files.names(); !slices.Equal(have, []string{"/states/plasmacloud/stack.tfstate"}) {
		t.Errorf("the bucket has %v", have)
	}
	w := b.open("three", variables{Count: 2})
	b.apply(w, terraform.PlanOptions{Destroy: true})
	if resources, err := w.State(t.Context()); err != nil || len(resources) > 0 {
		t.Errorf("the state has %v, %v", resources, err)
	}
	for _, name := range []string{"one", "two", "three"} {
		if err := b.open(name, variables{}).Close(); err != nil {
			t.Error(err)
		}
	}
	b.NothingTold(t)
}
