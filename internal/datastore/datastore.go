// Package datastore runs the etcds in which hosted clusters keep their objects: one that many clusters share, each with
// a prefix and a user of its own (Shared), or one of a cluster's own (Dedicated). Both are a StatefulSet on the management
// cluster and answer the same two calls, Ensure and Remove, so that a control plane need not know which it has.
//
// Whoever reaches an etcd is known by a client certificate, whose common name is a user of etcd. A tenant's user holds
// one role, which opens one prefix; root, who opens it, has no certificate that is stored: the platform issues itself one
// for every connection, from the authority in the Secret datastore-authority. Members trust one another by a second
// authority, so that no client's certificate ever passes for a member's.
//
// What etcd itself does not keep apart: any client that it knows can see which members there are, how large the database
// is, and whether it is full. None of that tells what is stored. A control plane should run with
// --etcd-compaction-interval=0: etcd compacts by itself, a tenant may not ask for it, and the key by which API servers agree
// on compaction is nobody's.
//
// A cluster moves from one etcd to another by Copy, while its control plane stands still: ensure the tenant in the new
// one, stop the control plane, copy, start it with the new credentials, and remove the tenant from the old one. Resource
// versions begin anew, so that watches are made anew; the objects are the same.
package datastore

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrNotReady says that an etcd is still starting, or still going. It ends by itself: ask again.
var ErrNotReady = errors.New("wait for the datastore")

// Datastore gives clusters a place for their objects.
type Datastore interface {
	// Ensure returns how the tenant reaches its prefix, and makes whatever is missing of it. It may be repeated, and then
	// returns the certificate that the tenant has, until it is due. ErrNotReady means to ask again.
	Ensure(ctx context.Context, tenant Tenant) (Credentials, error)
	// Remove takes away everything that the tenant has. A tenant that is not there is no error.
	Remove(ctx context.Context, tenant Tenant) error
}

// Tenant is a cluster that keeps its objects in an etcd.
type Tenant struct {
	// Name is the tenant's, for all times: a certificate that was issued to a tenant fits another of the same name. The
	// name of a cluster's infrastructure namespace is one.
	Name string
	// Have is the certificate that the caller keeps from an earlier answer.
	Have Pair
}

// Validate tells what is wrong with a tenant.
func (t Tenant) Validate() error {
	if problems := validation.IsDNS1123Label(t.Name); len(problems) > 0 {
		return fmt.Errorf("name of tenant %q: %s", t.Name, problems[0])
	}
	return nil
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// String keeps the key out of logs.
func (p Pair) String() string { return "certificate and key (redacted)" }

// GoString keeps it out of %#v as well.
func (p Pair) GoString() string { return p.String() }

// Credentials are how a tenant reaches its prefix.
type Credentials struct {
	// Endpoints are URLs, for --etcd-servers.
	Endpoints []string
	// Prefix is what all keys begin with, followed by a slash: for --etcd-prefix.
	Prefix string
	// CA is the certificate by which etcd is known, in PEM.
	CA []byte
	// Pair is the tenant's own, for the caller to keep.
	Pair
}

// String keeps the key out of logs.
func (c Credentials) String() string { return fmt.Sprintf("%v %s (redacted)", c.Endpoints, c.Prefix) }

// GoString keeps it out of %#v as well.
func (c Credentials) GoString() string { return c.String() }

const (
	prefixes   = "/tenants/"
	userPrefix = "tenant:"
	rootUser   = "root" // etcd's own name for who may do everything
)

func prefixOf(tenant string) string { return prefixes + tenant }

// userOf is the tenant's user and also its role.
func userOf(tenant string) string { return userPrefix + tenant }
