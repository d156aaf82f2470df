package hosted

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

const (
	// lookAgain is how often every cluster is looked at without a reason: certificates grow old quietly.
	lookAgain = time.Hour
	// calm is how long to wait after a change: whoever makes one often makes several.
	calm = time.Second
)

// Keeper notices when somebody has removed or edited a part of a running control plane, or when its certificates are due,
// and asks for the cluster's repair: the annotation by which people ask for one, too. It mends nothing itself.
type Keeper struct {
	provisioner *Provisioner
	metadata    metadata.Interface
	log         *slog.Logger
	queue       workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// NewKeeper returns a keeper of the provisioner's clusters. One at a time runs.
func NewKeeper(p *Provisioner, client metadata.Interface, log *slog.Logger) *Keeper {
	return &Keeper{
		provisioner: p, metadata: client, log: log,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, time.Minute)),
	}
}

// watched are the kinds whose objects tell that they were changed. Secrets do not: who may list the Secrets of all
// namespaces holds all keys there are.
func watched() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		appsv1.SchemeGroupVersion.WithResource("deployments"),
		corev1.SchemeGroupVersion.WithResource("services"),
		networkingv1.SchemeGroupVersion.WithResource("networkpolicies"),
	}
}

// Run looks after the clusters until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.queue.ShutDown()
	factory := metadatainformer.NewFilteredSharedInformerFactory(k.metadata, lookAgain, metav1.NamespaceAll,
		func(options *metav1.ListOptions) {
			options.LabelSelector = base.LabelManagedBy + "=plasmacloud," + v1alpha1.LabelCluster + "," + v1alpha1.LabelProject
		})
	for _, resource := range watched() {
		_, err := factory.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: k.heard,
			UpdateFunc: func(before, after any) {
				if changed(before, after) {
					k.heard(after)
				}
			},
			DeleteFunc: k.heard,
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
	}
	factory.Start(ctx.Done())
	go func() {
		<-ctx.Done()
		k.queue.ShutDown()
	}()
	for k.next(ctx) {
	}
	factory.Shutdown()
	return nil
}

// changed is true of a new description, and of the look every hour; a Deployment tells of its pods more often than that.
func changed(before, after any) bool {
	was, ok := before.(*metav1.PartialObjectMetadata)
	is, alsoOK := after.(*metav1.PartialObjectMetadata)
	if !ok || !alsoOK {
		return true
	}
	return was.ResourceVersion == is.ResourceVersion || is.Generation == 0 || was.Generation != is.Generation
}

// heard marks the cluster that an object belongs to.
func (k *Keeper) heard(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	k.queue.AddAfter(types.NamespacedName{
		Namespace: v1alpha1.NamespacePrefix + meta.Labels[v1alpha1.LabelProject], Name: meta.Labels[v1alpha1.LabelCluster],
	}, calm)
}

// next looks at one cluster; it is false when there will be no more.
func (k *Keeper) next(ctx context.Context) bool {
	key, stop := k.queue.Get()
	if stop {
		return false
	}
	defer k.queue.Done(key)
	if err := k.look(ctx, key); err != nil {
		if ctx.Err() == nil {
			k.log.WarnContext(ctx, "cannot look at a control plane; it is tried again", "cluster", key, "error", err)
		}
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	return true
}

func (k *Keeper) look(ctx context.Context, key types.NamespacedName) error {
	clusters := k.provisioner.Dynamic.Resource(v1alpha1.GroupVersion.WithResource("clusters")).Namespace(key.Namespace)
	content, err := clusters.Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c := &v1alpha1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, c); err != nil {
		return err
	}
	if !settledCluster(c) {
		return nil // an operation is under way, or has failed: it puts things right, or people do
	}
	what, err := k.provisioner.Drift(ctx, c, k.log)
	if err != nil || what == "" {
		return err
	}
	k.log.WarnContext(ctx, "a control plane is not what it should be; asking for a repair", "cluster", key, "reason", what)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": c.ResourceVersion, // whatever was changed meanwhile is looked at anew
		"annotations":     map[string]string{v1alpha1.AnnotationRepair: k.request(what)},
	}})
	if err != nil {
		return err
	}
	_, err = clusters.Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return err
}

// request is a new text each time.
func (k *Keeper) request(reason string) string {
	return fmt.Sprintf("%s %s", k.provisioner.Clock.Now().UTC().Format(time.RFC3339Nano), strings.ReplaceAll(reason, "\n", " "))
}

// settledCluster tells whether a hosted cluster is done with all that it was asked for.
func settledCluster(c *v1alpha1.Cluster) bool {
	return c.Spec.Type == v1alpha1.ClusterHosted && c.DeletionTimestamp == nil && c.Status.Phase == v1alpha1.PhaseRunning &&
		c.Status.ObservedGeneration == c.Generation && c.Annotations[v1alpha1.AnnotationRepair] == c.Status.Repaired
}
