// Package bootstrap renders what Kubernetes' own programs are started with: the flags of a control plane's programs, the
// certificates and kubeconfigs they need, the tunnel's configuration, and what a machine needs to join. The same rendering
// serves k8shost's servers, hosted control planes, and clusters on machines.
//
// Everything here is pure: it computes from its arguments, and reads and writes nothing.
package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"

	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// The Secret in a cluster's own namespace on the management cluster by which its machines learn how to join.
const (
	JoinSecretName = "join"
	JoinSecretKey  = "join.json"
)

// Join is what all machines of a cluster have in common to join it. It holds no secret: a token makes it complete.
type Join struct {
	// Server is the URL of the API, as machines reach it.
	Server string `json:"server"`
	// CA is the cluster's authority in PEM, and CAHash its hash as tokens hold it.
	CA     []byte `json:"ca"`
	CAHash string `json:"caHash"`
	// KubernetesVersion that the control plane runs, in full, and NodeImage what machines of that version boot.
	KubernetesVersion string `json:"kubernetesVersion"`
	NodeImage         string `json:"nodeImage,omitempty"`
	// Konnectivity is host:port of the tunnel's end in the control plane.
	Konnectivity string `json:"konnectivity,omitempty"`
	// ClusterDomain, PodCIDR and CNI are the cluster's own network.
	ClusterDomain string `json:"clusterDomain"`
	PodCIDR       string `json:"podCIDR"`
	CNI           string `json:"cni"`
}

// NewJoin fills in the hash of the authority.
func NewJoin(j Join) (Join, error) {
	hash, err := token.HashCA(j.CA)
	if err != nil {
		return Join{}, fmt.Errorf("make join material: %w", err)
	}
	j.CAHash = hash
	return j, j.Validate()
}

// Validate tells what is missing.
func (j Join) Validate() error {
	server, err := url.Parse(j.Server)
	if err != nil || server.Scheme != "https" || server.Port() == "" {
		return fmt.Errorf("join material: %q is not the URL of an API server with its port", j.Server)
	}
	if len(j.CA) == 0 || j.CAHash == "" || j.KubernetesVersion == "" {
		return errors.New("join material: authority, its hash and the version are needed")
	}
	if j.Konnectivity != "" {
		if _, _, err := net.SplitHostPort(j.Konnectivity); err != nil {
			return fmt.Errorf("join material: konnectivity: %w", err)
		}
	}
	return nil
}

// Marshal is the join material as its Secret holds it.
func (j Join) Marshal() ([]byte, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(j)
}

// ParseJoin reads what Marshal wrote.
func ParseJoin(content []byte) (Join, error) {
	var j Join
	if err := json.Unmarshal(content, &j); err != nil {
		return Join{}, fmt.Errorf("read join material: %w", err)
	}
	return j, j.Validate()
}
