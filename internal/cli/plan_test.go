package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// inCloud is a world with a network, a cluster and a bucket in Google Cloud.
func inCloud(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "project-web", UID: "x"}
	}
	network := &v1alpha1.Network{ObjectMeta: meta("main"), Spec: v1alpha1.NetworkSpec{Account: "prod"}}
	network.Status.InfraVersion, network.Status.ObservedGeneration = "v1.0.0", 1
	replicas := int32(3)
	cluster := &v1alpha1.Cluster{ObjectMeta: meta("shop"), Spec: v1alpha1.ClusterSpec{
		Type: v1alpha1.ClusterGKE, Version: "v1.35", Network: "main", NodeGroups: map[string]v1alpha1.NodeGroupTemplate{"workers": {Replicas: &replicas, MaxReplicas: 10}},
	}}
	bucket := &v1alpha1.Bucket{ObjectMeta: meta("assets"), Spec: v1alpha1.BucketSpec{Cluster: "shop"}}
	bucket.Status.ObservedGeneration = 1
	for _, object := range []client.Object{network, cluster, bucket} {
		if err := w.api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	(&engine{world: w}).settle("shop", func(s *v1alpha1.ClusterStatus) { s.ObservedGeneration = 1 })
	return w
}

// answer makes the task that a request for a plan leads to, and ends it.
func (e *engine) answer(kind, name string, result *v1alpha1.PlanResult, text string) string {
	var request v1alpha1.PlanRequest
	object := map[string]client.Object{"Cluster": &v1alpha1.Cluster{}, "Network": &v1alpha1.Network{}, "Bucket": &v1alpha1.Bucket{}}[kind]
	e.eventually("a request", func() bool {
		if err := e.api.Get(e.t.Context(), client.ObjectKey{Namespace: "project-web", Name: name}, object); err != nil {
			return false
		}
		var asked bool
		request, asked = v1alpha1.ParsePlanRequest(object.GetAnnotations()[v1alpha1.AnnotationPlan])
		return asked
	})
	e.watched(1)
	e.task = &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-plan", Namespace: "project-web", Annotations: map[string]string{v1alpha1.AnnotationPlan: "2026-01-02T12:00:00Z"}},
		Spec: v1alpha1.TaskSpec{
			Resource: v1alpha1.ResourceReference{Kind: kind, Name: name, UID: string(object.GetUID())}, Operation: v1alpha1.OperationPlan, Generation: 1,
		},
	}
	e.must(e.api.Create(e.t.Context(), e.task))
	if result == nil {
		e.end(v1alpha1.TaskFailed, text)
		return request.Change
	}
	outcome, err := json.Marshal(result)
	e.must(err)
	e.task.Status.Outputs = map[string]string{"plan": text, v1alpha1.OutputPlanResult: string(outcome)}
	e.end(v1alpha1.TaskSucceeded, "")
	return request.Change
}

// planned runs a command that plans, and returns what it prints to people and what it asked for.
func planned(t *testing.T, args []string, code int, kind, name string, result *v1alpha1.PlanResult, text string) (out, errors, asked string) {
	t.Helper()
	w := inCloud(t)
	done := make(chan string, 1)
	go func() { done <- (&engine{world: w}).answer(kind, name, result, text) }()
	var stdout, stderr buffer
	if have := w.start(t.Context(), "", &stdout, &stderr, args...); have != code {
		t.Errorf("%v ended with %d, not %d\n%s", args, have, code, stderr.String())
	}
	return stdout.String(), stderr.String(), <-done
}

const versionPlan = `  ~ google_container_cluster.this is changed
      min_master_version "1.35" → "1.36"
0 created, 1 changed, 0 replaced, 0 destroyed
`

func TestAPlanIsShown(t *testing.T) {
	result := &v1alpha1.PlanResult{InfraVersion: "v1.0.0", Changes: []v1alpha1.PlannedChange{{Address: "google_container_cluster.this", Effect: "changed"}}}
	args := []string{"k8s", "plan", "shop", "--version", "v1.36", "--workers", "5", "--group", "workers", "--infra-version", "v1.0.0", "--change", `{"deletionProtection":true}`, "--timeout", "1m"}
	out, _, asked := planned(t, args, 0, "Cluster", "shop", result, versionPlan)
	if strings.TrimSpace(out) != strings.TrimSpace(versionPlan) {
		t.Errorf("printed\n%s", out)
	}
	if asked != `{"deletionProtection":true,"infraVersion":"v1.0.0","nodeGroups":{"workers":{"replicas":5}},"version":"v1.36"}` {
		t.Errorf("asked for %s", asked)
	}
	out, _, _ = planned(t, []string{"k8s", "plan", "shop", "-o", "json"}, 0, "Cluster", "shop", result, versionPlan)
	var shown v1alpha1.PlanResult
	if err := json.NewDecoder(bytes.NewBufferString(out)).Decode(&shown); err != nil || shown.Changes[0].Effect != "changed" {
		t.Errorf("%v in\n%s", err, out)
	}
}

