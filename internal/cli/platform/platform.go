// Package platform is the commands about the installation itself: up, down and status. What they do to the host is the
// installer's business, which is given to the program by its main; here are its interface, its flags and its display.
package platform

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/progress"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// DefaultDataDir is where the embedded management cluster lives.
const DefaultDataDir = "/var/lib/plasmacloud"

// Target says which installation is meant: the embedded one in a directory, or the one on an existing cluster.
type Target struct {
	// Kubeconfig of an existing cluster; empty for the embedded one.
	Kubeconfig string
	// DataDir of the embedded one.
	DataDir string
}

// NoRedis says that the task queue is in memory.
const NoRedis = "none"

// UpOptions are how to install.
type UpOptions struct {
	Target
	// Redis is the URL of the Redis that carries the task queue, NoRedis for the queue in memory, or empty for what there
	// is already, which is memory at first. It may hold a password.
	Redis string
	// Image of the daemon, for a cluster whose nodes cannot be given the one that the release brings along.
	Image string
	// EndpointAddress is where hosted clusters' APIs are reached: that of a load balancer before the nodes, or one that moves
	// between them. Where it is empty it stays what it is, which is a node's at first.
	EndpointAddress string
	// StorageDir is where, on the nodes of an existing cluster that has no default storage class, etcds keep their data.
	// Where it is empty it stays what it is. The embedded one has its own.
	StorageDir string
	// FilesDir is where to keep files about an existing cluster: the administrator's password, and what its API server
	// needs to let users in. The embedded one has its own.
	FilesDir string
}

// DownOptions are how to remove an installation.
type DownOptions struct {
	Target
	// Purge removes the data too.
	Purge bool
}

// StatusOptions are what to look at.
type StatusOptions struct{ Target }

// Progress is told how far an installation is.
type Progress interface {
	// Step begins the next step, and with it ends the one before.
	Step(name string)
	// Report says what the step does just now.
	Report(message string)
}

// Installation is what Up has brought about, for the command line to remember.
type Installation struct {
	// Context is how to reach it; its name is a suggestion.
	Context config.Context
	// Token is a session of the caller there; empty where the context has a kubeconfig.
	Token config.Token
	// Notes are what a person should know: who the administrator is, where the password is.
	Notes []string
}

// Component is a part of the platform.
type Component struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Version string `json:"version,omitempty"`
	// Message says what is wrong, and what to do.
	Message string `json:"message,omitempty"`
}

// Report is the state of an installation.
type Report struct {
	Components []Component `json:"components"`
}

// Ready tells whether all of it is.
func (r *Report) Ready() bool {
	for _, component := range r.Components {
		if !component.Ready {
			return false
		}
	}
	return len(r.Components) > 0
}

// Installer installs the platform. All methods may be repeated: they bring about what is missing and leave alone what is
// as it should be.
type Installer interface {
	// Up installs the platform, or repairs it.
	Up(ctx context.Context, options UpOptions, progress Progress) (*Installation, error)
	// Down removes it. What is not there is no error.
	Down(ctx context.Context, options DownOptions, progress Progress) error
	// Status looks at it, and changes nothing. An installation that is not there is an exit.NotFound error.
	Status(ctx context.Context, options StatusOptions, progress Progress) (*Report, error)
}

var errNoInstaller = exit.Refusedf("use the program that the release brings along", "this build of cloud cannot install the platform")

// targetFlags adds the flags that say which installation is meant.
func targetFlags(cmd *cobra.Command, target *Target) {
	cmd.Flags().StringVar(&target.Kubeconfig, "kubeconfig", "", "`file` with the administrator's access to an existing cluster, to use instead of an embedded one")
	cmd.Flags().StringVar(&target.DataDir, "data-dir", DefaultDataDir, "`directory` of the embedded management cluster")
}

func (t *Target) check(cmd *cobra.Command) error {
	if t.Kubeconfig != "" && cmd.Flags().Changed("data-dir") {
		return exit.Usagef("--kubeconfig is for an existing cluster, --data-dir for an embedded one; give one of them")
	}
	if t.Kubeconfig == "" && t.DataDir == "" {
		return exit.Usagef("--data-dir is empty")
	}
	return nil
}

// steps turns what an installer tells into states of a display.
type steps struct {
	display progress.Display
	state   progress.State
	now     func() time.Time
}

func newSteps(s *session.Session, title string) *steps {
	return &steps{display: progress.New(s.Progress()), state: progress.State{Title: title}, now: s.Now}
}

// Step implements Progress.
func (s *steps) Step(name string) {
	s.end(v1alpha1.TaskSucceeded, "")
	s.state.Steps = append(s.state.Steps, progress.Step{Name: name, Phase: v1alpha1.TaskRunning, Started: s.now()})
	s.show()
}

// Report implements Progress.
func (s *steps) Report(message string) {
	if last := s.last(); last != nil {
		last.Message = message
		s.show()
	}
}

// finish ends the last step, and the display.
func (s *steps) finish(err error) {
	switch {
	case err == nil:
		s.end(v1alpha1.TaskSucceeded, "")
	case errors.Is(err, context.Canceled):
		s.end(v1alpha1.TaskCancelled, "")
	default:
		s.end(v1alpha1.TaskFailed, "")
	}
	s.show()
	s.display.Close(err == nil)
}

// show hands a copy over: the display draws it whenever it likes.
func (s *steps) show() {
	state := s.state
	state.Steps = slices.Clone(state.Steps)
	s.display.Update(state)
}

func (s *steps) end(phase v1alpha1.TaskPhase, message string) {
	if last := s.last(); last != nil && last.Phase == v1alpha1.TaskRunning {
		last.Phase, last.Message, last.Finished = phase, message, s.now()
	}
}

func (s *steps) last() *progress.Step {
	if len(s.state.Steps) == 0 {
		return nil
	}
	return &s.state.Steps[len(s.state.Steps)-1]
}
