package quota

import (
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

func TestAccepted(t *testing.T) {
	if quota, err := Parse(""); quota != nil || err != nil {
		t.Errorf("nothing is %v %v", quota, err)
	}
	quota, err := Parse("clusters=0, nodes=20,vcpu=40,memory=160Gi,volumes=5")
	if err != nil || *quota.Clusters != 0 || *quota.Nodes != 20 || quota.VCPU.Value() != 40 || quota.Memory.String() != "160Gi" || *quota.Volumes != 5 {
		t.Errorf("%+v %v", quota, err)
	}
}

func TestRefused(t *testing.T) {
	for text, says := range map[string]string{
		"clusters":         "is no limit",
		"cluster=3":        "did you mean clusters?",
		"gpus=3":           "there are clusters, nodes, vcpu, memory, volumes",
		"nodes=-1":         "not a whole number",
		"volumes=x":        "not a whole number",
		"vcpu=many":        "no quantity",
		"memory=-1Gi":      "no quantity",
		"clusters=1,,":     "is no limit",
		"nodes=3000000000": "not a whole number",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) || exit.Of(err) != exit.Usage {
			t.Errorf("%s: %v, not %q", text, err, says)
		}
	}
}
