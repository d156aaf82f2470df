package account

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/furnish"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	machinessh "plasmacloud.io/plasmacloud/internal/machine/ssh"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Inventories tells who has the hosts of an account of provider SSH. The error is what is wrong with the account.
type Inventories interface {
	Occupancy(ctx context.Context, account types.NamespacedName) ([]machinessh.Occupancy, error)
}

// Nobody tells of a Secret that changes, or of a host: they are looked at now and then.
const (
	waitingInterval = 5 * time.Second
	hostsInterval   = time.Minute
)

// describeSSH tells whether machines can come from an inventory, and who has them.
func (r *Reconciler) describeSSH(ctx context.Context, account *v1alpha1.Account) (time.Duration, error) {
	s := &account.Status
	if err := r.permit(ctx, account); err != nil {
		return 0, err
	}
	occupied, err := r.SSH.Occupancy(ctx, client.ObjectKeyFromObject(account))
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // a permission takes a moment; a Secret is a person's to make
		err = fmt.Errorf("its credentials cannot be read: %w", err)
	}
	if err != nil {
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, false, v1alpha1.ReasonWaiting, err.Error())
		return waitingInterval, nil
	}
	s.Hosts = nil
	for _, o := range occupied {
		s.Hosts = append(s.Hosts, show(o))
	}
	s.Phase = v1alpha1.PhaseRunning
	status.Set(&s.Conditions, account, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	return hostsInterval, nil
}

func show(o machinessh.Occupancy) v1alpha1.SSHHostStatus {
	shown := v1alpha1.SSHHostStatus{
		Address: o.Host.Access.Address, Port: int32(o.Host.Access.Port),
		Cluster: o.Holder.Cluster, Machine: o.Holder.Name, Problem: o.Problem,
	}
	if fingerprint, err := remote.Fingerprint(o.HostKey); err == nil {
		shown.HostKey = fingerprint
	}
	return shown
}

// permit lets the daemon read the one Secret that the account names, and nothing else of the project.
func (r *Reconciler) permit(ctx context.Context, account *v1alpha1.Account) error {
	if account.Spec.Credentials == nil {
		return nil
	}
	meta := metav1.ObjectMeta{Namespace: account.Namespace, Name: "plasmacloud-account-" + account.Name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{account.Spec.Credentials.Name}, Verbs: []string{"get"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{r.Daemon},
	}
	objects := []client.Object{role, binding}
	for _, object := range objects {
		if err := controllerutil.SetControllerReference(account, object, r.Scheme()); err != nil {
			return err
		}
	}
	return furnish.Objects(ctx, r.Client, objects)
}
