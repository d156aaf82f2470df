package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// KubeadmAPIPort is where API servers of kubeadm's clusters listen on their own machines.
const KubeadmAPIPort = 6443

// KubeadmControlPlaneTaint keeps pods off control-plane nodes.
var KubeadmControlPlaneTaint = corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}

// KubeadmCluster is what all nodes of a cluster that kubeadm makes have in common.
type KubeadmCluster struct {
	Name    string
	Version string
	// Endpoint is host:port where everybody reaches the API.
	Endpoint string
	// SANs are further names and addresses by which the API is called.
	SANs                         []string
	PodCIDR, ServiceCIDR, Domain string
}

// KubeadmNode is what one machine has of its own.
type KubeadmNode struct {
	Name, Address string
	// Socket of its container runtime.
	Socket string
	Labels map[string]string
	Taints []corev1.Taint
	// KubeletArgs are further flags of the kubelet, as key=value.
	KubeletArgs []string
}

// Validate tells what is missing.
func (c KubeadmCluster) Validate() error {
	if c.Name == "" || c.Version == "" || c.Domain == "" {
		return errors.New("configure kubeadm: the cluster's name, version and domain are needed")
	}
	if _, _, err := net.SplitHostPort(c.Endpoint); err != nil {
		return fmt.Errorf("configure kubeadm: endpoint %q: %w", c.Endpoint, err)
	}
	for what, cidr := range map[string]string{"pods": c.PodCIDR, "services": c.ServiceCIDR} {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return fmt.Errorf("configure kubeadm: range of %s: %w", what, err)
		}
	}
	return nil
}

// KubeadmInit is the configuration of `kubeadm init`, which holds secrets: a token that lives for a moment, because
// kubeadm would make one of its own that lives for a day, and the key that certificates are sealed with for further
// control-plane machines.
func KubeadmInit(cluster KubeadmCluster, node KubeadmNode, token, certificateKey string) ([]byte, error) {
	if err := errors.Join(cluster.Validate(), node.validate()); err != nil {
		return nil, err
	}
	registration, err := node.registration(true)
	if err != nil {
		return nil, err
	}
	return documents(
		kubeadmInit{
			TypeMeta:         kubeadmType("InitConfiguration"),
			BootstrapTokens:  []kubeadmToken{{Token: token, TTL: metav1.Duration{Duration: time.Minute}, Description: "removed at once: machines get their own"}},
			NodeRegistration: registration,
			LocalAPIEndpoint: kubeadmEndpoint{AdvertiseAddress: node.Address, BindPort: KubeadmAPIPort},
			CertificateKey:   certificateKey,
		},
		cluster.configuration(), kubeletConfiguration(), cluster.proxy())
}

// KubeadmJoin is the configuration of `kubeadm join`, which holds secrets. The file is a kubeconfig on the machine that
// knows the cluster and nobody's credentials. With a certificate key the machine joins the control plane.
func KubeadmJoin(node KubeadmNode, file, token, certificateKey string) ([]byte, error) {
	if err := node.validate(); err != nil {
		return nil, err
	}
	if file == "" || token == "" {
		return nil, fmt.Errorf("configure kubeadm on %s: the file that tells the cluster, and a token, are needed", node.Name)
	}
	registration, err := node.registration(certificateKey != "")
	if err != nil {
		return nil, err
	}
	join := kubeadmJoin{
		TypeMeta: kubeadmType("JoinConfiguration"), NodeRegistration: registration,
		Discovery: kubeadmDiscovery{File: kubeadmFile{KubeConfigPath: file}, TLSBootstrapToken: token},
	}
	if certificateKey != "" {
		join.ControlPlane = &kubeadmControlPlane{
			LocalAPIEndpoint: kubeadmEndpoint{AdvertiseAddress: node.Address, BindPort: KubeadmAPIPort}, CertificateKey: certificateKey,
		}
	}
	return documents(join)
}

func (n KubeadmNode) validate() error {
	if n.Name == "" || n.Socket == "" {
		return fmt.Errorf("configure kubeadm on node %q: its name and its runtime's socket are needed", n.Name)
	}
	if _, err := netip.ParseAddr(n.Address); err != nil {
		return fmt.Errorf("configure kubeadm on node %s: its address: %w", n.Name, err)
	}
	return nil
}

