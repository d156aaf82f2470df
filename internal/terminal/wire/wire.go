// Package wire is the interface of the terminal service as its clients see it: where it is, and how it is asked. It holds
// no logic.
package wire

import "net/url"

// Where the service is. It is asked by POST, with `Authorization: Bearer <access token>`, to upgrade the connection to
// streams as `kubectl exec` speaks them; GET asks whether that would be done, and is answered with 204. A failure is
// answered with a Kubernetes Status.
const (
	prefix  = "/apis/instances.plasmacloud.io/v1/projects/"
	suffix  = "/terminal"
	Pattern = prefix + "{project}/instances/{name}" + suffix
)

// Path of the terminal of an instance.
func Path(project, name string) string {
	return prefix + url.PathEscape(project) + "/instances/" + url.PathEscape(name) + suffix
}

// Parameters: command, once for each word of it, root's shell where there is none; term, the kind of the terminal; and
// those of `kubectl exec` for the streams that are wanted, each 1.
const (
	Command = "command"
	Term    = "term"

	Stdin  = "input"
	Stdout = "output"
	Stderr = "error"
	TTY    = "tty"
)
