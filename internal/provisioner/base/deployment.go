package base

import (
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// ProbeTimeout is how long an API may take to say that it is ready.
const ProbeTimeout = 2 * time.Second

// ApplyDeployment makes the Deployment exactly what is wanted: unlike server-side apply, it removes what somebody else
// has added. An update that changes nothing is none.
func (b *Build) ApplyDeployment(ctx context.Context, wanted *appsv1.Deployment) error {
	deployments := b.Client.AppsV1().Deployments(b.Home)
	return retry.OnError(retry.DefaultRetry, Raced, func() error {
		have, err := deployments.Get(ctx, wanted.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = deployments.Create(ctx, wanted, metav1.CreateOptions{FieldManager: b.Manager})
			return err
		}
		if err != nil {
			return fmt.Errorf("read deployment %s: %w", wanted.Name, err)
		}
		have.Spec, have.Labels = wanted.Spec, wanted.Labels
		_, err = deployments.Update(ctx, have, metav1.UpdateOptions{FieldManager: b.Manager})
		return err
	})
}

// Ready asks an API whether it is.
func Ready(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
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
