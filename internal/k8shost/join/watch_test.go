package join

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

type recordedLists chan []string

func (r recordedLists) SetServers(addresses []string) error {
	r <- addresses
	return errors.New("logged and survived")
}

func endpointSlice(name string, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Ports:      []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: &port}, {Name: ptr.To("metrics"), Port: ptr.To[int32](9)}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	return slice
}

func TestWatchServersFollowsTheEndpoints(t *testing.T) {
	client := fake.NewClientset(endpointSlice("kubernetes", 6443, "192.0.2.2", "192.0.2.1"))
	ctx, cancel := context.WithCancel(t.Context())
	lists, done := make(recordedLists, 10), make(chan error, 1)
	go func() { done <- WatchServers(ctx, client, lists, slog.New(slog.DiscardHandler)) }()
	expect := func(want ...string) {
		t.Helper()
		if got := <-lists; !slices.Equal(got, want) {
			t.Errorf("servers are %v, want %v", got, want)
		}
	}
	api := client.DiscoveryV1().EndpointSlices("default")
	expect("192.0.2.1:6443", "192.0.2.2:6443")

	_, err := api.Create(ctx, endpointSlice("kubernetes-v6", 6443, "2001:db8::1"), metav1.CreateOptions{})
	check(t, err)
	expect("192.0.2.1:6443", "192.0.2.2:6443", "[2001:db8::1]:6443")

	changed := endpointSlice("kubernetes", 6443, "192.0.2.1", "192.0.2.3")
	changed.Endpoints[0].Conditions.Ready = ptr.To(false)
	_, err = api.Update(ctx, changed, metav1.UpdateOptions{})
	check(t, err)
	expect("192.0.2.3:6443", "[2001:db8::1]:6443")

	check(t, api.Delete(ctx, "kubernetes", metav1.DeleteOptions{}))
	expect("[2001:db8::1]:6443")
	// No servers at all is nothing to act upon.
	check(t, api.Delete(ctx, "kubernetes-v6", metav1.DeleteOptions{}))
	_, err = api.Create(ctx, endpointSlice("kubernetes", 16443, "192.0.2.9"), metav1.CreateOptions{})
	check(t, err)
	expect("192.0.2.9:16443")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchServersFeedsALoadBalancer(t *testing.T) {
	c := newCluster(t, now())
	a := newBackend(t, c, "a")
	lb := startBalancer(t, c, serverFileIn(t), "192.0.2.1:6443")
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- WatchServers(ctx, client, lb, slog.New(slog.DiscardHandler)) }()
	host, port := splitAddress(t, a.address)
	_, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, endpointSlice("kubernetes", port, host), metav1.CreateOptions{})
	check(t, err)
	eventually(t, "the load balancer knows a", func() bool { return lb.Status()[0].Address == a.address })
	if got := lb.mustConnect(); got.server != "a" {
		t.Errorf("connected to %s", got.server)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func splitAddress(t *testing.T, address string) (string, int32) {
	t.Helper()
	parsed, err := netip.ParseAddrPort(address)
	check(t, err)
	return parsed.Addr().String(), int32(parsed.Port())
}
