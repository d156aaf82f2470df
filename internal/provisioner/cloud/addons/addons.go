// Package addons installs what a cluster in a cloud needs once its API is there, and the cloud does not bring along:
// storage classes, controllers that come as charts, and what those are told to make. Every part of it can be done again.
// A chart that cannot be had is left out, and said to be missing, and why: the rest is of use without it.
package addons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/internal/apply"
)

// Manager is who owns the fields of what is applied.
const Manager = "plasmacloud"

// Set is what a cluster is to have.
type Set struct {
	Objects []*unstructured.Unstructured
	Charts  []Chart
}

// Empty tells whether there is nothing to install.
func (s Set) Empty() bool { return len(s.Objects)+len(s.Charts) == 0 }

// Chart is one to install, as a release of its own name.
type Chart struct {
	Name, Namespace string
	Values          map[string]any
	// Objects are of kinds that the chart brings along.
	Objects []*unstructured.Unstructured
	// Missing says what the chart needs and the cluster does not have; nothing where it can be installed.
	Missing string
}

// Outcome is what was done.
type Outcome struct {
	// Installed is what is there, and Missing what is not, and why.
	Installed, Missing []string
}

// Problem says in a sentence what is missing; nothing where nothing is.
func (o Outcome) Problem() string { return strings.Join(o.Missing, "; ") }

// Installer installs add-ons.
type Installer struct {
	Charts Charts
	Log    *slog.Logger
	// Patience is how long the API of a new cluster may take to answer, Poll how often it is asked.
	Patience, Poll time.Duration
}

// Install brings a cluster to what the set says. Charts come from the release, or from a repository where one is named.
// An API that cannot be reached, or does not let us in, is no error: nothing is installed then.
func (i *Installer) Install(ctx context.Context, config *rest.Config, set Set, repository string) (Outcome, error) {
	var outcome Outcome
	if err := i.await(ctx, config, i.Patience); err != nil {
		if ctx.Err() != nil {
			return outcome, err
		}
		outcome.Missing = append(outcome.Missing, fmt.Sprintf("all of them: the cluster's API is not reached from here: %v", err))
		return outcome, nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return outcome, err
	}
	if err := apply.Objects(ctx, client, Manager, set.Objects...); err != nil {
		return outcome, err
	}
	for _, object := range set.Objects {
		outcome.Installed = append(outcome.Installed, object.GetKind()+" "+object.GetName())
	}
	for _, chart := range set.Charts {
		if err := i.chart(ctx, config, client, chart, repository, &outcome); err != nil {
			return outcome, fmt.Errorf("install %s: %w", chart.Name, err)
		}
	}
	return outcome, nil
}

// await returns when the API answers somebody of our name.
func (i *Installer) await(ctx context.Context, config *rest.Config, patience time.Duration) error {
	config = rest.CopyConfig(config)
	config.Timeout = 10 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(i.Poll)
	defer ticker.Stop()
	for {
		// Not the version, which everybody is told.
		_, err := client.ServerResourcesForGroupVersion("storage.k8s.io/v1")
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// chart installs one chart, and then what it is told to make.
func (i *Installer) chart(ctx context.Context, config *rest.Config, client dynamic.Interface, chart Chart, repository string, outcome *Outcome) error {
	missing := chart.Missing
	if missing == "" {
		loaded, err := i.Charts.load(chart.Name, repository)
		if none, ok := errors.AsType[*NoChartError](err); ok {
			missing = none.Error()
		} else if err != nil {
			return err
		} else if err := i.release(ctx, config, chart, loaded); err != nil {
			return err
		}
	}
	if missing != "" {
		outcome.Missing = append(outcome.Missing, chart.Name+": "+missing)
		return nil
	}
	outcome.Installed = append(outcome.Installed, "chart "+chart.Name)
	for _, object := range chart.Objects {
		if err := i.applyNew(ctx, client, object); err != nil {
			return err
		}
		outcome.Installed = append(outcome.Installed, object.GetKind()+" "+object.GetName())
	}
	return nil
}

// applyNew applies an object of a kind that the API may have learnt of just now.
func (i *Installer) applyNew(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	deadline := time.Now().Add(i.Patience)
	ticker := time.NewTicker(i.Poll)
	defer ticker.Stop()
	for {
		err := apply.Objects(ctx, client, Manager, object)
		if !apierrors.IsNotFound(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
