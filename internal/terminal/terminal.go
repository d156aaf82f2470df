// Package terminal lets people work on the machines of their projects. A request over HTTP becomes streams, of the kind
// that `kubectl exec` speaks, and these a session over SSH that the platform opens: the keys to machines stay with it,
// wherever the person is, and whatever network the machine is in. Every session is logged, and told of in an event of
// the machine.
package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/gate"
	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/terminal/wire"
)

// Subresource of machines that permissions are given for: who may create it may open a terminal.
const Subresource = "console"

const (
	// idle is how long nobody has to type, and nothing be shown, until a session is ended.
	idle = time.Hour
	// opening is how long the caller has to open the streams.
	opening = 30 * time.Second
	// asking is how long it takes at most to find out who asks, and for what.
	asking = 30 * time.Second
	// maxNote bounds what a request says of itself in logs and events.
	maxNote = 200
)

// Config is what a Service works with.
type Config struct {
	// API tells who asks, and what they may do.
	API kubernetes.Interface
	// Objects are machines, clusters and accounts.
	Objects client.Reader
	// Reacher is the driver of the machines of a provider's accounts.
	Reacher  func(provider v1alpha1.Provider) (machine.Reacher, error)
	Recorder events.EventRecorder
	Log      *slog.Logger
}

// Service is an http.Handler.
type Service struct{ Config }

// New returns a Service.
func New(config Config) *Service { return &Service{Config: config} }

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), asking)
	defer cancel()
	visit, err := s.admit(ctx, r)
	if err != nil {
		gate.Refuse(w, err)
		return
	}
	switch r.Method {
	case http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
		return
	case http.MethodPost:
	default:
		gate.Refuse(w, apierrors.NewMethodNotSupported(resource(), r.Method))
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		gate.Refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	s.note(visit)
	remotecommand.ServeExec(w, r, visit, "", "", "", visit.command, options, idle, opening, remotecommand.SupportedStreamingProtocols)
}

// visit is somebody's session on a machine.
type visit struct {
	user    string
	machine *v1alpha1.Machine
	host    *remote.Client
	command []string
	term    string
}

// admit finds out who asks for what, and whether they may, and opens the way.
func (s *Service) admit(ctx context.Context, r *http.Request) (*visit, error) {
	user, err := gate.Gate{API: s.API}.Authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	namespace, name := v1alpha1.NamespacePrefix+r.PathValue("project"), r.PathValue("name")
	if err := s.authorize(ctx, user, namespace, name); err != nil {
		return nil, err
	}
	v := &visit{user: user.Username, machine: &v1alpha1.Machine{}, command: r.URL.Query()[wire.Command], term: r.URL.Query().Get(wire.Term)}
	if err := s.Objects.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, v.machine); err != nil {
		return nil, err
	}
	if v.host, err = s.reach(ctx, v.machine); err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return v, nil
}

// authorize asks the API whether somebody may open a terminal.
func (s *Service) authorize(ctx context.Context, user authenticationv1.UserInfo, namespace, name string) error {
	allowed, err := gate.Gate{API: s.API}.Allowed(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "create", Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: "machines", Subresource: Subresource, Namespace: namespace, Name: name,
	})
	if err != nil {
		return err
	}
	if !allowed {
		return apierrors.NewForbidden(resource(), name, fmt.Errorf("user %q may not open terminals on instances of this project", user.Username))
	}
	return nil
}

func resource() schema.GroupResource {
	return v1alpha1.GroupVersion.WithResource("machines/" + Subresource).GroupResource()
}

// reach opens the way to a machine.
func (s *Service) reach(ctx context.Context, m *v1alpha1.Machine) (*remote.Client, error) {
	cluster, account := &v1alpha1.Cluster{}, &v1alpha1.Account{}
	if err := s.Objects.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Cluster}, cluster); err != nil {
		return nil, err
	}
	if err := s.Objects.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Account}, account); err != nil {
		return nil, err
	}
	reacher, err := s.Reacher(account.Spec.Provider)
	if err != nil {
		return nil, err
	}
	return reacher.Reach(ctx, machine.Key{Namespace: v1alpha1.InfrastructureNamespace(cluster), Cluster: cluster.Name, Name: m.Name})
}

// note tells of a session.
func (s *Service) note(v *visit) {
	what := "a shell"
	if len(v.command) > 0 {
		what = v.command[0] // its arguments may be secret
	}
	what = what[:min(len(what), maxNote)]
	s.Log.Info("a terminal was opened", "user", v.user, "namespace", v.machine.Namespace, "machine", v.machine.Name, "command", what)
	s.Recorder.Eventf(v.machine, nil, "Normal", "TerminalOpened", "Attach", "%s runs %s on it", v.user, what)
}

// ExecInContainer implements remotecommand.Executor, for which a machine is a container.
func (v *visit) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, complaint io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session := remote.Session{Step: "terminal", Args: command, Stdin: in, Stdout: out, Stderr: complaint}
	if tty {
		session.Terminal, session.Sizes = v.term, sizes(ctx, resize)
		if session.Terminal == "" {
			session.Terminal = "xterm"
		}
	}
	err := v.host.Attach(ctx, session)
	if code, ok := remote.ExitCode(err); ok {
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	return err
}

// sizes are a terminal's, as SSH takes them.
func sizes(ctx context.Context, resize <-chan remotecommand.TerminalSize) <-chan remote.Size {
	told := make(chan remote.Size)
	go func() {
		defer close(told)
		for {
			select {
			case size, ok := <-resize:
				if !ok {
					return
				}
				select {
				case told <- remote.Size{Width: int(size.Width), Height: int(size.Height)}:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return told
}
