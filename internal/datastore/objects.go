package datastore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/apply"
)

//go:embed manifests/datastore.yaml
var manifests embed.FS

const (
	manager = "plasmacloud-datastore" // under whose name fields are set

	initialClusterKey = "initial-cluster"
	initialStateKey   = "initial-cluster-state"

	defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"
)

// settings are what the manifest needs to know.
type settings struct {
	Namespace, Platform, Image, StorageClass string
	Shared, HostDirectory                    bool
	Replicas                                 int
	Labels                                   map[string]string
	Args                                     []string
	CPURequest, MemoryRequest, MemoryLimit   string
	StorageSize, GoMemoryLimit               string
}

// install brings everything that the etcd consists of to what it should be. What exists keeps its members and volumes.
func (s *server) install(ctx context.Context) error {
	authorities, err := s.ensureAuthorities(ctx)
	if err != nil {
		return err
	}
	if err := s.ensureCertificates(ctx, authorities); err != nil {
		return err
	}
	set, err := s.statefulSet(ctx)
	if err != nil {
		return err
	}
	var replicas int
	var class string
	if set != nil {
		replicas, class = replicasOf(set), classOf(set)
	} else {
		if replicas, err = s.wantedReplicas(ctx); err != nil {
			return err
		}
		if class, err = s.storageClass(ctx); err != nil {
			return err
		}
	}
	if err := s.ensureMembership(ctx, replicas); err != nil {
		return err
	}
	return s.applySet(ctx, authorities, replicas, class)
}

// applySet makes the volumes, where nobody else does, and the objects of the manifest.
func (s *server) applySet(ctx context.Context, a *authorities, replicas int, class string) error {
	if class == "" {
		if err := s.ensureVolumes(ctx, a, replicas); err != nil {
			return err
		}
	}
	size := s.config.Size
	goLimit := size.MemoryLimit.Value() / 10 * 9 // the collector works harder before the kernel ends it
	objects, err := apply.Render(manifests, "manifests/datastore.yaml", settings{
		Namespace: s.config.Namespace, Platform: s.config.platform(), Image: s.config.Image,
		StorageClass: class, HostDirectory: class == "", Shared: s.shared, Replicas: replicas,
		Labels: s.config.Labels, Args: s.args(),
		CPURequest: size.CPU.String(), MemoryRequest: size.Memory.String(), MemoryLimit: size.MemoryLimit.String(),
		StorageSize: size.Volume.String(), GoMemoryLimit: fmt.Sprint(goLimit),
	})
	if err != nil {
		return err
	}
	return apply.Objects(ctx, s.config.Dynamic, manager, objects...)
}

// statefulSet is nil where there is none.
func (s *server) statefulSet(ctx context.Context) (*appsv1.StatefulSet, error) {
	set, err := s.config.API.AppsV1().StatefulSets(s.config.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the datastore: %w", err)
	}
	return set, nil
}

func replicasOf(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

func classOf(set *appsv1.StatefulSet) string {
	for _, claim := range set.Spec.VolumeClaimTemplates {
		if claim.Spec.StorageClassName != nil {
			return *claim.Spec.StorageClassName
		}
	}
	return ""
}

// wantedReplicas is how many members there should be.
func (s *server) wantedReplicas(ctx context.Context) (int, error) {
	if s.config.Replicas != 0 {
		return s.config.Replicas, nil
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return 0, err
	}
	if len(nodes) >= 3 {
		return 3, nil
	}
	return 1, nil
}

// storageClass is the class that volumes get, or none where hosts keep the data.
func (s *server) storageClass(ctx context.Context) (string, error) {
	if s.config.Storage.Class != "" {
		return s.config.Storage.Class, nil
	}
	classes, err := s.config.API.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list storage classes: %w", err)
	}
	for _, class := range classes.Items {
		if class.Annotations[defaultClassAnnotation] == "true" {
			return class.Name, nil
		}
	}
	if s.config.Storage.Directory == "" {
		return "", errors.New("place the datastore's data: there is no default StorageClass, and no directory was given")
	}
	return "", nil
}

// ensureMembership says who the members of a new etcd are. What it says later is for those who join: see grow.
func (s *server) ensureMembership(ctx context.Context, replicas int) error {
	var initial []string
	for ordinal := range replicas {
		member := s.memberName(ordinal)
		initial = append(initial, member+"="+s.peerURL(member))
	}
	_, err := s.config.API.CoreV1().ConfigMaps(s.config.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()},
		Data:       map[string]string{initialClusterKey: strings.Join(initial, ","), initialStateKey: "new"},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("record the datastore's members: %w", err)
	}
	return nil
}
