package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api"
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/release"
)

// defaultName is that of the organization, project and network that everybody begins with.
const defaultName = "default"

// platformUser is who the daemon is to the API server.
const platformUser = "system:serviceaccount:" + Namespace + ":cloudd"

// applyCRDs installs the kinds and waits until the API serves them.
func (in *installation) applyCRDs(ctx context.Context, _ platform.UpOptions) error {
	kinds, err := api.CRDs()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		kind.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := in.applyTyped(ctx, kind); err != nil {
			return err
		}
	}
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		for _, kind := range kinds {
			have, err := in.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(ctx, kind.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if !established(have) {
				return false, nil
			}
		}
		return true, nil
	})
}

func established(kind *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(kind.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

type daemonSettings struct {
	Image, Revision, RedisSecret, IAMAddress string
	Replicas                                 int
}

// applyDaemon installs the daemon, what it may do, and what it offers.
func (in *installation) applyDaemon(ctx context.Context, options platform.UpOptions) error {
	access, err := apply.Render(manifests, "manifests/access.yaml", nil)
	if err != nil {
		return err
	}
	if err := apply.Objects(ctx, in.dynamic, manager, access...); err != nil {
		return err
	}
	if err := in.applyCatalogue(ctx); err != nil {
		return err
	}
	settings := daemonSettings{Image: Image, Replicas: 1}
	if settings.Revision, err = in.imageRevision(); err != nil {
		return err
	}
	if settings.IAMAddress, err = in.iamAddress(ctx); err != nil {
		return err
	}
	if options.Redis != "" {
		settings.RedisSecret = "cloudd-redis"
		secret := &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: settings.RedisSecret, Namespace: Namespace},
			StringData: map[string]string{"url": options.Redis},
		}
		if err := in.applyTyped(ctx, secret); err != nil {
			return err
		}
	}
	daemon, err := apply.Render(manifests, "manifests/cloudd.yaml", settings)
	if err != nil {
		return err
	}
	return apply.Objects(ctx, in.dynamic, manager, daemon...)
}

// imageRevision changes with the image's content, so that a new one replaces the pods under the same name.
func (in *installation) imageRevision() (string, error) {
	archive, err := os.Open(filepath.Join(in.release.Dir(), release.ImagesDir, imageArchive))
	if err != nil {
		return "", fmt.Errorf("read the daemon's image: %w", err)
	}
	defer func() { _ = archive.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, archive); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// iamAddress is the twentieth address of the cluster's services, by the address of the first of them.
func (in *installation) iamAddress(ctx context.Context) (string, error) {
	service := &corev1.Service{}
	if err := in.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return "", fmt.Errorf("read the API's own service: %w", err)
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return "", err
	}
	for range 19 {
		address = address.Next()
	}
	return address.String(), nil
}

// applyCatalogue publishes what the installation offers.
func (in *installation) applyCatalogue(ctx context.Context) error {
	offered, err := catalogue.New(in.release.Versions(), clusterTypes())
	if err != nil {
		return err
	}
	content, err := offered.Render()
	if err != nil {
		return err
	}
	return in.applyTyped(ctx, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: catalogue.ConfigMapName, Namespace: Namespace},
		Data:       map[string]string{catalogue.ConfigMapKey: string(content)},
	})
}

// clusterTypes are those whose engine this version has.
func clusterTypes() []catalogue.ClusterType {
	return []catalogue.ClusterType{{Name: v1alpha1.ClusterFake, Capabilities: []catalogue.Capability{
		catalogue.CanCreate, catalogue.CanDelete, catalogue.CanScale, catalogue.CanUpgrade, catalogue.CanRepair,
	}}}
}

// awaitDaemon waits until the daemon that was just installed is the one that answers.
func (in *installation) awaitDaemon(ctx context.Context, _ platform.UpOptions) error {
	deployment := &appsv1.Deployment{}
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: "cloudd"}, deployment); err != nil {
			return false, err
		}
		s := deployment.Status
		in.progress.Report(fmt.Sprintf("%d of %d ready", s.ReadyReplicas, *deployment.Spec.Replicas))
		return s.ObservedGeneration == deployment.Generation && s.UpdatedReplicas == *deployment.Spec.Replicas &&
			s.ReadyReplicas == *deployment.Spec.Replicas && s.Replicas == *deployment.Spec.Replicas, nil
	})
}

// applyAdmission makes the API server ask the daemon, whose certificate the platform's own authority has signed.
func (in *installation) applyAdmission(ctx context.Context, _ platform.UpOptions) error {
	secret := &corev1.Secret{}
	if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: authority.SecretName}, secret); err != nil {
		return fmt.Errorf("read the platform's authority: %w", err)
	}
	ca := secret.Data[corev1.ServiceAccountRootCAKey]
	if len(ca) == 0 {
		return fmt.Errorf("the platform's authority in secret %s has no certificate yet", authority.SecretName)
	}
	return in.applyTyped(ctx, admission.Configuration(admission.Service(Namespace, "admission", 443, ca), platformUser))
}

// applyDefaults makes what everybody begins with, where it is not there; what people made of it stays.
func (in *installation) applyDefaults(ctx context.Context, _ platform.UpOptions) error {
	namespace := v1alpha1.NamespacePrefix + defaultName
	organization := &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: defaultName}, Spec: v1alpha1.OrganizationSpec{DisplayName: "Default"}}
	project := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: defaultName}, Spec: v1alpha1.ProjectSpec{Organization: defaultName, DisplayName: "Default"}}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "local", Namespace: namespace}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}}
	network := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: defaultName, Namespace: namespace}}
	for _, object := range []client.Object{organization, project, account, network} {
		err := in.until(ctx, func(ctx context.Context) (bool, error) {
			err := in.client.Create(ctx, object)
			if err == nil || apierrors.IsAlreadyExists(err) {
				return true, nil
			}
			return false, err // the namespace, or the webhook's way to the daemon, may take a moment
		})
		if err != nil {
			return fmt.Errorf("make %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// removeDaemon takes the daemon off an existing cluster; with purge its kinds too, and with them all objects of them.
func (in *installation) removeDaemon(ctx context.Context, purge bool) error {
	webhook := admission.Configuration(admission.Service(Namespace, "admission", 443, nil), platformUser)
	problems := []error{
		client.IgnoreNotFound(in.client.Delete(ctx, webhook)),
		client.IgnoreNotFound(in.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}})),
	}
	if purge {
		kinds, err := api.CRDs()
		problems = append(problems, err)
		for _, kind := range kinds {
			err := in.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Delete(ctx, kind.Name, metav1.DeleteOptions{})
			problems = append(problems, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(problems...)
}

func (in *installation) applyTyped(ctx context.Context, object client.Object) error {
	content, err := apply.Typed(object)
	if err != nil {
		return err
	}
	return apply.Objects(ctx, in.dynamic, manager, content)
}

// until asks again and again; an error counts as not yet, and is what is told when ctx ends.
func (in *installation) until(ctx context.Context, done func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		last = err
		return ok, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
