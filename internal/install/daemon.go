package install

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/release"
)

const (
	daemon     = "cloudd"
	iamService = "iam"
	// redisSecret holds the address of the queue's Redis, which may have a password in it.
	redisSecret = "cloudd-redis"
	// revisionAnnotation differs between pods of different images or settings.
	revisionAnnotation = "plasmacloud.io/revision"
)

type daemonSettings struct {
	Image, PullPolicy, Revision, RedisSecret, IAMIssuer, IAMNames, DeploymentsNames string
	// StorageDirectory is where, on hosts, etcds keep their data where the cluster has no storage class.
	StorageDirectory string
	// EndpointAddress is where hosted clusters are reached, if not at a node's address.
	EndpointAddress string
	// ImagePolicy tells whether the nodes may ask a registry for the images of hosted clusters.
	ImagePolicy string
	// Release is the volume with what is laid onto machines.
	Release  releaseVolume
	Replicas int
}

// releaseVolume is the release on the host, as a volume. It has no name where the daemon cannot have it: the nodes of a
// cluster that is not ours have none.
type releaseVolume struct{ Name, Directory string }

// applyRelease gives the daemon the release. A volume's directory cannot change: its name tells one from another.
func (in *installation) applyRelease(ctx context.Context) (releaseVolume, error) {
	if !in.embedded() {
		return releaseVolume{}, nil
	}
	sum := sha256.Sum256([]byte(in.release.Dir()))
	volume := releaseVolume{Name: "plasmacloud-release-" + hex.EncodeToString(sum[:4]), Directory: in.release.Dir()}
	objects, err := apply.Render(manifests, "manifests/release.yaml", volume)
	if err != nil {
		return releaseVolume{}, err
	}
	return volume, apply.Objects(ctx, in.dynamic, manager, objects...)
}

// applyDaemon installs the daemon, and what it offers.
func (in *installation) applyDaemon(ctx context.Context, options platform.UpOptions) error {
	if err := in.applyCatalogue(ctx); err != nil {
		return err
	}
	if err := in.applyServices(ctx); err != nil {
		return err
	}
	settings, err := in.daemonSettings(ctx, options)
	if err != nil {
		return err
	}
	if settings.Release, err = in.applyRelease(ctx); err != nil {
		return fmt.Errorf("give the daemon the release: %w", err)
	}
	objects, err := apply.Render(manifests, "manifests/cloudd.yaml", settings)
	if err != nil {
		return err
	}
	if err := apply.Objects(ctx, in.dynamic, manager, objects...); err != nil {
		return err
	}
	return in.retryImage(ctx)
}

// retryImage removes pods that wait for an image, so that others look for it at once. Our own node is given it again.
func (in *installation) retryImage(ctx context.Context) error {
	waiting, err := in.waitingPods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range waiting {
		if pod.lacksImage() {
			if in.embedded() {
				if err := in.importImage(ctx); err != nil {
					return err
				}
			}
			if err := client.IgnoreNotFound(in.client.Delete(ctx, &pod.Pod, client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (in *installation) daemonSettings(ctx context.Context, options platform.UpOptions) (*daemonSettings, error) {
	settings := &daemonSettings{Image: options.Image, PullPolicy: string(corev1.PullIfNotPresent), IAMIssuer: iamURL(in.iamAddress)}
	if options.Image == "" { // no registry has it: what one gave out under its name would not be ours
		settings.Image, settings.PullPolicy = Image, string(corev1.PullNever)
	}
	addresses, err := in.nodeAddresses(ctx)
	if err != nil {
		return nil, err
	}
	settings.IAMNames = strings.Join(append([]string{in.iamAddress.String()}, addresses...), ",")
	settings.DeploymentsNames = strings.Join(addresses, ",")
	if settings.Replicas, err = in.daemonReplicas(ctx); err != nil {
		return nil, err
	}
	if settings.EndpointAddress, err = in.kept(ctx, "--endpoint-address=", options.EndpointAddress); err != nil {
		return nil, err
	}
	if settings.StorageDirectory, err = in.kept(ctx, "--storage-dir=", options.StorageDir); err != nil {
		return nil, err
	}
	settings.StorageDirectory = cmp.Or(settings.StorageDirectory, platform.DefaultDataDir)
	settings.ImagePolicy = string(corev1.PullIfNotPresent)
	if in.embedded() {
		settings.StorageDirectory = filepath.Join(in.target.DataDir, "storage") // it goes with the rest
		settings.ImagePolicy = string(corev1.PullNever)                         // it was given them all
	}
	if settings.Revision, err = in.imageRevision(); err != nil {
		return nil, err
	}
	secret, err := in.applyRedis(ctx, options.Redis)
	if err != nil || secret == nil {
		return settings, err
	}
	settings.RedisSecret = secret.Name
	settings.Revision += "-" + secret.ResourceVersion // another address is read by another pod
	return settings, nil
}

// daemonReplicas is two where they can be on a node each: when one is lost, the other takes over within seconds.
func (in *installation) daemonReplicas(ctx context.Context) (int, error) {
	var nodes corev1.NodeList
	if err := in.client.List(ctx, &nodes); err != nil {
		return 0, fmt.Errorf("list nodes: %w", err)
	}
	usable := slices.DeleteFunc(nodes.Items, func(node corev1.Node) bool { return node.Spec.Unschedulable })
	return min(max(len(usable), 1), 2), nil
}

// kept is the value that is given for one of the daemon's flags, or else the one that it runs with: repairing an
// installation must not move its clusters or their data.
func (in *installation) kept(ctx context.Context, flag, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	deployment := &appsv1.Deployment{}
	err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: daemon}, deployment)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			if value, found := strings.CutPrefix(arg, flag); found {
				return value, nil
			}
		}
	}
	return "", nil
}

// applyRedis keeps where the queue is. Where nothing is said about it, it stays where it was: repairing an installation
// must not move its tasks.
func (in *installation) applyRedis(ctx context.Context, redis string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: redisSecret, Namespace: Namespace},
	}
	switch redis {
	case "":
	case platform.NoRedis:
		return nil, client.IgnoreNotFound(in.client.Delete(ctx, secret))
	default:
		secret.Data = map[string][]byte{"url": []byte(redis)}
		if err := in.applyTyped(ctx, secret); err != nil {
			return nil, err
		}
	}
	err := in.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, err
}

