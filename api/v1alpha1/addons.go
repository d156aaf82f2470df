package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Addons are what a cluster brings along besides Kubernetes itself.
type Addons struct {
	// CertManager issues and renews certificates.
	// +optional
	CertManager OptionalAddon `json:"certManager,omitempty"`
	// Cilium is the pod network where it is asked for.
	// +optional
	Cilium Addon `json:"cilium,omitempty"`
	// GatewayAPI installs the kinds of the Gateway API.
	// +optional
	GatewayAPI Switch `json:"gatewayAPI,omitempty"`
	// IngressNginx is an ingress controller; it needs nodes with the role ingress-nginx.
	// +optional
	IngressNginx IngressNginx `json:"ingressNginx,omitempty"`
	// GPUOperator drives NVIDIA's GPUs.
	// +optional
	GPUOperator OptionalAddon `json:"gpuOperator,omitempty"`
	// FluxCD brings what is in Git into the cluster.
	// +optional
	FluxCD OptionalAddon `json:"fluxcd,omitempty"`
	// MonitoringAgents send metrics and logs to the platform.
	// +optional
	MonitoringAgents OptionalAddon `json:"monitoringAgents,omitempty"`
	// VerticalPodAutoscaler sizes pods.
	// +optional
	VerticalPodAutoscaler Addon `json:"verticalPodAutoscaler,omitempty"`
	// Velero backs up and restores.
	// +optional
	Velero OptionalAddon `json:"velero,omitempty"`
	// CoreDNS is the cluster's DNS.
	// +optional
	CoreDNS Addon `json:"coredns,omitempty"`
}

// Addon is one that is always there where it applies.
type Addon struct {
	// ValuesOverride are Helm values on top of the platform's own.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	ValuesOverride *apiextensionsv1.JSON `json:"valuesOverride,omitempty"`
}

// Switch is an add-on without values.
type Switch struct {
	// Enabled installs it.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// OptionalAddon is one that has to be asked for.
type OptionalAddon struct {
	Switch `json:",inline"`
	Addon  `json:",inline"`
}

// ExposeMethod is how an ingress controller is reached.
// +kubebuilder:validation:Enum=Proxied;LoadBalancer
type ExposeMethod string

// IngressNginx is an ingress controller.
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || size(self.hosts) == 0 || !has(self.exposeMethod) || self.exposeMethod == 'Proxied'",reason=FieldValueForbidden,fieldPath=".hosts",message="hosts are only for exposeMethod Proxied; remove them, or change exposeMethod"
type IngressNginx struct {
	OptionalAddon `json:",inline"`
	// ExposeMethod is Proxied, through the platform's ingress, or LoadBalancer.
	// +optional
	// +kubebuilder:default=Proxied
	ExposeMethod ExposeMethod `json:"exposeMethod,omitempty"`
	// Hosts that are routed to this cluster when it is Proxied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Hosts []string `json:"hosts,omitempty"`
}
