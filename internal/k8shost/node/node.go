// Package node knows how the programs of a node that runs pods are started: containerd, kubelet, kube-proxy, the pod
// network, and the images that a node brings along. A file a program, each turning configuration and the host's facts
// into a component.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
	"plasmacloud.io/plasmacloud/internal/release"
)

// Node is a node that runs pods: what its programs have in common.
type Node struct {
	Config   *config.Node
	Dir      datadir.Dir
	Log      *slog.Logger
	Settings host.Settings
	Cgroups  host.Cgroup

	Release *release.Catalogue
	Version string // of Kubernetes

	ClusterCIDR   netip.Prefix
	ClusterDNS    string
	ClusterDomain string
}

// Credentials are the node's identities, as files.
type Credentials struct {
	CA string
	// Kubelet and Proxy are kubeconfigs.
	Kubelet string
	Proxy   string
	// Bootstrap is a kubeconfig that may ask for the kubelet's first certificate; empty where Kubelet is complete.
	Bootstrap string
	// ServingCert and ServingKey are the kubelet's own; empty where it asks the cluster for them.
	ServingCert, ServingKey string
}

func (n *Node) process(spec component.Spec) *component.Process {
	spec.LogDir, spec.RunDir = n.Dir.Logs(), n.Dir.Run()
	return component.NewProcess(n.Log, spec)
}

// answering returns a probe that wants a 200 from a health endpoint on loopback.
func answering(url string) func(context.Context) error {
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// binPath is the search path for the node's programs: the release's own before the host's.
func (n *Node) binPath() string {
	return "PATH=" + filepath.Join(n.Release.Dir(), "bin") + ":" + os.Getenv("PATH")
}
