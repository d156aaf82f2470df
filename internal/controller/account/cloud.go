package account

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Clouds tells about accounts in clouds.
type Clouds interface {
	// Offers tells whether this installation makes anything at a provider.
	Offers(provider v1alpha1.Provider) bool
	// Verify tells what is wrong with an account's credentials.
	Verify(ctx context.Context, account *v1alpha1.Account) error
}

// credentialsInterval is how often credentials are looked at that were good: nobody tells when they change, or are revoked.
const credentialsInterval = 5 * time.Minute

// describeCloud tells whether an account's credentials can be used.
func (r *Reconciler) describeCloud(ctx context.Context, account *v1alpha1.Account) (time.Duration, error) {
	s := &account.Status
	if err := r.permit(ctx, account); err != nil {
		return 0, err
	}
	err := r.Clouds.Verify(ctx, account)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // a permission takes a moment; a Secret is a person's to make
		err = fmt.Errorf("its credentials cannot be read: %w", err)
	}
	if err != nil {
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, false, v1alpha1.ReasonWaiting, err.Error())
		return waitingInterval, nil
	}
	s.Phase = v1alpha1.PhaseRunning
	status.Set(&s.Conditions, account, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	return credentialsInterval, nil
}