// applyServices makes the daemon reachable, and learns where the identity service is.
func (in *installation) applyServices(ctx context.Context) error {
	var address string
	if in.embedded() {
		first := &corev1.Service{}
		if err := in.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, first); err != nil {
			return fmt.Errorf("read the API's own service: %w", err)
		}
		parsed, err := netip.ParseAddr(first.Spec.ClusterIP)
		if err != nil {
			return err
		}
		address = after(parsed, iamNumber-1).String()
	}
	services, err := apply.Render(manifests, "manifests/services.yaml", map[string]string{"IAMAddress": address})
	if err != nil {
		return err
	}
	if err := apply.Objects(ctx, in.dynamic, manager, services...); err != nil {
		return err
	}
	return in.findIAM(ctx)
}

// findIAM reads the identity service's address.
func (in *installation) findIAM(ctx context.Context) error {
	service := &corev1.Service{}
	if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: iamService}, service); err != nil {
		return fmt.Errorf("read the identity service's address: %w", err)
	}
	var err error
	in.iamAddress, err = netip.ParseAddr(service.Spec.ClusterIP)
	return err
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

// awaitDaemon waits until the daemon that was just installed is the one that answers.
func (in *installation) awaitDaemon(ctx context.Context, options platform.UpOptions) error {
	deployment := &appsv1.Deployment{}
	var hopeless error
	err := in.until(ctx, func(ctx context.Context) (bool, error) {
		if err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: daemon}, deployment); err != nil {
			return false, err
		}
		s := deployment.Status
		in.progress.Report(fmt.Sprintf("%d of %d ready", s.ReadyReplicas, *deployment.Spec.Replicas))
		if s.ObservedGeneration == deployment.Generation && s.UpdatedReplicas == *deployment.Spec.Replicas &&
			s.ReadyReplicas == *deployment.Spec.Replicas && s.Replicas == *deployment.Spec.Replicas {
			return true, nil
		}
		waiting, err := in.waitingPods(ctx)
		waiting = slices.DeleteFunc(waiting, func(p waitingPod) bool { // those of before are on their way out
			return p.Annotations[revisionAnnotation] != deployment.Spec.Template.Annotations[revisionAnnotation]
		})
		if err != nil || len(waiting) == 0 {
			return false, err
		}
		if waiting[0].lacksImage() {
			hopeless = in.noImage(options, waiting[0])
			return true, nil
		}
		return false, waiting[0]
	})
	return errors.Join(err, hopeless)
}

// waitingPod is a pod of the daemon whose container waits for more than its turn.
type waitingPod struct {
	corev1.Pod
	reason, message string
}

// Error implements error.
func (p waitingPod) Error() string {
	return fmt.Sprintf("pod %s: %s: %s", p.Name, p.reason, p.message)
}

func (p waitingPod) lacksImage() bool { return strings.Contains(p.reason, "Image") }

func (in *installation) waitingPods(ctx context.Context) ([]waitingPod, error) {
	var pods corev1.PodList
	if err := in.client.List(ctx, &pods, client.InNamespace(Namespace), client.MatchingLabels{"app": daemon}); err != nil {
		return nil, err
	}
	begins := []string{"ContainerCreating", "PodInitializing"}
	var found []waitingPod
	for _, pod := range pods.Items {
		for _, container := range pod.Status.ContainerStatuses {
			if waiting := container.State.Waiting; waiting != nil && !slices.Contains(begins, waiting.Reason) && pod.DeletionTimestamp.IsZero() {
				found = append(found, waitingPod{Pod: pod, reason: waiting.Reason, message: waiting.Message})
			}
		}
	}
	return found, nil
}

// noImage says how the nodes of a cluster come by the daemon's image.
func (in *installation) noImage(options platform.UpOptions, trouble error) error {
	image, archive := cmp.Or(options.Image, Image), filepath.Join(in.release.Dir(), release.ImagesDir, imageArchive)
	if in.embedded() {
		return fmt.Errorf("the node cannot have the image %s (%w)", image, trouble)
	}
	return exit.With(exit.Failed, fmt.Sprintf("import it on every node, as in `ctr -n k8s.io images import %s` (k8shost: copy it into DATA-DIR/agent/images and restart), "+
		"or push it to a registry of yours and give --image", archive),
		fmt.Errorf("the cluster's nodes cannot have the image %s (%w)", image, trouble))
}
