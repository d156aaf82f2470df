package cloudd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"plasmacloud.io/plasmacloud/internal/admission"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
	"plasmacloud.io/plasmacloud/internal/admission/tally"
	"plasmacloud.io/plasmacloud/internal/iam"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/gate"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/kubeaccess"
	accesswire "plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
	"plasmacloud.io/plasmacloud/internal/terminal"
	"plasmacloud.io/plasmacloud/internal/terminal/wire"
)

// setupIAM serves identities.
func (d *Daemon) setupIAM() error {
	api, err := kubernetes.NewForConfig(d.manager.GetConfig())
	if err != nil {
		return err
	}
	terminals := terminal.New(terminal.Config{
		API: api, Objects: d.manager.GetClient(), Reacher: d.drivers.reacher, Recorder: d.manager.GetEventRecorder("cloudd"), Log: d.log,
	})
	more := map[string]http.Handler{wire.Pattern: terminals}
	if d.clouds != nil {
		more[accesswire.Pattern] = kubeaccess.New(kubeaccess.Config{
			Gate: gate.Gate{API: api}, Clusters: d.manager.GetAPIReader(), Access: d.clouds.access, Log: d.log,
		})
	}
	service, err := iam.New(iam.Config{
		REST: d.manager.GetConfig(), Namespace: d.config.Namespace, Address: d.config.IAMAddress,
		Issuer: d.config.IAMIssuer, Names: d.config.IAMNames, Scratch: d.config.Scratch,
		Registry: metrics.Registry, Clock: clock.RealClock{}, Logger: d.log,
		More: more,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		d.manager.AddReadyzCheck("iam", func(*http.Request) error { return service.Ready() }),
		d.manager.Add(always(service.Run)),
	)
}

// setupAdmission serves the webhook that validates what schemas cannot.
func (d *Daemon) setupAdmission() error {
	api, err := kubernetes.NewForConfig(d.manager.GetConfig())
	if err != nil {
		return err
	}
	certificates := authority.New(store.NewRecord(api, d.config.Namespace, authority.SecretName, store.KindAuthority),
		d.config.Scratch, clock.RealClock{}, d.log)
	serving := authority.NewServing(certificates, d.config.AdmissionNames, clock.RealClock{}, d.log)
	used := tally.New()
	if err := used.Follow(context.Background(), d.manager.GetCache()); err != nil {
		return err
	}
	validator := admission.New(admission.Config{
		Cached: d.manager.GetClient(), Live: d.manager.GetAPIReader(), Catalogue: d.offers.get, Tally: used, Now: time.Now,
		Ledger: ledger.New(d.manager.GetAPIReader(), d.manager.GetClient(), d.config.Namespace, time.Now),
	})
	mux := http.NewServeMux()
	mux.Handle(admission.Path, validator.Handler())
	ready := func(*http.Request) error {
		if !serving.Ready() {
			return errors.New("no certificate for admission yet")
		}
		return nil
	}
	return errors.Join(
		d.manager.AddReadyzCheck("admission", ready),
		d.manager.Add(always(certificates.Run)),
		d.manager.Add(always(func(ctx context.Context) error { serving.Run(ctx); return nil })),
		d.manager.Add(always(func(ctx context.Context) error {
			return serve(ctx, "admission", d.config.AdmissionAddress, serving, mux)
		})),
	)
}

func serve(ctx context.Context, what, address string, serving *authority.Serving, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve %s: %w", what, err)
	}
	tlsConfig := serving.TLS()
	server := &http.Server{Handler: handler, TLSConfig: tlsConfig, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", what, err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(stop)
}