func TestAPlanThatWouldBeRefusedIs(t *testing.T) {
	result := &v1alpha1.PlanResult{
		Changes: []v1alpha1.PlannedChange{{Address: "google_compute_network.this", Effect: "replaced"}},
		Refused: "plan refused: google_compute_network.this: a network is lost", Consent: []string{"google_compute_network.this"},
	}
	out, said, _ := planned(t, []string{"vpc", "plan", "main", "--infra-version", "v1.1.0", "--change", `{"cidr":"10.9.0.0/16"}`, "--timeout", "1m"}, 4, "Network", "main", result, "-/+ google_compute_network.this is replaced")
	if !strings.Contains(out, "-/+ google_compute_network.this") || !strings.Contains(said, "this change would be refused: google_compute_network.this: a network is lost") ||
		!strings.Contains(said, "--agree-to='google_compute_network.this'") {
		t.Errorf("printed\n%s\n%s", out, said)
	}
	_, said, _ = planned(t, []string{"bucket", "plan", "assets", "--infra-version", "v9.9.9", "--change", "{}", "--timeout", "1m"}, 1, "Bucket", "assets", nil, "there is no infra version v9.9.9")
	if !strings.Contains(said, "there is no infra version v9.9.9") || !strings.Contains(said, "cloud task show assets-plan") {
		t.Errorf("printed\n%s", said)
	}
}

func TestWhatIsInNoCloudIsNotPlanned(t *testing.T) {
	w := newWorld(t)
	for _, args := range []string{"k8s plan dev-cluster", "vpc plan default", "vpc repair default", "vpc upgrade default --infra-version v1.1.0"} {
		var out, said buffer
		if code := w.start(t.Context(), "", &out, &said, strings.Fields(args)...); code != 4 {
			t.Errorf("%s ended with %d\n%s", args, code, said.String())
		}
	}
	w = inCloud(t)
	for _, args := range []string{"k8s plan shop --group workers", "k8s plan shop --change x", "bucket plan assets --timeout 0s", "vpc upgrade main", "k8s upgrade shop"} {
		var out, said buffer
		if code := w.start(t.Context(), "", &out, &said, strings.Fields(args)...); code != 2 {
			t.Errorf("%s ended with %d\n%s", args, code, said.String())
		}
	}
}

func TestRepairAndForgetAreAskedFor(t *testing.T) {
	w := inCloud(t)
	annotation := func(object client.Object, name, key string) string {
		t.Helper()
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: name}, object); err != nil {
			t.Fatal(err)
		}
		return object.GetAnnotations()[key]
	}
	for _, args := range []string{"vpc repair main --wait --timeout 1ms", "bucket repair assets --agree-to aws_s3_bucket.this --agree-to x[0] --wait --timeout 1ms"} {
		var out, said buffer
		if code := w.start(t.Context(), "", &out, &said, strings.Fields(args)...); code != 5 {
			t.Errorf("%s ended with %d\n%s", args, code, said.String())
		}
	}
	if annotation(&v1alpha1.Network{}, "main", v1alpha1.AnnotationRepair) == "" || annotation(&v1alpha1.Bucket{}, "assets", v1alpha1.AnnotationRepair) == "" {
		t.Error("no repair was asked for")
	}
	var quiet, noted buffer
	if code := w.start(t.Context(), "", &quiet, &noted, "bucket", "upgrade", "assets", "--infra-version", "v1.0.1"); code != 0 {
		t.Errorf("an upgrade ended with %d\n%s", code, noted.String())
	}
	if agreed := annotation(&v1alpha1.Bucket{}, "assets", v1alpha1.AnnotationConsent); agreed != "aws_s3_bucket.this,x[0]" { // also after an upgrade that agrees to nothing
		t.Errorf("agreed to %q", agreed)
	}
	for args, code := range map[string]int{
		"bucket upgrade assets --infra-version v1.1.0 --agree-to x --dry-run=server":                0,
		"bucket upgrade assets --infra-version v1.1.0 --wait --timeout 1ms":                         5,
		"vpc upgrade main --infra-version v1.1.0 --dry-run=server":                                  0,
		"vpc upgrade main --infra-version v1.1.0 --wait --timeout 1ms":                              5,
		"k8s upgrade shop --version v1.36 --agree-to x --infra-version v1.1.0 --wait --timeout 1ms": 5,
		"k8s repair shop --agree-to x":                                                              0,
	} {
		var out, said buffer
		if have := w.start(t.Context(), "", &out, &said, strings.Fields(args)...); have != code {
			t.Errorf("%s ended with %d\n%s", args, have, said.String())
		}
	}
	var out, said buffer
	if code := w.start(t.Context(), "", &out, &said, "vpc", "upgrade", "main", "--infra-version", "v1.1.0", "--agree-to", `aws_subnet.this["a"]`); code != 0 {
		t.Errorf("an upgrade ended with %d\n%s", code, said.String())
	}
	network := &v1alpha1.Network{}
	if agreed := annotation(network, "main", v1alpha1.AnnotationConsent); agreed != `aws_subnet.this["a"]` || network.Spec.InfraVersion != "v1.1.0" {
		t.Errorf("agreed to %q, version %s", agreed, network.Spec.InfraVersion)
	}
	// A finalizer keeps them, as the platform's does.
	for name, object := range map[string]client.Object{"main": &v1alpha1.Network{}, "shop": &v1alpha1.Cluster{}, "assets": &v1alpha1.Bucket{}} {
		annotation(object, name, "")
		object.SetFinalizers([]string{v1alpha1.Finalizer})
		if err := w.api.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"bucket delete assets --forget --yes", "k8s delete shop --forget --yes", "vpc delete main --forget --yes"} {
		var out, said buffer
		if code := w.start(t.Context(), "", &out, &said, strings.Fields(args)...); code != 0 {
			t.Errorf("%s ended with %d\n%s", args, code, said.String())
		}
	}
	if annotation(&v1alpha1.Network{}, "main", v1alpha1.AnnotationForget) != "main" || annotation(&v1alpha1.Cluster{}, "shop", v1alpha1.AnnotationForget) != "shop" ||
		annotation(&v1alpha1.Bucket{}, "assets", v1alpha1.AnnotationForget) != "assets" {
		t.Error("nobody has agreed to leave it in the cloud")
	}
}
