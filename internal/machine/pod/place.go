package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// placePatience is how long the scheduler may take to decide; it takes milliseconds. One that takes longer is not
// waited for, and what it decides shows in the machine's state.
const placePatience = 2 * time.Second

// awaitPlace returns the pod once a host has it. Where none has room for it, the pod is removed again: it would wait for
// room that others are meant to get, and the caller tries again anyway.
func (d *Driver) awaitPlace(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	if decided(pod) {
		return d.placed(ctx, pod)
	}
	waitCtx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()
	pods := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = only
		return d.client.CoreV1().Pods(pod.Namespace).Watch(ctx, options)
	}}
	_, err := watchtools.Until(waitCtx, pod.ResourceVersion, pods, func(event watch.Event) (bool, error) {
		now, ok := event.Object.(*corev1.Pod)
		switch {
		case !ok || now.Name != pod.Name:
			return false, nil
		case now.UID != pod.UID || event.Type == watch.Deleted:
			return true, nil
		}
		pod = now
		return decided(pod), nil
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && waitCtx.Err() == nil && !errors.Is(err, watchtools.ErrWatchClosed) {
		return nil, fmt.Errorf("wait for a host: %w", err)
	}
	return d.placed(ctx, pod)
}

func decided(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" || unplaced(pod) != "" }

// placed returns a pod that has found its host, or may yet.
func (d *Driver) placed(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	why := unplaced(pod)
	if pod.Spec.NodeName != "" || why == "" {
		return pod, nil
	}
	key := keyOf(pod)
	if err := d.deletePod(ctx, pod); err != nil && !errors.Is(err, machine.ErrNotFound) {
		return nil, err
	}
	if err := d.deleteSecrets(ctx, key); err != nil {
		return nil, err
	}
	limits := pod.Spec.Containers[0].Resources.Limits
	return nil, fmt.Errorf("%w for %s CPUs and %s of memory: %s", machine.ErrNoCapacity, limits.Cpu(), limits.Memory(), why)
}

// quotaExceeded tells whether a quota of the namespace stands in the way.
func quotaExceeded(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "exceeded quota")
}
