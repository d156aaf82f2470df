//go:build e2e

package management

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request sends a request to the API server, as a program on the host would, and returns status and body.
func (p *person) request(t *testing.T, token, method, path, body string) (int, []byte) {
	t.Helper()
	place := p.context(t)
	if p.client == nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(place.CA))
		p.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DialContext: p.host.Dial, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, place.Server+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := p.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, content
}

// expect is an error where the answer has another status.
func (p *person) expect(t *testing.T, token string, status int, method, path, body string) error {
	t.Helper()
	got, content := p.request(t, token, method, path, body)
	if got != status {
		return fmt.Errorf("%s %s: %d, want %d: %.300s", method, path, got, status, content)
	}
	return nil
}

// resources are all that the API server knows, with their path without a namespace.
func (p *person) resources(t *testing.T, token string) map[string][]metav1.APIResource {
	t.Helper()
	read := func(path string, into any) {
		status, content := p.request(t, token, http.MethodGet, path, "")
		if err := json.Unmarshal(content, into); status != http.StatusOK || err != nil {
			t.Fatalf("GET %s: %d %v", path, status, err)
		}
	}
	var groups metav1.APIGroupList
	read("/apis", &groups)
	roots := []string{"/api/v1"}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			roots = append(roots, "/apis/"+version.GroupVersion)
		}
	}
	found := map[string][]metav1.APIResource{}
	for _, root := range roots {
		var list metav1.APIResourceList
		read(root, &list)
		found[root] = list.APIResources
	}
	return found
}

// isolation tries everything that the API server has a name for on the other's project, by each of the two.
func isolation(t *testing.T, admin, ada, bob *person) {
	kinds := admin.resources(t, admin.token(t))
	for _, p := range []struct {
		who, other *person
		cluster    string
	}{{ada, bob, "bobs"}, {bob, ada, "adas"}} {
		token := p.who.token(t)
		p.who.sees(t, token)
		p.who.tries(t, token, kinds, "project-"+p.other.project)
		p.who.triesEverywhere(t, token, kinds, p.other.project)
		p.who.triesByCommand(t, p.other.project, p.cluster)
	}
	ada.guarded(t)
}

// sees makes sure that what is refused is not refused for want of a good token.
func (p *person) sees(t *testing.T, token string) {
	t.Helper()
	own := "/namespaces/project-" + p.project
	for _, path := range []string{
		"/apis/plasmacloud.io/v1alpha1" + own + "/clusters", "/apis/plasmacloud.io/v1alpha1" + own + "/tasks", "/api/v1" + own + "/secrets",
		"/apis/plasmacloud.io/v1alpha1/projects/" + p.project, "/apis/plasmacloud.io/v1alpha1/organizations/default",
	} {
		if err := p.expect(t, token, http.StatusOK, http.MethodGet, path, ""); err != nil {
			t.Error(err)
		}
	}
	name := own + "/configmaps"
	if err := p.expect(t, token, http.StatusCreated, http.MethodPost, "/api/v1"+name, `{"metadata":{"name":"mine"}}`); err != nil {
		t.Error(err)
	}
	if err := p.expect(t, token, http.StatusOK, http.MethodDelete, "/api/v1"+name+"/mine", ""); err != nil {
		t.Error(err)
	}
	if output, err := p.kubectl("get", "clusters.plasmacloud.io,secrets,events"); err != nil {
		t.Errorf("kubectl in one's own project: %v\n%s", err, output)
	}
}

// methods of the API by its verbs; the path is that of an object but where it is said to be a list's.
var methods = map[string]struct {
	method, query string
	list          bool
}{
	"get": {http.MethodGet, "", false}, "list": {http.MethodGet, "", true}, "watch": {http.MethodGet, "?watch=true&timeoutSeconds=2", true},
	"create": {http.MethodPost, "", true}, "update": {http.MethodPut, "", false}, "patch": {http.MethodPatch, "", false},
	"delete": {http.MethodDelete, "", false}, "deletecollection": {http.MethodDelete, "", true},
}

