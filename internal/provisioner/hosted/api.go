package hosted

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/provisioner"
)

const (
	// probeInterval is how often the API is asked whether it is there: there is nothing to watch for that.
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 2 * time.Second
	// lookInterval is how often, at most, pods are looked at for what they do meanwhile.
	lookInterval = 500 * time.Millisecond
	// tolerance is for how long pods may show trouble before the step fails for it. Most of it goes away by itself: a
	// controller that is there before its API server is, is started again.
	tolerance = 10 * time.Second
)

// awaitAPI waits until the API answers and, where the control plane is replaced, all of it is new.
func (b *build) awaitAPI(ctx context.Context) error {
	e, err := b.endpoint(ctx)
	if err != nil {
		return err
	}
	connection, err := b.connect(ctx, e)
	if err != nil {
		return err
	}
	client, err := connection.httpClient(probeTimeout)
	if err != nil {
		return err
	}
	started := b.Clock.Now()
	rolled := b.cluster.Status.ObservedGeneration == 0 // of a new control plane, that it answers is enough
	var looked time.Time
	doing := "the control plane's pod is being made"
	check := func(ctx context.Context) (bool, string, error) {
		if rolled && ready(ctx, client, e.internal()) == nil {
			return true, "", nil
		}
		if b.Clock.Since(looked) < lookInterval {
			return false, doing, nil
		}
		looked = b.Clock.Now()
		if !rolled {
			if rolled, err = b.rolledOut(ctx); err != nil {
				return false, "", err
			}
		}
		doing, err = b.look(ctx, b.Clock.Since(started) > tolerance)
		return false, doing, err
	}
	if err := b.await(ctx, probeInterval, []watcher{b.watchPods, b.watchControlPlane}, check); err != nil {
		return err
	}
	offered, err := b.Catalogue()
	if err != nil {
		return err
	}
	version, err := b.version(offered)
	if err != nil {
		return err
	}
	if err := b.publishJoin(ctx, e, offered, version); err != nil {
		return err
	}
	b.scope.SetOutput(provisioner.OutputVersion, version)
	return nil
}

// rolledOut tells whether all of the control plane runs what it describes.
func (b *build) rolledOut(ctx context.Context) (bool, error) {
	deployment, err := b.Client.AppsV1().Deployments(b.namespace).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read the control plane: %w", err)
	}
	done, _ := complete(deployment)
	return done, nil
}

// ready asks the API whether it is.
func ready(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
