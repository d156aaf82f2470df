package byoc

import (
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/measure"
)

func TestFigures(t *testing.T) {
	got := figures([]round{{20 * time.Second, 22 * time.Second}, {21 * time.Second, 60 * time.Second}, {10 * time.Second, 20 * time.Second}}, crowd{50, 100 * time.Second, 5000 * measure.Mebibyte})
	for i, want := range []string{
		"BENCH byoc_apply 22.00 s target<=23 ok",
		"BENCH byoc_apply_to_bare_tofu 1.10 x target<=1.15 ok",
		"BENCH byoc_50_plans_time 100.00 s target<=200 ok",
		"BENCH byoc_50_plans_memory 5000.00 MiB target<=1.28e+04 ok",
		"BENCH byoc_50_plans_memory_each 100.00 MiB target<=256 ok",
	} {
		if got[i].String() != want {
			t.Errorf("%s, want %s", got[i], want)
		}
	}
}
