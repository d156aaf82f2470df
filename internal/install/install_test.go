package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

type silent struct{}

func (silent) Step(string)   {}
func (silent) Report(string) {}

// on is an installation on an existing cluster that is an API server alone: nothing runs there.
func on(t *testing.T, api *testapi.Server) *installation {
	t.Helper()
	in := &installation{
		target: platform.Target{Kubeconfig: api.Kubeconfig(t)}, files: filepath.Join(t.TempDir(), "files"), progress: silent{},
	}
	if err := in.connect(); err != nil {
		t.Fatal(err)
	}
	return in
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestInstall goes the way of an installation as far as it leads without nodes.
func TestInstall(t *testing.T) {
	in := on(t, testapi.New(t, testapi.Options{}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range 2 { // everything may be repeated
		must(t, in.applyCRDs(ctx, platform.UpOptions{}))
		must(t, in.applyRoles(ctx, platform.UpOptions{}))
		must(t, in.applyServices(ctx))
	}
	if !in.iamAddress.IsValid() {
		t.Fatal("the identity service has no address")
	}
	t.Run("redis", func(t *testing.T) { testRedis(t, in) })
	t.Run("endpoint", func(t *testing.T) { testEndpoint(t, in) })
	t.Run("authority", func(t *testing.T) { testAuthority(t, in) })
	t.Run("trust", func(t *testing.T) { testTrust(t, in) })
	t.Run("administrator", func(t *testing.T) { testAdministrator(t, in) })
	t.Run("image", func(t *testing.T) { testImage(t, in) })
	t.Run("purge", func(t *testing.T) { testPurge(t, in) })
}

// testRedis: what is not said about the queue leaves it where it is.
func testRedis(t *testing.T, in *installation) {
	ctx := t.Context()
	for _, step := range []struct{ given, want string }{
		{"", ""}, {"redis://:one@host:1/0", "redis://:one@host:1/0"}, {"", "redis://:one@host:1/0"},
		{"redis://host:2/0", "redis://host:2/0"}, {platform.NoRedis, ""}, {"", ""},
	} {
		secret, err := in.applyRedis(ctx, step.given)
		must(t, err)
		have := ""
		if secret != nil {
			have = string(secret.Data["url"])
		}
		if have != step.want {
			t.Errorf("after %q it is %q, want %q", step.given, have, step.want)
		}
	}
}

// testEndpoint: the address that hosted clusters are reached under stays unless another is given, and a daemon is alone
// where there is nobody to take its place.
func testEndpoint(t *testing.T, in *installation) {
	ctx := t.Context()
	if replicas, err := in.daemonReplicas(ctx); err != nil || replicas != 1 {
		t.Errorf("%d replicas where there are no nodes: %v", replicas, err)
	}
	for _, step := range []struct{ given, want string }{{"", ""}, {"192.0.2.10", "192.0.2.10"}, {"", "192.0.2.10"}, {"192.0.2.11", "192.0.2.11"}, {"", "192.0.2.11"}} {
		address, err := in.kept(ctx, "--endpoint-address=", step.given)
		must(t, err)
		if address != step.want {
			t.Errorf("after %q it is %q, want %q", step.given, address, step.want)
		}
		objects, err := apply.Render(manifests, "manifests/cloudd.yaml", daemonSettings{Image: "none", PullPolicy: "Never", EndpointAddress: address})
		must(t, err)
		must(t, apply.Objects(ctx, in.dynamic, manager, objects...))
	}
	must(t, in.client.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: daemon}}))
}

// testAuthority: the daemon gets the authority of the files, and keeps the one it has.
func testAuthority(t *testing.T, in *installation) {
	ctx := t.Context()
	own := *in
	own.target = platform.Target{DataDir: t.TempDir()}
	own.files = filepath.Join(own.target.DataDir, platformDir)
	changed, err := own.prepareWebhook()
	must(t, err)
	if again, err := own.prepareWebhook(); err != nil || again || !changed {
		t.Errorf("it changes again: %v %v", again, err)
	}
	for range 2 {
		must(t, own.shareAuthority(ctx, platform.UpOptions{}))
	}
	have, err := own.ca(ctx)
	must(t, err)
	want, err := os.ReadFile(own.authorityFiles().CAPath(pki.ClusterCA))
	must(t, err)
	if string(have) != string(want) {
		t.Error("the daemon has another authority")
	}
	other := filepath.Join(t.TempDir(), "tls")
	_, err = pki.New(other, clockNow{}).Ensure(nil)
	must(t, err)
	bundle, err := pki.ReadBundle(other)
	must(t, err)
	if err := own.authority().Adopt(ctx, bundle); !errors.Is(err, authority.ErrOther) {
		t.Errorf("another authority is adopted: %v", err)
	}
}

type clockNow struct{}

func (clockNow) Now() time.Time                  { return time.Now() }
func (clockNow) Since(t time.Time) time.Duration { return time.Since(t) }