// registration is how the machine becomes a node. What kubeadm would look at beforehand was looked at already, in a way
// that can be repeated; kubeadm takes what it has made itself for a problem.
func (n KubeadmNode) registration(controlPlane bool) (kubeadmRegistration, error) {
	args := []kubeadmArg{{"node-ip", n.Address}}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		labels = append(labels, key+"="+n.Labels[key])
	}
	if len(labels) > 0 {
		args = append(args, kubeadmArg{"node-labels", strings.Join(labels, ",")})
	}
	for _, arg := range n.KubeletArgs {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return kubeadmRegistration{}, fmt.Errorf("configure kubeadm on node %s: %q is not key=value", n.Name, arg)
		}
		args = append(args, kubeadmArg{name, value})
	}
	taints := slices.Clone(n.Taints)
	if controlPlane && !slices.Contains(taints, KubeadmControlPlaneTaint) {
		taints = append(taints, KubeadmControlPlaneTaint)
	}
	if taints == nil {
		taints = []corev1.Taint{}
	}
	return kubeadmRegistration{
		Name: n.Name, CRISocket: "unix://" + n.Socket, Taints: taints, KubeletExtraArgs: args,
		IgnorePreflightErrors: []string{"all"}, ImagePullPolicy: corev1.PullIfNotPresent,
	}, nil
}

func (c KubeadmCluster) configuration() kubeadmCluster {
	// At the default of 20 a second, the controllers' own accounts alone take five seconds to make.
	haste := []kubeadmArg{{"kube-api-qps", "100"}, {"kube-api-burst", "200"}, {"profiling", "false"}}
	return kubeadmCluster{
		TypeMeta: kubeadmType("ClusterConfiguration"), ClusterName: c.Name, KubernetesVersion: c.Version, ControlPlaneEndpoint: c.Endpoint,
		Networking:        kubeadmNetworking{PodSubnet: c.PodCIDR, ServiceSubnet: c.ServiceCIDR, DNSDomain: c.Domain},
		APIServer:         kubeadmAPIServer{CertSANs: slices.Clone(c.SANs), ExtraArgs: []kubeadmArg{{"profiling", "false"}}},
		ControllerManager: kubeadmComponent{ExtraArgs: haste},
		Scheduler:         kubeadmComponent{ExtraArgs: haste},
		// Keys of this kind are made at once, those of the default kind in seconds.
		EncryptionAlgorithm: "ECDSA-P256",
	}
}

// kubeletConfiguration is that of all of a cluster's kubelets; the rest is kubeadm's to say. The cgroup driver is not
// in it: a kubelet takes it from its container runtime, which knows what the machine needs.
func kubeletConfiguration() *kubeletconfig.KubeletConfiguration {
	no, high, low := false, int32(90), int32(85)
	return &kubeletconfig.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		// A machine that is a pod sees its host's cgroups and swap, and cannot change them.
		FailCgroupV1: &no,
		FailSwapOn:   &no,
		// Nothing here uses iptables; the kubelet need not leave chains behind.
		MakeIPTablesUtilChains: &no,
		SerializeImagePulls:    &no,
		RotateCertificates:     true,
		// The defaults keep 15 % of the image file system free, which is much of a large disk.
		EvictionHard: map[string]string{
			"memory.available": "100Mi", "nodefs.available": "5%", "nodefs.inodesFree": "5%", "imagefs.available": "5%",
		},
		ImageGCHighThresholdPercent: &high,
		ImageGCLowThresholdPercent:  &low,
		NodeStatusUpdateFrequency:   metav1.Duration{Duration: 10 * time.Second},
	}
}

// proxy is the configuration of kube-proxy on all nodes. Zeros leave the limits of connection tracking alone: in a
// network namespace of its own a machine may not change them, and kube-proxy ends when it cannot.
func (c KubeadmCluster) proxy() kubeProxyConfiguration {
	return kubeProxyConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubeproxy.config.k8s.io/v1alpha1", Kind: "KubeProxyConfiguration"},
		Mode:     "nftables", ClusterCIDR: c.PodCIDR,
		Conntrack: kubeProxyConntrack{},
	}
}

func documents(parts ...any) ([]byte, error) {
	var out bytes.Buffer
	for i, part := range parts {
		content, err := yaml.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("configure kubeadm: %w", err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(content)
	}
	return out.Bytes(), nil
}
