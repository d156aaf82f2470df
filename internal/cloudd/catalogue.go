package cloudd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

// await returns when the catalogue has what is asked for. Until then it looks again whenever the catalogue changes, and
// logs what is missing.
func (o *offers) await(ctx context.Context, informers cache.Informers, log *slog.Logger, missing func() error) error {
	informer, err := informers.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return fmt.Errorf("watch the catalogue: %w", err)
	}
	changed := make(chan struct{}, 1)
	tell := func(object any) {
		if configMap, ok := object.(*corev1.ConfigMap); !ok || configMap.Name != catalogue.ConfigMapName {
			return
		}
		select {
		case changed <- struct{}{}:
		default: // it is told already
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, after any) { tell(after) },
	})
	if err != nil {
		return fmt.Errorf("watch the catalogue: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // the informer ends with the daemon
	var said string
	for {
		err := missing()
		if err == nil {
			return nil
		}
		if err.Error() != said {
			said = err.Error()
			log.WarnContext(ctx, "the catalogue lacks something; waiting until it changes", "error", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}
