package resource

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/manifest"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/progress"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Waiting is the flags of a command that can wait for what it asked for.
type Waiting struct {
	Wait    bool
	Timeout time.Duration
}

// AddTo adds them to a command.
func (w *Waiting) AddTo(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVar(&w.Wait, "wait", false, "wait until "+until)
	cmd.Flags().DurationVar(&w.Timeout, "timeout", 15*time.Minute, "`time` that --wait waits at most")
}

// Check refuses a timeout that is none.
func (w *Waiting) Check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("timeout") && !w.Wait {
		return exit.Usagef("--timeout is for --wait; give both, or none")
	}
	if w.Timeout <= 0 {
		return exit.Usagef("--timeout: give a time, such as 90s or 10m")
	}
	return nil
}

// DryRun is the flag of a command that can only pretend.
type DryRun struct{ mode string }

// AddTo adds it to a command.
func (d *DryRun) AddTo(cmd *cobra.Command) {
	command.Choice(cmd, cmd.Flags(), &d.mode, "dry-run", "", "none", "server has the API check everything and change nothing", "none", "server")
}

// On tells whether it was given.
func (d *DryRun) On() bool { return d.mode == "server" }

// Note is put after messages of what was not done.
func (d *DryRun) Note() string {
	if d.On() {
		return " (server dry run)"
	}
	return ""
}

// Creation is the flags that every create has, and how it ends.
type Creation struct {
	Name    string // of --name
	File    string
	Export  bool
	DryRun  DryRun
	Waiting Waiting
}

// AddTo adds the flags to a command.
func (c *Creation) AddTo(cmd *cobra.Command, noun string) {
	cmd.Flags().StringVar(&c.Name, "name", "", "`name` of the "+noun+"; it may also be the argument")
	cmd.Flags().BoolVar(&c.Export, "export", false, "print the manifest instead of sending it")
	c.DryRun.AddTo(cmd)
}

// AddFile adds -f to a command.
func (c *Creation) AddFile(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.File, "file", "f", "", "`file` with the manifest, - for standard input; flags change what it says")
}

// Load reads the manifest of -f, where it is given, and gives the object its name.
func Load[T client.Object](cmd *cobra.Command, s *session.Session, k *Kind[T], c *Creation, args []string) (object T, err error) {
	object = k.New()
	if c.File != "" {
		if err := manifest.Read(c.File, s.In, k.GVK(), object); err != nil {
			return object, err
		}
		if c.Name == "" && len(args) == 0 {
			c.Name = object.GetName()
		}
	}
	name, err := command.Name(cmd, c.Name, args)
	object.SetName(name)
	return object, err
}

// Create sends an object to the API, or does with it what the flags ask for instead.
func (k *Kind[T]) Create(ctx context.Context, s *session.Session, object T, c *Creation) error {
	namespace, err := k.namespace(s)
	if err != nil && !c.Export {
		return err
	}
	if asked := object.GetNamespace(); asked != "" && asked != namespace {
		return exit.Usagef("--file: it is for project %s, and the command for another; give --project %s", projectOf(object), projectOf(object))
	}
	object.SetNamespace(namespace)
	clean, err := manifest.Clean(object, k.GVK())
	if err != nil {
		return err
	}
	if c.Export {
		printer := s.Printer()
		if printer.Format == output.FormatTable {
			printer.Format = output.FormatYAML
		}
		return printer.Print(output.View{Value: clean.Object, Names: []string{clean.GetName()}})
	}
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	var opts []client.CreateOption
	if c.DryRun.On() {
		opts = append(opts, client.DryRunAll)
	}
	err = api.Create(ctx, clean, opts...)
	if apierrors.IsAlreadyExists(err) {
		return exit.Refusedf("choose another name, or delete it first", "there is %s %s %q already", article(k.Noun), k.Noun, object.GetName())
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", k.Noun, object.GetName(), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(clean.Object, object); err != nil {
		return fmt.Errorf("read the %s that was created: %w", k.Noun, err)
	}
	if !c.Waiting.Wait || c.DryRun.On() {
		s.Note("%s %s created%s", k.Noun, object.GetName(), c.DryRun.Note())
		return k.answer(s, object)
	}
	if err := k.Await(ctx, s, object, v1alpha1.OperationCreate, c.Waiting.Timeout); err != nil {
		return err
	}
	if object, err = k.Fetch(ctx, s, object.GetName()); err != nil {
		return err
	}
	return k.answer(s, object)
}

// answer writes what was made, where a program asked for it.
func (k *Kind[T]) answer(s *session.Session, object T) error {
	if s.Flags.Output == output.FormatTable {
		return nil
	}
	return k.Show(s, object)
}

// Await waits until an object is as it was asked to be, and shows how far it is.
func (k *Kind[T]) Await(ctx context.Context, s *session.Session, object T, operation v1alpha1.Operation, timeout time.Duration) error {
	return Await(ctx, s, k.Target(object, operation), timeout)
}

// Target is what to wait for after an operation on an object.
func (k *Kind[T]) Target(object T, operation v1alpha1.Operation) progress.Target {
	return progress.Target{
		Noun: k.Noun, Operation: operation, Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		Generation: object.GetGeneration(), List: k.NewList(), Tasks: k.Tasks,
	}
}

// Await waits for a target, and shows how far it is.
func Await(ctx context.Context, s *session.Session, target progress.Target, timeout time.Duration) error {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return progress.Wait(ctx, api, progress.New(s.Progress()), target)
}
