package datastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Config says where an etcd runs and what it may use.
type Config struct {
	API     kubernetes.Interface
	Dynamic dynamic.Interface
	// Namespace is where it runs: the platform's own, or a cluster's.
	Namespace string
	// Platform is the platform's own namespace, from where it is maintained; Namespace where it is empty.
	Platform string
	// Image of etcd.
	Image string
	// ToolImage has a shell, to remove the data of a dedicated etcd from hosts; it is left there where none is given.
	ToolImage string
	// Replicas is how many members there are: an odd number. Where it is 0, three if there are as many nodes, otherwise one.
	Replicas int
	// Labels are put on the StatefulSet, its pods and its Service.
	Labels  map[string]string
	Storage Storage
	Size    Size
	// Dial replaces the way to an address, for who is not on the cluster's network.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Clock  clock.Clock
	Logger *slog.Logger
	// Registry gets the metrics of those etcds that Run looks after; there are none where it is nil.
	Registry prometheus.Registerer
	// Alarmed is told when an etcd is out of space, and when it has room again.
	Alarmed func(ctx context.Context, namespace string, full bool)
}

// Storage is where the data are.
type Storage struct {
	// Class is the StorageClass of the volumes; the cluster's default where it is empty.
	Class string
	// Directory is where, where there is no StorageClass, hosts keep the data: below it, in a directory for each member.
	Directory string
}

// Size is what a member may use.
type Size struct {
	CPU         resource.Quantity // requested
	Memory      resource.Quantity // requested
	MemoryLimit resource.Quantity
	// Quota is how large the database may grow, before etcd takes nothing more; Volume is the size of its volume.
	Quota, Volume resource.Quantity
}

// SharedSize is for an etcd of many clusters.
func SharedSize() Size {
	return Size{CPU: resource.MustParse("100m"), Memory: resource.MustParse("256Mi"), MemoryLimit: resource.MustParse("4Gi"),
		Quota: resource.MustParse("6Gi"), Volume: resource.MustParse("16Gi")}
}

// DedicatedSize is for an etcd of one cluster.
func DedicatedSize() Size {
	return Size{CPU: resource.MustParse("50m"), Memory: resource.MustParse("96Mi"), MemoryLimit: resource.MustParse("2Gi"),
		Quota: resource.MustParse("4Gi"), Volume: resource.MustParse("10Gi")}
}

// Validate tells what is missing.
func (c Config) Validate() error {
	var problems []error
	if c.API == nil || c.Dynamic == nil || c.Clock == nil || c.Logger == nil {
		problems = append(problems, errors.New("a client, the clock or the logger is missing"))
	}
	if c.Namespace == "" || c.Image == "" {
		problems = append(problems, errors.New("the namespace or the image is missing"))
	}
	if c.Replicas != 0 && (c.Replicas < 1 || c.Replicas%2 == 0) {
		problems = append(problems, fmt.Errorf("an etcd cannot have %d members: use 1, 3 or 5", c.Replicas))
	}
	if c.Storage.Directory != "" && (!filepath.IsAbs(c.Storage.Directory) || filepath.Clean(c.Storage.Directory) == "/") {
		problems = append(problems, fmt.Errorf("the directory for data %q is no absolute path", c.Storage.Directory))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("configure datastore: %w", err)
	}
	return nil
}

func (c Config) platform() string {
	if c.Platform == "" {
		return c.Namespace
	}
	return c.Platform
}
