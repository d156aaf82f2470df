package datastore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// removalPatience is how long a removal waits for pods before it lets others have their turn.
const removalPatience = 10 * time.Second

// Dedicated is an etcd of one cluster, in the cluster's infrastructure namespace. It is otherwise like the shared one, a
// user with a prefix included, so that a cluster can move between them.
type Dedicated struct{ server server }

var _ Datastore = (*Dedicated)(nil)

// NewDedicated describes the etcd of one cluster.
func NewDedicated(config Config) (*Dedicated, error) {
	if config.Size == (Size{}) {
		config.Size = DedicatedSize()
	}
	if config.Replicas == 0 {
		config.Replicas = 1
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Dedicated{server: server{config: config}}, nil
}

// Ensure implements Datastore: it installs the etcd, too, and gives it more members where more are wanted.
func (d *Dedicated) Ensure(ctx context.Context, tenant Tenant) (Credentials, error) {
	if err := tenant.Validate(); err != nil {
		return Credentials{}, err
	}
	if err := d.server.install(ctx); err != nil {
		return Credentials{}, fmt.Errorf("install the datastore of %s: %w", tenant.Name, err)
	}
	defer func() { _ = d.server.close() }()
	credentials, err := d.server.ensure(ctx, tenant)
	if err == nil {
		err = d.server.mend(ctx)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("make room for %s in its datastore: %w", tenant.Name, err)
	}
	return credentials, nil
}

// Remove implements Datastore: it removes the etcd with its data. ErrNotReady means that its pods are still ending, and
// to ask again.
func (d *Dedicated) Remove(ctx context.Context, tenant Tenant) error {
	if err := tenant.Validate(); err != nil {
		return err
	}
	if err := d.server.uninstall(ctx); err != nil {
		return fmt.Errorf("remove the datastore of %s: %w", tenant.Name, err)
	}
	return nil
}

// uninstall removes everything, in an order in which what is left can still be found: the volumes tell of the data.
func (s *server) uninstall(ctx context.Context) error {
	api, namespace := s.config.API, s.config.Namespace
	// Where there is no namespace, nothing is allowed in it either.
	if _, err := api.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return s.removeOwnVolumes(ctx)
	} else if err != nil {
		return err
	}
	mine := metav1.ListOptions{LabelSelector: labels.Set{v1alpha1.LabelComponent: v1alpha1.ComponentDatastore}.String()}
	if err := gone(api.AppsV1().StatefulSets(namespace).Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		return err
	}
	if err := s.removePods(ctx, mine); err != nil {
		return err
	}
	volumes, err := s.ownVolumes(ctx)
	if err != nil {
		return err
	}
	if err := s.removeData(ctx, volumes); err != nil {
		return err
	}
	if err := s.removeClaims(ctx, mine); err != nil {
		return err
	}
	if err := s.removeVolumes(ctx, volumes); err != nil {
		return err
	}
	return errors.Join(
		gone(api.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})),
		gone(api.CoreV1().Services(namespace).Delete(ctx, members, metav1.DeleteOptions{})),
		gone(api.PolicyV1().PodDisruptionBudgets(namespace).Delete(ctx, name, metav1.DeleteOptions{})),
		gone(api.NetworkingV1().NetworkPolicies(namespace).Delete(ctx, name, metav1.DeleteOptions{})),
		gone(api.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})),
		gone(api.CoreV1().Secrets(namespace).Delete(ctx, tlsSecret, metav1.DeleteOptions{})),
		gone(api.CoreV1().Secrets(namespace).Delete(ctx, authoritySecret, metav1.DeleteOptions{})),
	)
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removePods ends the members at once: their data go with them, so there is nothing to be gentle about.
func (s *server) removePods(ctx context.Context, selector metav1.ListOptions) error {
	pods := s.config.API.CoreV1().Pods(s.config.Namespace)
	return s.await(ctx, "its pods are ending", func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, selector)
		if err != nil {
			return false, err
		}
		for _, pod := range list.Items {
			if err := gone(pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})); err != nil {
				return false, err
			}
		}
		return len(list.Items) == 0, nil
	})
}

// removeClaims removes the claims, which carry the labels of the StatefulSet's selector.
func (s *server) removeClaims(ctx context.Context, selector metav1.ListOptions) error {
	claims := s.config.API.CoreV1().PersistentVolumeClaims(s.config.Namespace)
	list, err := claims.List(ctx, selector)
	if err != nil {
		return err
	}
	for _, claim := range list.Items {
		if err := gone(claims.Delete(ctx, claim.Name, metav1.DeleteOptions{})); err != nil {
			return err
		}
	}
	return nil
}

// await asks for a short while; ErrNotReady says that it took longer.
func (s *server) await(ctx context.Context, what string, done wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, removalPatience, true, done)
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("%w: %s", ErrNotReady, what)
	}
	return err
}

// removeData removes what members wrote on hosts, by a pod on each of them.
func (s *server) removeData(ctx context.Context, volumes []corev1.PersistentVolume) error {
	if s.config.ToolImage == "" || len(volumes) == 0 {
		return nil
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	pods := s.config.API.CoreV1().Pods(s.config.Namespace)
	var started []string
	for host, folder := range foldersOf(volumes) {
		if !slices.Contains(nodes, host) {
			s.config.Logger.WarnContext(ctx, "data of a datastore stay on a host that is away", "host", host, "folder", folder)
			continue
		}
		pod := s.removalPod(folder, host)
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
			s.config.Logger.WarnContext(ctx, "data of a datastore stay, as its namespace is going", "host", host, "folder", folder)
			continue
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("remove data on %s: %w", host, err)
		}
		started = append(started, pod.Name)
	}
	for _, pod := range started {
		err := s.await(ctx, "its data are being removed from hosts", func(ctx context.Context) (bool, error) {
			pod, err := pods.Get(ctx, pod, metav1.GetOptions{})
			return err == nil && pod.Status.Phase == corev1.PodSucceeded, err
		})
		if err != nil {
			return err
		}
	}
	for _, pod := range started {
		if err := gone(pods.Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})); err != nil {
			return err
		}
	}
	return nil
}

// foldersOf are the etcd's folders by host. In each there is a directory for each member on that host.
func foldersOf(volumes []corev1.PersistentVolume) map[string]string {
	folders := map[string]string{}
	for _, volume := range volumes {
		if volume.Spec.HostPath != nil {
			folders[hostOf(&volume)] = filepath.Dir(volume.Spec.HostPath.Path)
		}
	}
	return folders
}

func (s *server) removalPod(folder, host string) *corev1.Pod {
	create := corev1.HostPathDirectoryOrCreate
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "remove-" + filepath.Base(folder) + "-" + host, Labels: map[string]string{v1alpha1.LabelComponent: "datastore-removal"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			NodeSelector: map[string]string{corev1.LabelHostname: host},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "remove", Image: s.config.ToolImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"rm", "-rf", "/data/" + filepath.Base(folder)},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Dir(folder), Type: &create,
			}}}},
		},
	}
}
