package cloudd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// site looks at the management cluster: where its nodes are, and which addresses are its own.
func (h *hostedClusters) site(ctx context.Context) (base.Site, error) {
	nodes, err := h.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return base.Site{}, fmt.Errorf("list the management cluster's nodes: %w", err)
	}
	services, err := h.api.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return base.Site{}, fmt.Errorf("list the management cluster's ranges of services: %w", err)
	}
	var site base.Site
	for _, each := range services.Items {
		if site.ServiceCIDRs, err = appendPrefixes(site.ServiceCIDRs, each.Spec.CIDRs); err != nil {
			return base.Site{}, err
		}
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if site.PodCIDRs, err = appendPrefixes(site.PodCIDRs, node.Spec.PodCIDRs); err != nil {
			return base.Site{}, err
		}
		if address, err := netip.ParseAddr(internalAddress(node)); err == nil {
			site.NodeAddresses = append(site.NodeAddresses, address)
		}
	}
	if h.config.PodCIDRs != nil { // nodes that come later have ranges, too
		if site.PodCIDRs, err = appendPrefixes(nil, h.config.PodCIDRs); err != nil {
			return base.Site{}, err
		}
	}
	if h.config.EndpointAddress != "" {
		site.Address, err = netip.ParseAddr(h.config.EndpointAddress)
		return site, err
	}
	if len(site.NodeAddresses) == 0 {
		return base.Site{}, errors.New("no node of the management cluster has an address; give --endpoint-address")
	}
	site.Address = site.NodeAddresses[0]
	return site, nil
}

func appendPrefixes(prefixes []netip.Prefix, texts []string) ([]netip.Prefix, error) {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read range of addresses: %w", err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

func internalAddress(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}
