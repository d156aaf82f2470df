package catalogue

import (
	"strings"
	"testing"
)

func TestAnImageThatIsMissingIsNamed(t *testing.T) {
	c := &Catalogue{Images: map[string]map[string]string{"v1.36.3": {"etcd": "registry.k8s.io/etcd:3.6.8-0"}}}
	if ref, err := c.Image("v1.36.3", "etcd"); err != nil || ref != "registry.k8s.io/etcd:3.6.8-0" {
		t.Errorf("got %q, %v", ref, err)
	}
	for version, name := range map[string]string{"v1.35.4": "etcd", "v1.36.3": "node"} {
		if _, err := c.Image(version, name); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), version) {
			t.Errorf("%s of %s: %v", name, version, err)
		}
	}
}
