package datastore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// labelNamespace is whose etcd a volume belongs to: volumes are in no namespace.
const labelNamespace = "plasmacloud.io/datastore-namespace"

// folder is where hosts keep the etcd's data, below the configured directory. The authority is part of it: an etcd that
// is made anew never meets the data of the one before.
func (s *server) folder(a *authorities) string {
	sum := sha256.Sum256(a.client.pem)
	return s.config.Namespace + "-" + hex.EncodeToString(sum[:4])
}

// ensureVolumes makes a volume on a host for each member that has none.
func (s *server) ensureVolumes(ctx context.Context, a *authorities, replicas int) error {
	volumes := s.config.API.CoreV1().PersistentVolumes()
	all, err := volumes.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{v1alpha1.LabelComponent: v1alpha1.ComponentDatastore}.String()})
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	used, have := map[string]int{}, map[string]bool{}
	for _, volume := range all.Items {
		have[volume.Name] = true
		weight := 1
		if volume.Labels[labelNamespace] == s.config.Namespace {
			weight = 1000 // members of one etcd avoid one another before they avoid others'
		}
		used[hostOf(&volume)] += weight
	}
	for ordinal := range replicas {
		member := s.memberName(ordinal)
		volume := s.folder(a) + "-" + member
		if have[volume] {
			continue
		}
		host, err := s.leastUsed(ctx, used)
		if err != nil {
			return err
		}
		if _, err := volumes.Create(ctx, s.volume(a, volume, member, host), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make volume %s: %w", volume, err)
		}
		used[host] += 1000
	}
	return nil
}

func (s *server) volume(a *authorities, volume, member, host string) *corev1.PersistentVolume {
	create := corev1.HostPathDirectoryOrCreate
	meta := metav1.ObjectMeta{Name: volume, Labels: s.labels()}
	meta.Labels[labelNamespace] = s.config.Namespace
	return &corev1.PersistentVolume{ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: s.config.Size.Volume},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: s.config.Namespace, Name: "data-" + member},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
			// A member that is made anew never meets the data of the one before, be it on the same host.
			Path: filepath.Join(s.config.Storage.Directory, s.folder(a), member+"-"+rand.String(5)), Type: &create,
		}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
		}}}},
	}}
}

// hostOf is the host that a volume of ours is on.
func hostOf(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return ""
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, expression := range term.MatchExpressions {
			if expression.Key == corev1.LabelHostname && len(expression.Values) == 1 {
				return expression.Values[0]
			}
		}
	}
	return ""
}

func (s *server) leastUsed(ctx context.Context, used map[string]int) (string, error) {
	hosts, err := s.nodes(ctx)
	if err != nil {
		return "", err
	}
	if len(hosts) == 0 {
		return "", fmt.Errorf("%w: there is no node for its data", ErrNotReady)
	}
	return slices.MinFunc(hosts, func(a, b string) int {
		return cmp.Or(cmp.Compare(used[a], used[b]), cmp.Compare(a, b))
	}), nil
}

// nodes are the host names of the nodes that a member can run on.
func (s *server) nodes(ctx context.Context) ([]string, error) {
	list, err := s.config.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var hosts []string
	for _, node := range list.Items {
		if usable(&node) {
			hosts = append(hosts, hostNameOf(&node))
		}
	}
	return hosts, nil
}

func hostNameOf(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelHostname], node.Name)
}

func usable(node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && taint.Key != "node-role.kubernetes.io/control-plane" {
			return false
		}
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ownVolumes are the volumes on hosts that were made for this etcd.
func (s *server) ownVolumes(ctx context.Context) ([]corev1.PersistentVolume, error) {
	list, err := s.config.API.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: labels.Set{
		v1alpha1.LabelComponent: v1alpha1.ComponentDatastore, labelNamespace: s.config.Namespace,
	}.String()})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	return list.Items, nil
}

func (s *server) removeOwnVolumes(ctx context.Context) error {
	volumes, err := s.ownVolumes(ctx)
	if err != nil {
		return err
	}
	return s.removeVolumes(ctx, volumes)
}

func (s *server) removeVolumes(ctx context.Context, volumes []corev1.PersistentVolume) error {
	for _, volume := range volumes {
		err := s.config.API.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove volume %s: %w", volume.Name, err)
		}
	}
	return nil
}
