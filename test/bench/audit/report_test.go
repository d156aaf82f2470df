package audit

import (
	"testing"
	"time"
)

func TestFiguresAreWhatAuditsAdd(t *testing.T) {
	without := span{during: 10 * time.Second, cpu: 100 * time.Millisecond, management: 20}
	with := span{during: 20 * time.Second, cpu: 1200 * time.Millisecond, management: 140, tenants: 600, audits: 300}
	want := map[string]float64{
		"audit_1000_every_minute": 15, "audit_1000_every_minute_cpu": 5, "audit_1000_every_minute_requests": 35,
		"audit_1000_cpu": 1, "audit_1000_requests": 7, "audit_1000_management_requests": 1,
	}
	for _, figure := range figures(1000, without, with) {
		if value, ok := want[figure.Name]; ok && (figure.Value-value > 0.01 || value-figure.Value > 0.01) {
			t.Errorf("%s is %.2f, want %.2f", figure.Name, figure.Value, value)
		}
	}
}
