package session

import (
	"fmt"
	"math"
	"net/http"
	"time"
)

// Failure is an answer to somebody who asked for what cannot be given, in words for them to read. Every other error is
// trouble of ours.
type Failure struct {
	Code    int // of HTTP
	Message string
	// RetryAfter is how many seconds to wait; 0 where that does not help.
	RetryAfter int
}

func (f *Failure) Error() string { return f.Message }

func failure(code int, message string) *Failure { return &Failure{Code: code, Message: message} }

func expired() *Failure {
	return failure(http.StatusUnauthorized, "the session has ended: log in again")
}

func throttled(wait time.Duration) *Failure {
	seconds := int(math.Ceil(wait.Seconds()))
	return &Failure{
		Code:       http.StatusTooManyRequests,
		Message:    fmt.Sprintf("too many logins failed: try again in %d s", seconds),
		RetryAfter: seconds,
	}
}
