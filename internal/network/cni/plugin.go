package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// Error codes of our own start at 100, as the specification has it. Those that
// it defines and the library does not name are here too.
const (
	codeNotAvailable uint = 50
	codeDamaged      uint = 100
)

// timeout bounds one operation. Waiting for other operations on the node is the
// only part of it that can take long.
const timeout = 30 * time.Second

// Main answers the container runtime and ends the process.
func Main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: handler((*operation).add), Del: handler((*operation).del), Check: handler((*operation).check),
		GC: handler((*operation).gc), Status: handler((*operation).status),
	}, version.PluginSupports("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"), "PrismNET pod network plugin")
}

// operation is one call of the runtime.
type operation struct {
	args      *skel.CmdArgs
	config    *Config
	dataplane *linux.Dataplane
	store     *ipam.Store
}

func handler(run func(*operation, context.Context) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		op, err := newOperation(args)
		if err != nil {
			return err
		}
		return coded(run(op, ctx))
	}
}

func newOperation(args *skel.CmdArgs) (*operation, error) {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return nil, err
	}
	return &operation{
		args: args, config: config,
		dataplane: linux.New(config.StateDir), store: ipam.NewStore(config.StateDir),
	}, nil
}

func (o *operation) key() ipam.Key {
	return ipam.Key{ContainerID: o.args.ContainerID, IfName: o.args.IfName}
}

// locked runs fn with the lock on the node's leases. An operation has it from
// beginning to end: most of its time the kernel would let only one at a time
// through anyway, and so no two ever see each other's halves.
func (o *operation) locked(ctx context.Context, fn func(*ipam.Session) error) error {
	session, err := o.store.Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(fn(session), session.Close())
}

// checkNamespace refuses a CNI_NETNS that is none, or the node's own, before
// anything is done to it.
func (o *operation) checkNamespace() error {
	own, err := linux.IsOwnNamespace(o.args.Netns)
	if err != nil {
		return types.NewError(types.ErrInvalidEnvironmentVariables, "invalid CNI_NETNS", err.Error())
	}
	if own {
		return types.NewError(types.ErrInvalidEnvironmentVariables, "invalid CNI_NETNS",
			fmt.Sprintf("%s is the node's own network namespace", o.args.Netns))
	}
	return nil
}

// podName is "namespace/name" if the runtime told it in CNI_ARGS.
func (o *operation) podName() string {
	values := map[string]string{}
	for pair := range strings.SplitSeq(o.args.Args, ";") {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	if values["K8S_POD_NAME"] == "" {
		return ""
	}
	return values["K8S_POD_NAMESPACE"] + "/" + values["K8S_POD_NAME"]
}

// coded gives an error the code that the specification has for it.
func coded(err error) error {
	var known *types.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, ipam.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return types.NewError(types.ErrTryAgainLater, "node is busy with other pods", err.Error())
	case errors.Is(err, ipam.ErrExhausted):
		return types.NewError(types.ErrTryAgainLater, "no address is free for the pod", err.Error())
	case errors.Is(err, ipam.ErrPortTaken):
		return types.NewError(types.ErrTryAgainLater, "a host port of the pod is taken", err.Error())
	case errors.Is(err, linux.ErrInterfaceExists):
		return types.NewError(types.ErrInvalidEnvironmentVariables, "invalid CNI_IFNAME", err.Error())
	case errors.Is(err, linux.ErrNoNamespace):
		return types.NewError(types.ErrUnknownContainer, "the pod's network namespace is gone", err.Error())
	case isIO(err):
		return types.NewError(types.ErrIOFailure, "access node state", err.Error())
	default:
		return types.NewError(types.ErrInternal, "set up pod network", err.Error())
	}
}

// isIO tells failures of files, as on a full disk, from those of the network.
func isIO(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}
