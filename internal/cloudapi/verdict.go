package cloudapi

import "errors"

// ErrRejected is the answer of a cloud that does not accept the credentials: they are wrong, expired or revoked.
var ErrRejected = errors.New("the cloud does not accept the credentials")

// Verdict is what a cloud says of credentials that it accepts.
type Verdict struct {
	// Identity that it knows their bearer by.
	Identity string
	// Missing are permissions that the platform needs, and the bearer does not have.
	Missing []string
	// Simulated: what is missing was found out by a simulation, which does not know policies that are for some resources only.
	Simulated bool
	// Unknown is why it could not be found out what is missing.
	Unknown string
}
