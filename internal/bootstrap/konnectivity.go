package bootstrap

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"sigs.k8s.io/yaml"
)

// The tunnel from a control plane to its nodes: an agent on every node dials the server beside the API server, and what
// the API server has to say to kubelets and webhooks goes through those connections.
const (
	KonnectivityAgentPort  = 8132 // where agents dial
	KonnectivityHealthPort = 8134

	// KonnectivityNamespace and KonnectivityAccount are whose tokens agents prove themselves with, and
	// KonnectivityAudience what the tokens are for.
	KonnectivityNamespace = metav1.NamespaceSystem
	KonnectivityAccount   = "konnectivity-agent"
	KonnectivityAudience  = "system:konnectivity-server"
)

// KonnectivityServer is what the control plane's end of the tunnel is told.
type KonnectivityServer struct {
	PKI Paths
	// Certificate is the name of the certificate that it serves agents with.
	Certificate string
	// Kubeconfig is the path of its credentials, to ask whose the agents' tokens are.
	Kubeconfig string
	// Socket is the path where the API server finds it.
	Socket string
	// Replicas of the control plane: an agent connects to each of them.
	Replicas int
}

// Args are the flags.
func (k KonnectivityServer) Args() []string {
	return []string{
		"v=1", // or it logs every packet
		"mode=grpc",
		"uds-name=" + k.Socket,
		"delete-existing-uds-file=true",
		"server-port=0",
		"agent-port=" + strconv.Itoa(KonnectivityAgentPort),
		"admin-bind-address=127.0.0.1",
		"health-port=" + strconv.Itoa(KonnectivityHealthPort),
		"cluster-cert=" + k.PKI.CertPath(k.Certificate),
		"cluster-key=" + k.PKI.KeyPath(k.Certificate),
		"agent-namespace=" + KonnectivityNamespace,
		"agent-service-account=" + KonnectivityAccount,
		"authentication-audience=" + KonnectivityAudience,
		"kubeconfig=" + k.Kubeconfig,
		"server-count=" + strconv.Itoa(k.Replicas),
		// The agent on the very node that is meant, where there is one; any other else.
		"proxy-strategies=destHost,default",
	}
}

// EgressSelector is the configuration that sends an API server's calls to nodes, pods and services through the tunnel
// at the given socket.
func EgressSelector(socket string) ([]byte, error) {
	direct := apiserverv1beta1.Connection{ProxyProtocol: apiserverv1beta1.ProtocolDirect}
	tunnel := apiserverv1beta1.Connection{
		ProxyProtocol: apiserverv1beta1.ProtocolGRPC,
		Transport:     &apiserverv1beta1.Transport{UDS: &apiserverv1beta1.UDSTransport{UDSName: socket}},
	}
	content, err := yaml.Marshal(apiserverv1beta1.EgressSelectorConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1beta1.SchemeGroupVersion.String(), Kind: "EgressSelectorConfiguration"},
		EgressSelections: []apiserverv1beta1.EgressSelection{
			{Name: "cluster", Connection: tunnel}, {Name: "controlplane", Connection: direct}, {Name: "etcd", Connection: direct},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("render egress selector: %w", err)
	}
	return content, nil
}
