package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud/addons"
	"plasmacloud.io/plasmacloud/internal/task"
)

const token = "ya29.a-token"

// environment of every account.
func (w *world) environment(_ context.Context, cloud string, account deployer.Account) (map[string]string, error) {
	if account.Name != "prod" || account.Namespace != "project-shop" {
		return nil, fmt.Errorf("there is no account %v in %s", account, cloud)
	}
	return map[string]string{
		"GOOGLE_OAUTH_ACCESS_TOKEN": token, "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "secret", addons.RepositoryVariable: "oci://charts",
	}, nil
}

// Install is an Installer that has everything but Karpenter.
func (w *world) Install(_ context.Context, config *rest.Config, set addons.Set, repository string) (addons.Outcome, error) {
	if config.BearerToken == "" || config.Host != "https://eks" || repository != "oci://charts" || string(config.CAData) != "CA" {
		return addons.Outcome{}, errors.New("this is not the way there")
	}
	var outcome addons.Outcome
	for _, chart := range set.Charts {
		outcome.Missing = append(outcome.Missing, chart.Name+": no chart")
	}
	for _, object := range set.Objects {
		outcome.Installed = append(outcome.Installed, object.GetName())
	}
	return outcome, nil
}

// Vacate is an Installer's that tells one thing after the other.
func (w *world) Vacate(context.Context, *rest.Config) (found addons.Belongings, err error) {
	if len(w.belongings) == 0 {
		return found, errors.New("no route to host")
	}
	found, w.belongings = w.belongings[0], w.belongings[1:]
	return found, nil
}

// leave runs the step of a deletion that has a cluster take along what it has, for as long as it waits.
func (w *world) leave(c *v1alpha1.Cluster, since time.Duration) (waits []string, remains string, err error) {
	w.t.Helper()
	steps, err := w.Steps(v1alpha1.OperationDelete, c)
	if err != nil || steps[0].Name != vacate {
		w.t.Fatalf("%v, %v", steps, err)
	}
	began := v1alpha1.StepStatus{Name: vacate, StartedAt: ptr.To(metav1.NewTime(time.Now().Add(-since)))}
	scope := &task.Scope{Object: c, Log: slog.New(slog.DiscardHandler), Task: &v1alpha1.Task{Status: v1alpha1.TaskStatus{Steps: []v1alpha1.StepStatus{began}}}}
	for {
		err = steps[0].Run(w.t.Context(), scope)
		if err == nil || !strings.HasPrefix(err.Error(), "waits for") {
			return waits, scope.Outputs()[provisioner.OutputRemains], err
		}
		waits = append(waits, err.Error())
	}
}

func TestAClusterTakesAlongWhatItHasInTheCloud(t *testing.T) {
	w, c := inAmazon(t)
	w.belongings = []addons.Belongings{{Going: []string{"Service shop/front"}}, {Disks: []string{"disk vol-1"}}}
	if waits, remains, err := w.leave(c, time.Minute); err != nil || len(waits) != 1 || waits[0] != "waits for the end of Service shop/front" || remains != "disk vol-1" {
		t.Errorf("%v, %q, %v", waits, remains, err)
	}
	// What does not come to an end is listed.
	w.belongings = []addons.Belongings{{Going: []string{"Service shop/front"}}}
	if waits, remains, err := w.leave(c, time.Hour); err != nil || len(waits) > 0 || remains != "Service shop/front" {
		t.Errorf("%v, %q, %v", waits, remains, err)
	}
	// A cluster that does not answer is removed all the same.
	if waits, remains, err := w.leave(c, 0); err != nil || len(waits) > 0 || remains != "" {
		t.Errorf("%v, %q, %v", waits, remains, err)
	}
	// One that was never made is not asked.
	w.states.outputs, w.belongings = "{}", []addons.Belongings{{Disks: []string{"whose?"}}}
	if waits, remains, err := w.leave(c, 0); err != nil || len(waits) > 0 || remains != "" {
		t.Errorf("%v, %q, %v", waits, remains, err)
	}
}

