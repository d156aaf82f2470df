package bootstrap

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The parts of kubeadm's configuration, kubeadm.k8s.io/v1beta4, and of kube-proxy's that are used here. Their own types
// are in the module k8s.io/kubernetes, which nothing but the distribution may depend on.

func kubeadmType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "kubeadm.k8s.io/v1beta4", Kind: kind}
}

type kubeadmInit struct {
	metav1.TypeMeta  `json:",inline"`
	BootstrapTokens  []kubeadmToken      `json:"bootstrapTokens"`
	NodeRegistration kubeadmRegistration `json:"nodeRegistration"`
	LocalAPIEndpoint kubeadmEndpoint     `json:"localAPIEndpoint"`
	CertificateKey   string              `json:"certificateKey,omitempty"`
}

type kubeadmToken struct {
	Token       string          `json:"token"`
	TTL         metav1.Duration `json:"ttl"`
	Description string          `json:"description,omitempty"`
}

type kubeadmJoin struct {
	metav1.TypeMeta  `json:",inline"`
	NodeRegistration kubeadmRegistration  `json:"nodeRegistration"`
	Discovery        kubeadmDiscovery     `json:"discovery"`
	ControlPlane     *kubeadmControlPlane `json:"controlPlane,omitempty"`
}

type kubeadmRegistration struct {
	Name                  string            `json:"name"`
	CRISocket             string            `json:"criSocket"`
	Taints                []corev1.Taint    `json:"taints"`
	KubeletExtraArgs      []kubeadmArg      `json:"kubeletExtraArgs,omitempty"`
	IgnorePreflightErrors []string          `json:"ignorePreflightErrors,omitempty"`
	ImagePullPolicy       corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

type kubeadmArg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type kubeadmEndpoint struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	BindPort         int    `json:"bindPort"`
}

type kubeadmDiscovery struct {
	File              kubeadmFile `json:"file"`
	TLSBootstrapToken string      `json:"tlsBootstrapToken"`
}

type kubeadmFile struct {
	KubeConfigPath string `json:"kubeConfigPath"`
}

type kubeadmControlPlane struct {
	LocalAPIEndpoint kubeadmEndpoint `json:"localAPIEndpoint"`
	CertificateKey   string          `json:"certificateKey"`
}

type kubeadmCluster struct {
	metav1.TypeMeta      `json:",inline"`
	ClusterName          string            `json:"clusterName"`
	KubernetesVersion    string            `json:"kubernetesVersion"`
	ControlPlaneEndpoint string            `json:"controlPlaneEndpoint"`
	Networking           kubeadmNetworking `json:"networking"`
	APIServer            kubeadmAPIServer  `json:"apiServer"`
	ControllerManager    kubeadmComponent  `json:"controllerManager"`
	Scheduler            kubeadmComponent  `json:"scheduler"`
	EncryptionAlgorithm  string            `json:"encryptionAlgorithm"`
}

type kubeadmNetworking struct {
	PodSubnet     string `json:"podSubnet"`
	ServiceSubnet string `json:"serviceSubnet"`
	DNSDomain     string `json:"dnsDomain"`
}

type kubeadmAPIServer struct {
	CertSANs  []string     `json:"certSANs,omitempty"`
	ExtraArgs []kubeadmArg `json:"extraArgs,omitempty"`
}

type kubeadmComponent struct {
	ExtraArgs []kubeadmArg `json:"extraArgs,omitempty"`
}

type kubeProxyConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Mode            string             `json:"mode"`
	ClusterCIDR     string             `json:"clusterCIDR"`
	Conntrack       kubeProxyConntrack `json:"conntrack"`
}

type kubeProxyConntrack struct {
	MaxPerCore            int32           `json:"maxPerCore"`
	Min                   int32           `json:"min"`
	TCPEstablishedTimeout metav1.Duration `json:"tcpEstablishedTimeout"`
	TCPCloseWaitTimeout   metav1.Duration `json:"tcpCloseWaitTimeout"`
}
