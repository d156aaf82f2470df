// Package machine is the seam to whatever machines come from: pods of the management cluster, virtual machines, hosts
// that are reached by SSH. A driver, in a folder below, makes and removes machines; it knows nothing of Kubernetes on
// them. All drivers pass the conformance suite in package drivertest.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Errors that drivers return, wrapped with what is known besides.
var (
	// ErrNotFound: there is no machine of that key. It was never made, or it is gone for good.
	ErrNotFound = errors.New("machine not found")
	// ErrConflict: there is a machine of that key, made from another description. A machine is replaced, not changed.
	ErrConflict = errors.New("machine exists with another description")
	// ErrNoCapacity: the provider cannot give one more machine of that size now. Later, or another size, may do.
	ErrNoCapacity = errors.New("no capacity")
	// ErrInvalid: the description cannot be met by this driver, however often it is tried.
	ErrInvalid = errors.New("invalid machine")
)

// Driver makes and removes machines of one provider. Its methods may be called at the same time, also for the same
// machine, and from several processes; each may be repeated after an error or a crash, with no other outcome than if it
// had been called once. They return soon: what takes its time goes on by itself, and Get tells how far it is.
type Driver interface {
	// Create makes a machine. If there is one of that key already it is returned as it is, so that a caller who has lost
	// the answer may ask again; if that was made from another description, the error is ErrConflict. A machine that is
	// being deleted is ErrConflict too: its name is free when it is gone.
	Create(ctx context.Context, spec Spec) (*Machine, error)

	// Get returns a machine as it is now. ErrNotFound: there is none.
	Get(ctx context.Context, key Key) (*Machine, error)

	// List returns the machines that match, ordered by key, including those that are being deleted. None is no error.
	// It is complete: what is not listed does not exist and costs nothing.
	List(ctx context.Context, filter Filter) ([]Machine, error)

	// Delete removes a machine and everything that was made for it. One that is not there, or is being deleted, is no
	// error. It is gone when Get returns ErrNotFound.
	Delete(ctx context.Context, key Key) error
}

// Reacher is a driver whose machines can be worked on.
type Reacher interface {
	// Reach returns a running machine to work on. It need not connect for that.
	Reach(ctx context.Context, key Key) (*remote.Client, error)
}

// Keyed is a Reacher whose machines answer SSH with the keys that they were described with, and are reached with the key
// of their cluster (package sshkey). Machines of other drivers have keys of their own.
type Keyed interface {
	Reacher
	// Rekey makes a running machine accept the present key of its cluster, and no longer the one before. It may be
	// repeated.
	Rekey(ctx context.Context, key Key) error
}

// Key names a machine. The same name in another cluster or namespace is another machine.
type Key struct {
	Namespace, Cluster, Name string
}

func (k Key) String() string { return k.Namespace + "/" + k.Cluster + "/" + k.Name }

// Compare orders keys.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Cluster, other.Cluster), cmp.Compare(k.Name, other.Name))
}

// Filter chooses machines. What is empty matches everything.
type Filter struct {
	Namespace, Cluster string
}

// Matches tells whether a key is chosen.
func (f Filter) Matches(k Key) bool {
	return (f.Namespace == "" || f.Namespace == k.Namespace) && (f.Cluster == "" || f.Cluster == k.Cluster)
}

// Spec describes a machine.
type Spec struct {
	Key Key
	// CPU, Memory and Disk are what the machine has.
	CPU, Memory, Disk resource.Quantity
	// GPUs are the names of its devices.
	GPUs []string
	// Network that its address is in; the provider's own where it is empty.
	Network string
	// AuthorizedKeys are the SSH public keys that may log in as root.
	AuthorizedKeys []string
	// HostKey is the private key, in PEM, by which the machine proves over SSH that it is the one; its own where it is
	// empty. Only drivers that are Keyed look at it.
	HostKey []byte `json:",omitempty"`
	// Labels go with the machine wherever the provider has room for them.
	Labels map[string]string
	// Image that the machine boots; the driver's own where it is empty.
	Image string
	// Files by their absolute path: they are there, readable by root alone, before the machine's own programs start.
	Files map[string][]byte
	// DedicatedCPU is not shared with other machines; OvercommittedMemory is promised to more of them than there is.
	DedicatedCPU, OvercommittedMemory bool
}

// Validate tells what no driver could meet. Its error is ErrInvalid.
func (s Spec) Validate() error {
	for what, name := range map[string]string{"namespace": s.Key.Namespace, "cluster": s.Key.Cluster, "name": s.Key.Name} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%w: %s %q: %s", ErrInvalid, what, name, problems[0])
		}
	}
	for what, quantity := range map[string]resource.Quantity{"cpu": s.CPU, "memory": s.Memory, "disk": s.Disk} {
		if quantity.Sign() <= 0 {
			return fmt.Errorf("%w: %s of %s is %s", ErrInvalid, what, s.Key, quantity.String())
		}
	}
	return nil
}

// State is where a machine is in its life.
type State string

// The states of machines.
const (
	// StatePending: it is being made.
	StatePending State = "Pending"
	// StateRunning: it has an address, and SSH answers there or will in a moment.
	StateRunning State = "Running"
	// StateFailed: it will never run, or has ended; the message says why. It has to be deleted.
	StateFailed State = "Failed"
	// StateDeleting: it is being removed.
	StateDeleting State = "Deleting"
)

// Machine is a machine as it is.
type Machine struct {
	Key Key
	// ID is the provider's own name for it; another machine of the same key has another one.
	ID    string
	State State
	// Address is where SSH answers, once it runs. It stays the same for as long as the machine lives.
	Address string
	// Message says more about the state, for people.
	Message string
}
