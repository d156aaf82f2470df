package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Clouds tells about accounts in clouds.
type Clouds interface {
	// Offers tells whether this installation makes anything at a provider.
	Offers(provider v1alpha1.Provider) bool
	// Complete tells what is wrong with an account's credentials, as far as that is seen without asking anybody.
	Complete(ctx context.Context, account *v1alpha1.Account) error
	// Verify asks the cloud what it thinks of them. cloudapi.ErrRejected: nothing, or nothing any more.
	Verify(ctx context.Context, account *v1alpha1.Account) (cloudapi.Verdict, error)
}

// Nobody tells when credentials change, or are revoked: clouds are asked at an interval, and sooner where they said no.
const (
	credentialsInterval = 5 * time.Minute
	rejectedInterval    = 30 * time.Second
)

// describeCloud tells whether an account's credentials can be used.
func (r *Reconciler) describeCloud(ctx context.Context, account *v1alpha1.Account) (time.Duration, error) {
	s := &account.Status
	if err := r.permit(ctx, account); err != nil {
		return 0, err
	}
	err := r.Clouds.Complete(ctx, account)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // a permission takes a moment; a Secret is a person's to make
		err = fmt.Errorf("its credentials cannot be read: %w", err)
	}
	if err != nil {
		s.Phase, s.Access = v1alpha1.PhasePending, nil
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionVerified)
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, false, v1alpha1.ReasonWaiting, err.Error())
		return waitingInterval, nil
	}
	if left := r.fresh(account); left > 0 {
		return left, nil
	}
	verdict, err := r.Clouds.Verify(ctx, account)
	r.judge(account, verdict, err)
	return r.fresh(account), nil
}

// fresh is for how long what the cloud said is believed; nothing where it is to be asked.
func (r *Reconciler) fresh(account *v1alpha1.Account) time.Duration {
	access := account.Status.Access
	verified := meta.FindStatusCondition(account.Status.Conditions, v1alpha1.ConditionVerified)
	if access == nil || verified == nil || verified.ObservedGeneration != account.Generation || access.Request != account.Annotations[v1alpha1.AnnotationVerify] {
		return 0
	}
	interval := rejectedInterval
	if verified.Status == metav1.ConditionTrue {
		interval = credentialsInterval
	}
	return access.CheckedAt.Add(interval).Sub(r.now())
}

func (r *Reconciler) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// judge tells what the cloud said, and whether the account can be used. One whose cloud does not answer can: its deployers may
// reach it, and what they meet is told by their tasks. So can one that lacks something by a simulation only.
func (r *Reconciler) judge(account *v1alpha1.Account, verdict cloudapi.Verdict, err error) {
	s := &account.Status
	s.Access = &v1alpha1.AccountAccess{
		Identity: verdict.Identity, Missing: verdict.Missing, CheckedAt: metav1.NewTime(r.now()), Request: account.Annotations[v1alpha1.AnnotationVerify],
	}
	reason, message, usable := v1alpha1.ReasonVerified, "", true
	switch {
	case errors.Is(err, cloudapi.ErrRejected):
		reason, usable = v1alpha1.ReasonRevoked, false
		message = fmt.Sprintf("%v; give it others with `cloud account set-credentials %s`, or delete what is there from the record alone with --forget", err, account.Name)
	case err != nil:
		reason, message = v1alpha1.ReasonUnknown, "its cloud could not be asked: "+err.Error()
	case len(verdict.Missing) > 0:
		reason, usable = v1alpha1.ReasonPermissionsMissing, verdict.Simulated
		message = "it lacks the permissions " + strings.Join(verdict.Missing, ", ")
		if verdict.Simulated {
			message += ", by a simulation that does not know policies for some resources only"
		}
	case verdict.Unknown != "":
		reason, message = v1alpha1.ReasonUnknown, verdict.Unknown
	}
	status.Set(&s.Conditions, account, v1alpha1.ConditionVerified, reason == v1alpha1.ReasonVerified, reason, message)
	if usable {
		s.Phase = v1alpha1.PhaseRunning
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
		return
	}
	s.Phase = v1alpha1.PhasePending
	status.Set(&s.Conditions, account, v1alpha1.ConditionReady, false, reason, message)
}
