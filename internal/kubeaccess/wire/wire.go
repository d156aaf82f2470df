// Package wire is the interface of the service that hands out access to clusters in clouds, as its clients see it: where it
// is, and what it answers. It holds no logic.
package wire

import (
	"net/url"
	"time"
)

// Where the service is. It is asked by POST, as what it answers is made on the spot, with `Authorization: Bearer <access
// token>`. A failure is answered with a Kubernetes Status.
const (
	prefix  = "/apis/clusters.plasmacloud.io/v1/projects/"
	suffix  = "/access"
	Pattern = "POST " + prefix + "{project}/clusters/{name}" + suffix
)

// Path of the access to a cluster.
func Path(project, name string) string {
	return prefix + url.PathEscape(project) + "/clusters/" + url.PathEscape(name) + suffix
}

// Access is how an administrator reaches the API of a cluster.
type Access struct {
	Server string `json:"server"`
	// CA is who has signed the server's certificate, as PEM; empty where it is one that everybody trusts.
	CA    string `json:"ca,omitempty"`
	Token string `json:"token"`
	// ExpiresAt is when another token is needed; zero where nobody knows.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}
