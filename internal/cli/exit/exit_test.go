package exit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestErrorsHaveCodesAndHints(t *testing.T) {
	clusters := schema.GroupResource{Group: "plasmacloud.io", Resource: "clusters"}
	invalid := &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonInvalid, Message: `Cluster.plasmacloud.io "dev" is invalid: [lots of text]`,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Field: "spec.host", Message: `Invalid value: "a b": spec.host: this is no host name`},
			{Field: "spec.type", Message: `Unsupported value: "X": supported values: "Hosted"`},
			{Field: "spec.subnets", Message: "Invalid value: subnets overlap"},
			{Field: "spec.workers", Message: "Invalid value: -1: it is too small"},
			{Field: "<nil>", Message: "some validation rules were not checked because the object was invalid"},
		}},
	}}
	denied := apierrors.NewForbidden(clusters, "dev", errors.New("x"))
	denied.ErrStatus.Message = `admission webhook "quota.plasmacloud.io" denied the request: 3 of 3 clusters are used`
	for name, test := range map[string]struct {
		err  error
		code Code
		says string
	}{
		"nothing":     {nil, OK, ""},
		"anything":    {errors.New("write file"), Failed, "cloud: write file\n"},
		"usage":       {Usagef("no %s", "name"), Usage, "cloud: no name\n"},
		"hint":        {fmt.Errorf("get: %w", NotFoundf("look elsewhere", "nothing here")), NotFound, "cloud: get: nothing here\nhint: look elsewhere\n"},
		"not found":   {apierrors.NewNotFound(clusters, "dev"), NotFound, "cloud: clusters.plasmacloud.io \"dev\" not found\n"},
		"login":       {apierrors.NewUnauthorized("bad token"), LoggedOut, "cloud: bad token\nhint: log in with `cloud login`\n"},
		"permission":  {apierrors.NewForbidden(clusters, "dev", errors.New("no")), Refused, "hint: `cloud whoami`"},
		"admission":   {fmt.Errorf("create: %w", denied), Refused, "cloud: create: 3 of 3 clusters are used\n"},
		"rules":       {fmt.Errorf("create: %w", invalid), Refused, "cloud: create: spec.host: this is no host name\n  spec.type: Unsupported value: \"X\": supported values: \"Hosted\"\n  spec.subnets: subnets overlap\n  spec.workers: it is too small\n"},
		"exists":      {apierrors.NewAlreadyExists(clusters, "dev"), Refused, "already exists"},
		"conflict":    {apierrors.NewConflict(clusters, "dev", errors.New("x")), Failed, "hint: it was changed by somebody else"},
		"busy":        {apierrors.NewServerTimeout(clusters, "get", 1), TimedOut, "hint: the management API is busy"},
		"broken":      {apierrors.NewInternalError(errors.New("boom")), Failed, "boom"},
		"deadline":    {fmt.Errorf("wait: %w", context.DeadlineExceeded), TimedOut, "hint: --timeout"},
		"interrupted": {context.Canceled, Interrupted, ""},
		"unreachable": {&url.Error{Op: "Get", URL: "https://x", Err: errors.New("refused")}, Failed, "hint: is the platform running"},
		"said better": {With(Refused, "do this", apierrors.NewNotFound(clusters, "dev")), Refused, "hint: do this"},
	} {
		var out strings.Builder
		Report(&out, test.err)
		if code := Of(test.err); code != test.code {
			t.Errorf("%s: code %d, not %d", name, code, test.code)
		}
		if test.err != nil && !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: %q, not %q", name, out.String(), test.says)
		}
	}
}
