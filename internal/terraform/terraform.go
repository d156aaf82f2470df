// Package terraform runs OpenTofu for the platform: it prepares a workspace for each stack, plans, shows what a plan
// would do in words for people, checks it against policies, applies that very plan, and follows its progress. Secrets
// reach tofu by its environment and by files that only their owner reads, never by arguments, and leave it only
// redacted. What stacks are made of is in /terraform; how resources become variables is in the packages aws, gcp and
// azure below this one; where states are kept is in state.
package terraform

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// Defaults of a driver.
const (
	// DefaultGrace is how long a cancelled operation may take to come to an end: tofu waits for what the cloud is
	// making, and an EKS cluster alone takes a quarter of an hour.
	DefaultGrace = time.Hour
	// DefaultLockTimeout is how long to wait for another operation on the same stack.
	DefaultLockTimeout = 2 * time.Minute
)

// Config is where the engine is, and how it is run.
type Config struct {
	Binary      string        // tofu, or a terraform
	Mirror      string        // folder that providers are installed from
	Root        string        // folder of the workspaces
	Grace       time.Duration // DefaultGrace if it is 0
	LockTimeout time.Duration // DefaultLockTimeout if it is 0
	Parallelism int           // operations on the cloud at a time; the engine's default if it is 0
	Log         *slog.Logger
}

// Driver runs the engine. It is safe for use by many stacks at a time.
type Driver struct{ config Config }

// New checks that the engine is there, and that it can be run.
func New(config Config) (*Driver, error) {
	if config.Grace == 0 {
		config.Grace = DefaultGrace
	}
	if config.LockTimeout == 0 {
		config.LockTimeout = DefaultLockTimeout
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	for name, path := range map[string]*string{"engine": &config.Binary, "mirror": &config.Mirror, "root": &config.Root} {
		if *path == "" {
			return nil, fmt.Errorf("configure terraform: no %s given", name)
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("configure terraform: %w", err)
		}
		*path = absolute
	}
	if longest := longestTemporary - len("/"+shortName("")); len(config.Root) > longest {
		return nil, fmt.Errorf("configure terraform: the folder for workspaces, %s, has too long a name for providers' sockets: it may have %d characters", config.Root, longest)
	}
	if err := os.MkdirAll(config.Root, 0o700); err != nil {
		return nil, fmt.Errorf("configure terraform: %w", err)
	}
	if _, err := exec.LookPath(config.Binary); err != nil {
		return nil, fmt.Errorf("configure terraform: %w", err)
	}
	return &Driver{config}, nil
}

// Stack is infrastructure that lives and dies together: one configuration, its variables, and one state.
type Stack struct {
	// Name is unique among all stacks.
	Name string
	// Configuration is what to make.
	Configuration Configuration
	// Variables of the configuration: a struct with JSON tags, or a map.
	Variables any
	// Backend is where the state is.
	Backend Backend
	// Environment holds the credentials. All of its values are secrets.
	Environment map[string]string
	// Secrets are further values that no output may show.
	Secrets []string
}

// Configuration is a folder of *.tf files, and the lock file of the providers that it uses.
type Configuration struct {
	Files map[string][]byte // by name, without folders
	Lock  []byte
}

// Backend is where a state is: a type of backend that the engine knows, and its settings. What is secret of it goes
// into the environment.
type Backend struct {
	Type        string            `json:"type"`
	Settings    map[string]any    `json:"settings"`
	Environment map[string]string `json:"-"`
}

// Types of backends that states can be in besides the platform's own.
const (
	BackendS3       = "s3"
	BackendGCS      = "gcs"
	BackendAzureRM  = "azurerm"
	BackendPostgres = "pg"
)

// HTTPBackend is the platform's own, at the address of the stack's state.
func HTTPBackend(address, user, token string) Backend {
	return Backend{
		Type: "http",
		Settings: map[string]any{
			"address": address, "lock_address": address, "unlock_address": address,
			"retry_max": 5, "retry_wait_min": 1, "retry_wait_max": 10,
		},
		Environment: map[string]string{"TF_HTTP_USERNAME": user, "TF_HTTP_PASSWORD": token},
	}
}

// LocalBackend keeps the state in a file.
func LocalBackend(path string) Backend {
	return Backend{Type: "local", Settings: map[string]any{"path": path}}
}

var (
	stackName  = regexp.MustCompile(`^[a-z0-9]([-._a-z0-9]{0,198}[a-z0-9])?$`)
	fileName   = regexp.MustCompile(`^[a-zA-Z0-9][-_.a-zA-Z0-9]*$`)
	secretName = regexp.MustCompile(`(?i)secret|password|token|key|credential|certificate`)
)

// secretSettings are what the backends that the engine knows can be told in files, and should not be.
var secretSettings = map[string]bool{
	"password": true, "username": true, "access_key": true, "secret_key": true, "token": true, "sas_token": true, "client_secret": true,
	"client_certificate_password": true, "credentials": true, "access_token": true, "encryption_key": true, "conn_str": true,
}

func (s *Stack) validate() error {
	var errs []error
	if !stackName.MatchString(s.Name) {
		errs = append(errs, fmt.Errorf("stack %q: use lower-case letters, digits, '.', '-' and '_'", s.Name))
	}
	if len(s.Configuration.Files) == 0 {
		errs = append(errs, fmt.Errorf("stack %s has no configuration", s.Name))
	}
	for name := range s.Configuration.Files {
		if !fileName.MatchString(name) {
			errs = append(errs, fmt.Errorf("stack %s: %q is no name of a configuration's file", s.Name, name))
		}
	}
	if s.Backend.Type == "" {
		errs = append(errs, fmt.Errorf("stack %s has no backend for its state", s.Name))
	}
	for name := range s.Backend.Settings {
		if secretSettings[name] {
			errs = append(errs, fmt.Errorf("stack %s: backend setting %s is a secret, which goes into the environment", s.Name, name))
		}
	}
	return errors.Join(errs...)
}
