package command

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/network/node"
)

// newNodes makes a client of the one resource that is needed. The usual
// clientset would register every Kubernetes type each time the program starts,
// and it starts for every pod, as the plugin.
func newNodes(kubeconfig string) (node.Nodes, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register node type: %w", err)
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "prismnet"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &nodes{client: client, parameters: runtime.NewParameterCodec(scheme)}, nil
}

// nodes implements node.Nodes.
type nodes struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
}

func (n *nodes) List(ctx context.Context, opts metav1.ListOptions) (*corev1.NodeList, error) {
	list := &corev1.NodeList{}
	err := n.client.Get().Resource("nodes").VersionedParams(&opts, n.parameters).Do(ctx).Into(list)
	return list, err
}

func (n *nodes) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return n.client.Get().Resource("nodes").VersionedParams(&opts, n.parameters).Watch(ctx)
}