// testTrust: the files for an API server that is not ours are complete, its own, and secret.
func testTrust(t *testing.T, in *installation) {
	must(t, in.exportTrust(t.Context()))
	loaded, err := clientcmd.LoadFromFile(filepath.Join(in.files, webhook.FileName))
	must(t, err)
	must(t, clientcmd.ResolveLocalPaths(loaded))
	must(t, clientcmd.ConfirmUsable(*loaded, ""))
	entries, err := os.ReadDir(in.files)
	must(t, err)
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", entry.Name(), info.Mode(), err)
		}
	}
	offline, err := os.ReadFile(filepath.Join(in.files, authenticationFile))
	must(t, err)
	if !strings.Contains(string(offline), "url: "+iamURL(in.iamAddress)) {
		t.Errorf("%s", offline)
	}
	if notes := strings.Join(in.trustNotes(), "\n"); !strings.Contains(notes, in.files) || !strings.Contains(notes, webhook.FileName) {
		t.Error(notes)
	}
}

// testAdministrator: there is one with the password of the file, and what people make of it stays.
func testAdministrator(t *testing.T, in *installation) {
	ctx := t.Context()
	hasher, err := password.NewHasher(password.DefaultParams(), 1)
	must(t, err)
	user := &v1alpha1.User{}
	hash := func() *corev1.Secret {
		t.Helper()
		must(t, in.client.Get(ctx, client.ObjectKey{Name: administrator}, user))
		secret := &corev1.Secret{}
		must(t, in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: directory.PasswordSecretName(user)}, secret))
		return secret
	}
	fits := func(secret *corev1.Secret) bool {
		t.Helper()
		content, err := os.ReadFile(in.passwordFile())
		must(t, err)
		ok, err := hasher.Verify(ctx, strings.TrimSpace(string(content)), string(secret.Data[directory.DefaultPasswordKey]))
		must(t, err)
		return ok
	}
	must(t, in.applyAdministrator(ctx, platform.UpOptions{}))
	first := hash()
	if !fits(first) || !user.Spec.PlatformAdmin || user.Spec.Email != administratorEmail {
		t.Errorf("the password does not fit, or this is no administrator: %+v", user.Spec)
	}
	if info, err := os.Stat(in.passwordFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	must(t, in.applyAdministrator(ctx, platform.UpOptions{}))
	if second := hash(); second.ResourceVersion != first.ResourceVersion || !fits(second) {
		t.Error("the password was changed")
	}
	must(t, os.Remove(in.passwordFile()))
	must(t, in.applyAdministrator(ctx, platform.UpOptions{}))
	if _, err := os.Stat(in.passwordFile()); !errors.Is(err, os.ErrNotExist) {
		t.Error("a password was made that nobody needs")
	}
	must(t, in.client.Delete(ctx, first))
	must(t, in.applyAdministrator(ctx, platform.UpOptions{}))
	if !fits(hash()) {
		t.Error("a password that was lost was not replaced")
	}
}

// testImage: a pod that waits for an image is found and removed; one that just begins is not.
func testImage(t *testing.T, in *installation) {
	ctx := t.Context()
	for name, reason := range map[string]string{"lacks": "ErrImageNeverPull", "begins": "ContainerCreating", "crashes": "CrashLoopBackOff"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: map[string]string{"app": daemon}},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: yes(), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{Name: daemon, Image: Image, SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(bool), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				}}},
			},
		}
		must(t, in.client.Create(ctx, pod))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: daemon, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		must(t, in.client.Status().Update(ctx, pod))
	}
	waiting, err := in.waitingPods(ctx)
	must(t, err)
	if len(waiting) != 2 {
		t.Errorf("%d pods wait", len(waiting))
	}
	must(t, in.retryImage(ctx))
	if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: "lacks"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod without an image is still there: %v", err)
	}
	if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: "crashes"}, &corev1.Pod{}); err != nil {
		t.Error(err)
	}
}

func yes() *bool { y := true; return &y }

// finalize does what controllers do where there are some: it lets go of what was deleted.
func finalize(ctx context.Context, in *installation) {
	_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var volumes corev1.PersistentVolumeList
		if err := in.client.List(ctx, &volumes); err == nil {
			for i := range volumes.Items {
				if volume := &volumes.Items[i]; volume.DeletionTimestamp != nil {
					volume.Finalizers = nil
					_ = in.client.Update(ctx, volume)
				}
			}
		}
		namespace, err := in.kube.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{})
		if err == nil && namespace.DeletionTimestamp != nil {
			namespace.Spec.Finalizers = nil
			_, _ = in.kube.CoreV1().Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
		}
		return apierrors.IsNotFound(err) && len(volumes.Items) == 0, nil
	})
}

// testPurge: nothing of ours is left.
func testPurge(t *testing.T, in *installation) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	must(t, in.client.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "plasmacloud-volume", Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentDatastore}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}))
	var finalizing sync.WaitGroup
	finalizing.Go(func() { finalize(ctx, in) })
	for range 2 {
		must(t, in.purge(ctx))
	}
	finalizing.Wait()
	for resource, root := range map[string]string{
		"namespaces": "/api/v1", "persistentvolumes": "/api/v1",
		"clusterroles": "/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
		"validatingadmissionpolicies": "/apis/admissionregistration.k8s.io/v1", "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
	} {
		content, err := in.kube.Discovery().RESTClient().Get().AbsPath(root + "/" + resource).DoRaw(ctx)
		must(t, err)
		if strings.Contains(string(content), `"name":"plasmacloud`) || strings.Contains(string(content), "plasmacloud.io") {
			t.Errorf("%s are left", resource)
		}
	}
}
