package pki

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// RenewInterval is how often a Renewer looks when nothing else is asked for:
// often enough that a failed renewal is tried again hundreds of times before
// the certificate expires, and seldom enough to be free.
const RenewInterval = 12 * time.Hour

// Renewer keeps the certificates of a running node from expiring.
type Renewer struct {
	Store    *Store
	Leaves   []Leaf
	Clock    clock.Clock
	Interval time.Duration // RenewInterval if zero
	Logger   *slog.Logger
	// Renewed is called, from Run, with what was issued: for programs that do
	// not read their certificates again by themselves.
	Renewed func([]Renewal)
}

// Run ensures the certificates at every interval until ctx ends. A failure is
// logged and tried again: the certificates are good for months yet.
func (r *Renewer) Run(ctx context.Context) {
	interval := r.Interval
	if interval == 0 {
		interval = RenewInterval
	}
	timer := r.Clock.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		r.renew(ctx)
		timer.Reset(interval)
	}
}

func (r *Renewer) renew(ctx context.Context) {
	renewals, err := r.Store.Ensure(r.Leaves)
	if err != nil {
		r.Logger.ErrorContext(ctx, "renew certificates", "error", err)
		return
	}
	for _, renewal := range renewals {
		r.Logger.InfoContext(ctx, "renewed certificate", "name", renewal.Name, "reason", renewal.Reason, "expires", renewal.NotAfter)
	}
	if len(renewals) > 0 && r.Renewed != nil {
		r.Renewed(renewals)
	}
	r.warnOfExpiry(ctx)
}

// warnOfExpiry tells of an authority that nears its end: nothing here can renew
// that.
func (r *Renewer) warnOfExpiry(ctx context.Context) {
	next, err := r.Store.NextExpiry(r.Leaves)
	if err != nil {
		r.Logger.ErrorContext(ctx, "read certificates", "error", err)
		return
	}
	if next.NotAfter.Sub(r.Clock.Now()) < LeafLifetime/RenewalFraction {
		r.Logger.WarnContext(ctx, "certificate expires and cannot be renewed", "name", next.Name, "expires", next.NotAfter)
	}
}
