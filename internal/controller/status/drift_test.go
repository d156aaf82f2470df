package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestDriftIsToldInWords(t *testing.T) {
	object := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "main"}}
	var conditions []metav1.Condition
	SetDrifted(&conditions, object, nil, "cloud vpc repair")
	if len(conditions) > 0 {
		t.Errorf("what was never compared: %+v", conditions)
	}
	many := make([]string, 12)
	for i := range many {
		many[i] = "a"
	}
	for want, drift := range map[string]v1alpha1.Drift{
		"False InSync": {},
		"False CheckFailed it could not be looked at: no answer":                                                                         {Error: "no answer"},
		"True Drifted changed by somebody else: a, b; `cloud vpc repair main` puts it right":                                             {Addresses: []string{"a", "b"}},
		"True ConsentNeeded changed by somebody else: a; it is not put right by itself: a network is lost":                               {Addresses: []string{"a"}, Refused: "a network is lost"},
		"True Drifted changed by somebody else: a; it could not be looked at again: no answer":                                           {Addresses: []string{"a"}, Error: "no answer"},
		"True Drifted changed by somebody else: a; that is so again after 2 repairs: find out who does it, then `cloud vpc repair main`": {Addresses: []string{"a"}, Repairs: 2},
		"True Drifted changed by somebody else: a, a, a, a, a, a, a, a, a, a and 2 more; `cloud vpc repair main` puts it right":          {Addresses: many},
	} {
		SetDrifted(&conditions, object, &drift, "cloud vpc repair")
		found := meta.FindStatusCondition(conditions, v1alpha1.ConditionDrifted)
		if got := strings.TrimSpace(string(found.Status) + " " + found.Reason + " " + found.Message); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