func TestAccessIsMadeFromTheAccount(t *testing.T) {
	ca := base64.StdEncoding.EncodeToString([]byte("CA"))
	for _, c := range []struct{ outputs, endpoint, ca string }{
		{`{"endpoint": "https://gke", "certificate_authority": "` + ca + `"}`, "https://gke", "CA"},
		{`{"endpoint": "https://gke", "dns_endpoint": "https://gke-1.gke.goog", "certificate_authority": "` + ca + `"}`, "https://gke-1.gke.goog", ""},
	} {
		w := newWorld(t)
		w.states.outputs = c.outputs
		access, err := w.Access(t.Context(), cluster())
		if err != nil || access.Endpoint != c.endpoint || string(access.CA) != c.ca || access.Token.Value != token {
			t.Errorf("%+v, %v", access, err)
		}
	}
	w := newWorld(t)
	w.states.outputs = "{}"
	if _, err := w.Access(t.Context(), cluster()); err == nil || !strings.Contains(err.Error(), "is not there yet") {
		t.Errorf("a cluster that was not made: %v", err)
	}
}

// inAmazon is a world where the account is one of AWS, and a cluster of EKS that was made there.
func inAmazon(t *testing.T, reports ...deployer.Report) (*world, *v1alpha1.Cluster) {
	t.Helper()
	w := newWorld(t, reports...)
	w.Resources = resources{&v1alpha1.Account{ObjectMeta: meta("prod"), Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderAWS, Region: "eu-west-1"}}}
	w.states.outputs = `{"endpoint": "https://eks", "certificate_authority": "Q0E=", "name": "web-1", "id": "vpc-1", "karpenter": {"queue": "q"}, "node_groups": {"workers": {"desired": 3}},
		"private_subnets": {"a": {"id": "subnet-1", "zone": "eu-west-1a"}, "b": {"id": "subnet-2", "zone": "eu-west-1b"}}}`
	c := cluster()
	c.Spec.Type = v1alpha1.ClusterEKS
	c.Spec.EKS = &v1alpha1.EKS{Compute: "Karpenter"}
	c.Spec.Access.Public = ptr.To(true)
	return w, c
}

// furnish runs the step that installs add-ons.
func (w *world) furnish(c *v1alpha1.Cluster) (map[string]string, error) {
	w.t.Helper()
	steps, err := w.Steps(v1alpha1.OperationCreate, c)
	if err != nil || steps[len(steps)-1].Name != "add-ons" {
		w.t.Fatalf("%v, %v", steps, err)
	}
	scope := &task.Scope{Object: c, Task: &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{UID: "task"}}}
	err = steps[len(steps)-1].Run(w.t.Context(), scope)
	return scope.Outputs(), err
}

func TestAddonsAreInstalledAndMissingOnesTold(t *testing.T) {
	w, c := inAmazon(t)
	outputs, err := w.furnish(c)
	if err != nil || outputs[provisioner.OutputAddons] != "aws-load-balancer-controller: no chart; karpenter: no chart" {
		t.Errorf("%v, %v", outputs, err)
	}
	c.Spec.Access = v1alpha1.Access{Public: ptr.To(false)}
	if outputs, err := w.furnish(c); err != nil || !strings.Contains(outputs[provisioner.OutputAddons], "no public endpoint") {
		t.Errorf("%v, %v", outputs, err)
	}
	// Google brings along what is needed.
	google := newWorld(t)
	if outputs, err := google.furnish(cluster()); err != nil || outputs[provisioner.OutputAddons] != "" {
		t.Errorf("%v, %v", outputs, err)
	}
	if steps, err := google.Steps(v1alpha1.OperationDelete, cluster()); err != nil || steps[len(steps)-1].Name != "forget" {
		t.Errorf("%v, %v", steps, err)
	}
}
