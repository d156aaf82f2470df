package command

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/network/node"
	"plasmacloud.io/plasmacloud/internal/network/policy"
)

// newSources makes clients of the few resources that are needed. The usual
// clientset would register every Kubernetes type each time the program starts,
// and it starts for every pod, as the plugin.
func newSources(kubeconfig string) (node.Nodes, *policy.Sources, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme} {
		if err := register(scheme); err != nil {
			return nil, nil, fmt.Errorf("register types: %w", err)
		}
	}
	core, err := newClient(config, scheme, "/api", corev1.SchemeGroupVersion)
	if err != nil {
		return nil, nil, err
	}
	networking, err := newClient(config, scheme, "/apis", networkingv1.SchemeGroupVersion)
	if err != nil {
		return nil, nil, err
	}
	parameters := runtime.NewParameterCodec(scheme)
	return &resource[corev1.NodeList, *corev1.NodeList]{core, "nodes", parameters}, &policy.Sources{
		Pods:       &resource[corev1.PodList, *corev1.PodList]{core, "pods", parameters},
		Namespaces: &resource[corev1.NamespaceList, *corev1.NamespaceList]{core, "namespaces", parameters},
		Policies:   &resource[networkingv1.NetworkPolicyList, *networkingv1.NetworkPolicyList]{networking, "networkpolicies", parameters},
	}, nil
}

func newClient(base *rest.Config, scheme *runtime.Scheme, path string, version schema.GroupVersion) (rest.Interface, error) {
	config := rest.CopyConfig(base)
	config.APIPath = path
	config.GroupVersion = &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "prismnet"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// resource lists and watches one kind of objects, of all namespaces.
type resource[T any, L interface {
	*T
	runtime.Object
}] struct {
	client     rest.Interface
	name       string
	parameters runtime.ParameterCodec
}

func (r *resource[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	list := L(new(T))
	err := r.client.Get().Resource(r.name).VersionedParams(&opts, r.parameters).Do(ctx).Into(list)
	return list, err
}

func (r *resource[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return r.client.Get().Resource(r.name).VersionedParams(&opts, r.parameters).Watch(ctx)
}
