package cloudd

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/internal/catalogue"
)

// offers is what the installation offers, as its ConfigMap says. It is parsed once for each version of that: everybody
// gets the same catalogue, and leaves it as it is.
type offers struct {
	reader    client.Reader
	namespace string

	mutex   sync.Mutex
	version string
	parsed  *catalogue.Catalogue
}

func (o *offers) get() (*catalogue.Catalogue, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	configMap := &corev1.ConfigMap{}
	if err := o.reader.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: catalogue.ConfigMapName}, configMap); err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if version := string(configMap.UID) + "/" + configMap.ResourceVersion; o.parsed == nil || o.version != version {
		parsed, err := catalogue.Parse([]byte(configMap.Data[catalogue.ConfigMapKey]))
		if err != nil {
			return nil, err
		}
		o.parsed, o.version = parsed, version
	}
	return o.parsed, nil
}
