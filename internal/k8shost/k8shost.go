// Package k8shost is the launcher of the distribution: it turns a host into a server or an agent of a Kubernetes
// cluster by starting upstream's programs in order and keeping them running. This package wires; the rooms below it
// do the work: config (flags), host (what the machine offers), datadir (where things are), pki and token (secrets),
// join (becoming part of a cluster), controlplane and node (the programs), cluster (objects in the API), etcd
// (members and snapshots), component (supervision), teardown (the way back).
package k8shost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
	"plasmacloud.io/plasmacloud/internal/release"
)

// stopPatience bounds an orderly stop: a service manager waits no longer.
const stopPatience = 80 * time.Second

// claim takes the data directory for this process and clears away what an earlier one, killed, may have left.
func claim(ctx context.Context, dir datadir.Dir, log *slog.Logger) (release func(), err error) {
	release, err = dir.Lock()
	if err != nil {
		return nil, err
	}
	err = errors.Join(dir.Make(), dir.ClearReady(), dir.RecordLauncher())
	if err == nil {
		err = endLeftovers(ctx, dir, log)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func endLeftovers(ctx context.Context, dir datadir.Dir, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leftovers, err := component.Leftovers(dir.Run())
	if err != nil {
		return fmt.Errorf("look for processes of an earlier run: %w", err)
	}
	for _, leftover := range leftovers {
		log.Warn("ending a process of an earlier run", "component", leftover.Name, "process", leftover.PID)
		if err := leftover.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

// preflight refuses to start on a host that lacks something, before anything is changed.
func preflight(facts *host.Facts, log *slog.Logger) error {
	var missing []string
	for _, finding := range host.Check(facts) {
		switch finding.Level {
		case host.Missing:
			missing = append(missing, fmt.Sprintf("%s: %s: %s", finding.Name, finding.What, finding.Remedy))
		case host.Warning:
			log.Warn("the host could serve better", "what", finding.Name, "found", finding.What, "remedy", finding.Remedy)
		}
	}
	if len(missing) > 0 {
		return errors.New("this host cannot run a node yet:\n  " + strings.Join(missing, "\n  "))
	}
	return nil
}

// openRelease finds the release and the Kubernetes version to run from it.
func openRelease(dir, version string) (*release.Catalogue, string, error) {
	dir, err := release.Locate(dir)
	if err != nil {
		return nil, "", err
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		return nil, "", err
	}
	resolved, err := catalogue.Resolve(version)
	if err != nil {
		return nil, "", fmt.Errorf("--kubernetes-version: %w", err)
	}
	return catalogue, resolved, nil
}

// more tells further stages, which depend on what is known only when those before them are ready.
type more func() ([]component.Stage, error)

// runStages starts the parts, reports readiness, and stops the parts when ctx ends.
func runStages(ctx context.Context, dir datadir.Dir, log *slog.Logger, ready func(), stages []component.Stage, follow ...more) error {
	began := time.Now()
	manager := component.NewManager(log, stages...)
	err := manager.Start(ctx)
	for _, next := range follow {
		if err == nil {
			stages, err = next()
		}
		if err == nil {
			manager.Add(stages...)
			err = manager.Start(ctx)
		}
	}
	if err == nil {
		err = dir.MarkReady()
	}
	if err == nil {
		log.Info("all components are ready", "after", time.Since(began).Round(time.Millisecond))
		ready()
		<-ctx.Done()
		log.Info("stopping")
	} else if ctx.Err() != nil {
		err = nil // told to stop while starting
	}
	err = errors.Join(err, dir.ClearReady())
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	return errors.Join(err, manager.Stop(stopCtx))
}

func clientOf(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(config)
}

// discover verifies the server that a node joins. One that is just starting is waited for: hosts boot together.
func discover(ctx context.Context, serverURL string, given token.Token) (ca []byte, err error) {
	var verdict error
	err = component.Poll(ctx, func(ctx context.Context) error {
		ca, verdict = join.Discover(ctx, serverURL, given)
		if errors.Is(verdict, join.ErrNotReady) {
			return verdict
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ca, verdict
}
