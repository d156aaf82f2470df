package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/deployer"
)

// LeaseDuration is how long a remote deployer may be silent before another one gets its operation. It is long, because one
// that is cut off for a moment still works in the cloud.
const LeaseDuration = 2 * time.Minute

// labelAccount is on the records of operations that remote deployers do: whose they are.
const labelAccount = "plasmacloud.io/deployer-account"

// lease is a remote deployer's claim to an attempt. The attempt's number is its fencing token: it grows with every lease.
type lease struct {
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

func accountID(account deployer.Account) string { return id(account.Namespace + "/" + account.Name) }

// labels of a record.
func (r *record) labels() map[string]string {
	labels := map[string]string{LabelStack: id(r.Request.Stack)}
	if r.Request.Remote {
		labels[labelAccount] = accountID(r.Request.Account)
	}
	return labels
}

// remote is the remote deployer that does an operation.
func (d *Deployments) remote(r *record) worker {
	if r.Lease == nil {
		return worker{alive: true, waits: fmt.Sprintf("waits for a deployer of account %s to come for it", r.Request.Account.Name)}
	}
	// While nobody could be heard, nobody was silent.
	until := r.Lease.Until
	if heard := d.since.Add(LeaseDuration); heard.After(until) {
		until = heard
	}
	return worker{begun: true, alive: d.Now().Before(until), waits: "is with deployer " + r.Lease.Holder}
}

// offer lets remote deployers come for an operation, once the lock of an earlier one was taken away.
func (d *Deployments) offer(ctx context.Context, r *record) error {
	if err := d.Unlock(ctx, r.Request.Stack); err != nil {
		return err
	}
	r.Offered = true
	return d.save(ctx, r)
}

// Lease gives operations of an account that wait for a remote deployer to one, up to a number of them. No two get the same.
func (d *Deployments) Lease(ctx context.Context, account deployer.Account, holder string, most int) ([]deployer.Leased, error) {
	list, err := d.API.CoreV1().Secrets(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labelAccount + "=" + accountID(account)})
	if err != nil {
		return nil, fmt.Errorf("list deployments of account %s: %w", account.Name, err)
	}
	var leased []deployer.Leased
	var errs []error
	for i := range list.Items {
		if len(leased) == most {
			break
		}
		order, err := d.lease(ctx, &list.Items[i], account, holder)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err): // another one was faster
		case err != nil:
			errs = append(errs, err)
		case order != nil:
			leased = append(leased, *order)
		}
	}
	if len(leased) > 0 { // the rest another time: these are taken
		return leased, nil
	}
	return nil, errors.Join(errs...)
}

// lease gives one operation to a deployer; nil where it is not to be had.
func (d *Deployments) lease(ctx context.Context, secret *corev1.Secret, account deployer.Account, holder string) (*deployer.Leased, error) {
	r := &record{secret: secret}
	if err := json.Unmarshal(secret.Data[keyRecord], r); err != nil {
		return nil, fmt.Errorf("read deployment %s: %w", secret.Name, err)
	}
	if r.Request.Account != account || !r.Offered || r.Lease != nil || r.Report.Attempt != r.Attempt || r.Report.Finished() {
		return nil, nil
	}
	order, err := d.order(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Lease = &lease{Holder: holder, Until: d.Now().Add(LeaseDuration)}
	if err := d.save(ctx, r); err != nil {
		return nil, err
	}
	d.Log.InfoContext(ctx, "deployment leased", "stack", r.Request.Stack, "operation", r.Request.ID, "attempt", r.Attempt, "deployer", holder)
	return &deployer.Leased{Order: *order, Turn: r.turn()}, nil
}

// Renew says that the remote deployer of an attempt is alive. ErrCancelled: it is to come to an end.
func (d *Deployments) Renew(ctx context.Context, stack string, turn deployer.Turn) error {
	cancelled := false
	err := d.change(ctx, stack, turn, func(r *record) { cancelled = r.Cancelled })
	if err == nil && cancelled {
		return deployer.ErrCancelled
	}
	return err
}

// Owner is the account whose remote deployers may work on a stack. It is nobody's where the platform works on it itself.
func (d *Deployments) Owner(ctx context.Context, stack string) (deployer.Account, error) {
	r, err := d.load(ctx, stack)
	if err != nil || r == nil || !r.Request.Remote {
		return deployer.Account{}, err
	}
	return r.Request.Account, nil
}
