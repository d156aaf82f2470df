package cloudd

import (
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/audit"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// thoroughly is how many audits there are to each thorough one.
const thoroughly = 12

// setupAudit looks after clusters of all types that tell how they are.
func (h *hostedClusters) setupAudit(tenants *tenant.Connections) error {
	if h.config.AuditInterval == 0 {
		h.log.Warn("clusters are not audited: --audit-interval is 0")
		return nil
	}
	objects, err := metadata.NewForConfig(h.manager.GetConfig())
	if err != nil {
		return err
	}
	counted, err := audit.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	auditors := map[v1alpha1.ClusterType]provisioner.Auditor{}
	for kind, each := range h.provisioners() {
		if auditor, ok := each.(provisioner.Auditor); ok {
			auditors[kind] = auditor
		}
	}
	limits := audit.DefaultLimits()
	limits.Interval, limits.Thorough = h.config.AuditInterval, thoroughly*h.config.AuditInterval
	limits.Attempts = h.config.RepairAttempts
	return (&audit.Reconciler{
		Client: h.manager.GetClient(), Tenants: tenants, Auditors: auditors, Follow: audit.Infrastructure(objects), Limits: limits,
		Clock: clock.RealClock{}, Recorder: h.manager.GetEventRecorder("cloudd"), Metrics: counted, Concurrency: h.config.Concurrency,
	}).SetupWithManager(h.manager)
}
