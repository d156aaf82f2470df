package exit

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ofAPI explains an answer of the management API.
func ofAPI(err error) (code Code, message, hint string, ok bool) {
	answer, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return 0, "", "", false
	}
	message = err.Error() + words(answer.ErrStatus)
	if raw := answer.Error(); raw != "" {
		message = strings.Replace(err.Error(), raw, words(answer.ErrStatus), 1)
	}
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnauthorized:
		return LoggedOut, message, "log in with `cloud login`", true
	case metav1.StatusReasonForbidden:
		if denied(answer.ErrStatus.Message) {
			return Refused, message, "", true
		}
		return Refused, message, "`cloud whoami` shows who you are and what you may do", true
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonAlreadyExists:
		return Refused, message, "", true
	case metav1.StatusReasonNotFound:
		return NotFound, message, "", true
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout:
		return TimedOut, message, "the management API is busy; try again", true
	case metav1.StatusReasonConflict:
		return Failed, message, "it was changed by somebody else at the same time; try again", true
	default:
		return Failed, message, "", true
	}
}

var webhook = regexp.MustCompile(`^.*admission webhook "[^"]*" denied the request: `)

// denied tells a refusal by one of the platform's rules from one for want of permission.
func denied(message string) bool { return webhook.MatchString(message) }

// words takes what a person needs out of an answer: for an invalid object, the broken rules, each of which names its
// field and the remedy.
func words(answer metav1.Status) string {
	if answer.Reason == metav1.StatusReasonInvalid && answer.Details != nil && len(answer.Details.Causes) > 0 {
		var rules []string
		for _, cause := range answer.Details.Causes {
			if !strings.HasPrefix(cause.Message, unchecked) {
				rules = append(rules, rule(cause))
			}
		}
		return strings.Join(rules, "\n  ")
	}
	if answer.Message == "" {
		return string(answer.Reason)
	}
	return webhook.ReplaceAllString(answer.Message, "")
}

// unchecked is what the API adds when it did not go on to look for more.
const unchecked = "some validation rules were not checked"

var invalidValue = regexp.MustCompile(`^Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|object|array|null|true|false|-?[0-9.]+): )?`)

// rule is a broken rule. The platform's own begin with the field already; those of the schema do not.
func rule(cause metav1.StatusCause) string {
	text := invalidValue.ReplaceAllString(cause.Message, "")
	if cause.Field == "" || cause.Field == "<nil>" || strings.HasPrefix(text, "spec") || strings.HasPrefix(text, "metadata") {
		return text
	}
	return cause.Field + ": " + text
}

// ofConnection explains why no answer came at all.
func ofConnection(err error) (hint string, ok bool) {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return "the server's certificate is of another authority than the context's: add the context anew with `cloud context add --ca-file`", true
	}
	if _, failed := errors.AsType[*url.Error](err); failed {
		return "is the platform running, and can it be reached from here? `cloud context list` shows its address, `cloud status` its state", true
	}
	if _, failed := errors.AsType[*net.OpError](err); failed {
		return "is the platform running, and can it be reached from here?", true
	}
	return "", false
}
