package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// SetDrifted tells in a condition what was found when a resource was last compared with what is in the cloud; nothing where
// it never was. The command is what puts it right.
func SetDrifted(conditions *[]metav1.Condition, object client.Object, drift *v1alpha1.Drift, command string) {
	if drift == nil {
		return
	}
	reason, message := v1alpha1.ReasonInSync, ""
	switch drifted := len(drift.Addresses) > 0; {
	case drifted && drift.Refused != "":
		reason, message = v1alpha1.ReasonConsentNeeded, fmt.Sprintf("%s; it is not put right by itself: %s", differing(drift), drift.Refused)
	case drifted && drift.Error != "":
		reason, message = v1alpha1.ReasonDrifted, fmt.Sprintf("%s; it could not be looked at again: %s", differing(drift), drift.Error)
	case drifted && drift.Repairs > 0:
		reason, message = v1alpha1.ReasonDrifted, fmt.Sprintf("%s; that is so again after %d repairs: find out who does it, then `%s %s`", differing(drift), drift.Repairs, command, object.GetName())
	case drifted:
		reason, message = v1alpha1.ReasonDrifted, fmt.Sprintf("%s; `%s %s` puts it right", differing(drift), command, object.GetName())
	case drift.Error != "":
		reason, message = v1alpha1.ReasonCheckFailed, "it could not be looked at: "+drift.Error
	}
	Set(conditions, object, v1alpha1.ConditionDrifted, len(drift.Addresses) > 0, reason, message)
}

// differing names what was changed by somebody else.
func differing(drift *v1alpha1.Drift) string {
	const most = 10
	text := "changed by somebody else: " + strings.Join(drift.Addresses[:min(len(drift.Addresses), most)], ", ")
	if more := len(drift.Addresses) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// automaticPatience is how long a repair may take that nobody waits for; then it counts as one that has not helped.
const automaticPatience = 30 * time.Minute

// DescribeRepair tells in a task who asked for a repair, and why.
func DescribeRepair(spec *v1alpha1.TaskSpec, annotation string) {
	request := v1alpha1.ParseRepairRequest(annotation)
	spec.Automatic, spec.Force = request.Automatic, request.Force
	const most = 1024
	spec.Reason = request.Reason[:min(len(request.Reason), most)]
	if request.Automatic {
		spec.Deadline = &metav1.Time{Time: request.At.Add(automaticPatience)}
	}
}