// tries goes through every verb of every kind and subresource in a namespace; all have to be forbidden. What exists and
// what does not is refused alike.
func (p *person) tries(t *testing.T, token string, kinds map[string][]metav1.APIResource, namespace string) {
	t.Helper()
	count := 0
	for root, resources := range kinds {
		for _, kind := range resources {
			if !kind.Namespaced {
				continue
			}
			name, sub, isSub := strings.Cut(kind.Name, "/")
			for _, verb := range kind.Verbs {
				how, known := methods[verb]
				if !known {
					continue
				}
				path := root + "/namespaces/" + namespace + "/" + name
				if isSub {
					path += "/bobs/" + sub
				} else if !how.list {
					path += "/bobs"
				}
				count++
				if err := p.expect(t, token, http.StatusForbidden, how.method, path+how.query, "{}"); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if count < 200 {
		t.Errorf("only %d requests were tried", count)
	}
	t.Logf("%d requests about %s were refused", count, namespace)
}

// triesEverywhere goes through what is in no namespace, and lists of all namespaces.
func (p *person) triesEverywhere(t *testing.T, token string, kinds map[string][]metav1.APIResource, project string) {
	t.Helper()
	for root, resources := range kinds {
		for _, kind := range resources {
			if strings.Contains(kind.Name, "/") {
				continue
			}
			for _, verb := range kind.Verbs {
				if verb != "list" && verb != "watch" && verb != "deletecollection" {
					continue
				}
				how := methods[verb]
				if err := p.expect(t, token, http.StatusForbidden, how.method, root+"/"+kind.Name+how.query, ""); err != nil {
					t.Error(err)
				}
			}
		}
	}
	const ours = "/apis/plasmacloud.io/v1alpha1/"
	for _, path := range []string{ours + "projects/" + project, ours + "users/admin", ours + "users/bob", "/api/v1/namespaces/project-" + project, "/api/v1/nodes/host/proxy/pods"} {
		if err := p.expect(t, token, http.StatusForbidden, http.MethodGet, path, ""); err != nil {
			t.Error(err)
		}
	}
	for path, body := range map[string]string{
		ours + "accesstokens": `{"apiVersion":"plasmacloud.io/v1alpha1","kind":"AccessToken","metadata":{"name":"x"},"spec":{"user":"admin"}}`,
		ours + "users":        `{"apiVersion":"plasmacloud.io/v1alpha1","kind":"User","metadata":{"name":"x"},"spec":{"organization":"default","email":"x@x","platformAdmin":true}}`,
		ours + "projects":     `{"apiVersion":"plasmacloud.io/v1alpha1","kind":"Project","metadata":{"name":"x"},"spec":{"organization":"default"}}`,
		"/api/v1/namespaces":  `{"metadata":{"name":"x"}}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": `{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`,
	} {
		if err := p.expect(t, token, http.StatusForbidden, http.MethodPost, path, body); err != nil {
			t.Error(err)
		}
	}
}

// triesByCommand uses kubectl and the command line, as people do.
func (p *person) triesByCommand(t *testing.T, project, cluster string) {
	t.Helper()
	namespace := "project-" + project
	for _, line := range []string{
		"get clusters.plasmacloud.io," + "nodegroups,machines,tasks,accounts,networks,secrets,pods,events -n " + namespace,
		"get cluster.plasmacloud.io " + cluster + " -n " + namespace, "get clusters.plasmacloud.io -A", "get secrets -A", "get projects", "get users",
		"delete cluster.plasmacloud.io " + cluster + " -n " + namespace, "scale nodegroup --all --replicas=9 -n " + namespace,
		"annotate cluster.plasmacloud.io " + cluster + " a=b -n " + namespace, "exec -n " + namespace + " pod -- true", "logs -n " + namespace + " pod",
		"exec -n plasmacloud-system deployment/cloudd -- true", "get secrets -n plasmacloud-system", "create configmap x -n " + namespace,
		"create token default -n " + namespace, "get pods -n project-" + p.project + " --as=admin@plasmacloud.local",
	} {
		if output, err := p.kubectl(strings.Fields(line)...); err == nil || !strings.Contains(output, "forbidden") {
			t.Errorf("kubectl %s: %v\n%s", line, err, output)
		}
	}
	for _, line := range []string{
		"k8s list", "k8s get " + cluster, "k8s delete " + cluster + " --yes", "k8s scale " + cluster + " --workers 3", "k8s kubeconfig " + cluster, "k8s events " + cluster,
		"k8s create --name x --vpc main --type fake", "vpc list", "vpc delete main --yes", "account list", "task list", "instance list",
	} {
		p.refused(t, "forbidden|cannot", append(strings.Fields(line), "--project", project)...)
	}
	for _, line := range []string{"user list", "user create x --email x@example.com --org default --no-password", "user disable admin", "project create x --org default", "token create --user admin"} {
		p.refused(t, "forbidden|cannot|not responsible", strings.Fields(line)...)
	}
}

// guarded tries what the roles in one's own project allow, and the platform does not.
func (p *person) guarded(t *testing.T) {
	t.Helper()
	for line, wanted := range map[string]string{
		"run shell --image=plasmacloud.io/toolbox:latest": "management cluster",
		"create deployment x --image=x":                   "management cluster",
		"create quota x --hard=pods=1":                    "kept by the platform",
		"create rolebinding x --role=org-admin --user=x":  "forbidden",
	} {
		if output, err := p.kubectl(strings.Fields(line)...); err == nil || !strings.Contains(output, wanted) {
			t.Errorf("kubectl %s: %v\n%s", line, err, output)
		}
	}
}
