package platform

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// VariableRedis is the URL of the queue's Redis: the place for one that holds a password.
const VariableRedis = "PLASMACLOUD_REDIS"

// defaultContext is what an installation is called unless the user says otherwise.
const defaultContext = "default"

// Up is the command.
func Up(s *session.Session, installer Installer) *cobra.Command {
	var options UpOptions
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Install the platform on this host, or on an existing cluster, or repair it",
		Long: "up starts a management cluster on this host and installs the platform on it, with a default organization, project,\n" +
			"account and network; with --kubeconfig it installs onto a cluster that exists. Then it makes the installation the\n" +
			"current context. It may be repeated: what is there stays, what is missing or broken is mended.",
		Example: "  cloud up\n  cloud up --kubeconfig admin.conf --redis rediss://redis.example.com:6379/0\n  cloud up --kubeconfig admin.conf --endpoint-address 192.0.2.10",
		Args:    command.None,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := options.check(cmd); err != nil {
				return err
			}
			if options.Redis, err = redis(options.Redis, s.Env(VariableRedis)); err != nil {
				return err
			}
			if err := checkEndpoint(options.EndpointAddress); err != nil {
				return err
			}
			if err := checkStorage(&options); err != nil {
				return err
			}
			if options.Kubeconfig != "" {
				if options.FilesDir, err = filesDir(s); err != nil {
					return err
				}
			}
			if installer == nil {
				return errNoInstaller
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			steps := newSteps(s, "install PlasmaCloud")
			installed, err := installer.Up(ctx, options, steps)
			steps.finish(err)
			if err != nil {
				return fmt.Errorf("install: %w", err)
			}
			return remember(cmd.Context(), s, installed)
		},
	}
	targetFlags(cmd, &options.Target)
	cmd.Flags().StringVar(&options.Redis, "redis", "", "`URL` of a Redis to carry the task queue, or none for cloudd's memory, which is what it is at first; one with a password goes into "+VariableRedis)
	cmd.Flags().StringVar(&options.Image, "image", "", "`name` of cloudd's image in a registry that the nodes can reach; otherwise the release's own, which the nodes of an existing cluster have to have")
	cmd.Flags().StringVar(&options.EndpointAddress, "endpoint-address", "", "IP `address` that the APIs of new hosted clusters are reached under: of a load balancer that passes the node ports on to the nodes; a node's own where none was ever given")
	cmd.Flags().StringVar(&options.StorageDir, "storage-dir", "", "`directory` for the data of etcds on the nodes of an existing cluster that has no default storage class; "+DefaultDataDir+" where none was ever given")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "`time` after which to give up")
	return cmd
}

func checkEndpoint(address string) error {
	if parsed, err := netip.ParseAddr(address); address != "" && (err != nil || !parsed.Is4() || parsed.IsUnspecified() || parsed.IsLoopback()) {
		return exit.Usagef("--endpoint-address: %q is no IPv4 address that others could reach", address)
	}
	return nil
}

func checkStorage(options *UpOptions) error {
	switch dir := options.StorageDir; {
	case dir == "":
		return nil
	case options.Kubeconfig == "":
		return exit.Usagef("--storage-dir is for an existing cluster; an embedded one keeps everything in --data-dir")
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/":
		return exit.Usagef("--storage-dir: %q is no absolute path of a directory of its own", dir)
	}
	return nil
}

// filesDir is beside the configuration, and named after the context.
func filesDir(s *session.Session) (string, error) {
	store, err := s.Store()
	if err != nil {
		return "", err
	}
	return filepath.Abs(filepath.Join(filepath.Dir(store.Path()), cmp.Or(s.ContextName(), defaultContext)))
}

// redis checks the URL from the command line, or else from the environment. A command line can be seen by all users of
// the host, so no password may be in it.
func redis(flag, variable string) (string, error) {
	name, text := "--redis", flag
	if flag == "" {
		name, text = VariableRedis, variable
	}
	if text == "" || text == NoRedis {
		return text, nil
	}
	parsed, err := url.Parse(text)
	if err != nil || (parsed.Scheme != "redis" && parsed.Scheme != "rediss") || parsed.Host == "" {
		return "", exit.Usagef("%s: this is no URL of a Redis; it looks like redis://127.0.0.1:6379/0", name) // not quoted: it may hold a password
	}
	if _, secret := parsed.User.Password(); secret && flag != "" {
		return "", exit.Usagef("--redis: others can see a command line, and this URL holds a password; set %s instead", VariableRedis)
	}
	return text, nil
}

// remember makes the installation the current context. The project that the user chose there before stays.
func remember(ctx context.Context, s *session.Session, installed *Installation) error {
	store, err := s.Store()
	if err != nil {
		return err
	}
	place := installed.Context
	if place.Kubeconfig != "" { // it has to be found from elsewhere too
		if place.Kubeconfig, err = filepath.Abs(place.Kubeconfig); err != nil {
			return err
		}
	}
	place.Name = cmp.Or(s.ContextName(), place.Name)
	keep := false
	err = store.Update(ctx, func(file *config.File) error {
		if old := file.Find(place.Name); old != nil && old.Project != "" {
			place.Project = old.Project
		}
		if old := file.Find(place.Name); old != nil && old.CA == place.CA && old.IAM == place.IAM && old.User != "" && old.User != place.User {
			place.User, keep = old.User, true // somebody else is logged in here, and stays
		}
		file.Put(place)
		file.CurrentContext = place.Name
		return nil
	})
	if err != nil {
		return fmt.Errorf("remember the installation: %w", err)
	}
	if installed.Token.AccessToken != "" && !keep {
		if _, err := store.UpdateToken(ctx, place.Name, func(config.Token) (config.Token, error) { return installed.Token, nil }); err != nil {
			return fmt.Errorf("remember the session: %w", err)
		}
	}
	for _, note := range installed.Notes {
		s.Note("%s", note)
	}
	s.Note("the current context is %s, the project %s", place.Name, place.Project)
	return nil
}
