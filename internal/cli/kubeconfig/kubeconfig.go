// Package kubeconfig writes kubeconfigs for kubectl: to standard output, or merged into the file that kubectl reads.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

// Path of the file that kubectl reads: the first of KUBECONFIG, or ~/.kube/config.
func Path(env func(string) string) (string, error) {
	for _, path := range filepath.SplitList(env("KUBECONFIG")) {
		if path != "" {
			return path, nil
		}
	}
	home := env("HOME")
	if home == "" {
		return "", errors.New("find kubectl's configuration: HOME is not set; set it, or KUBECONFIG")
	}
	return filepath.Join(home, ".kube", "config"), nil
}

// Rename gives a kubeconfig of one context this name, so that it finds a place among others.
func Rename(config *api.Config, name string) (*api.Config, error) {
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil || config.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("the kubeconfig has no current context")
	}
	renamed := api.NewConfig()
	renamed.Clusters[name] = config.Clusters[current.Cluster]
	renamed.AuthInfos[name] = config.AuthInfos[current.AuthInfo]
	place := current.DeepCopy()
	place.Cluster, place.AuthInfo = name, name
	renamed.Contexts[name] = place
	renamed.CurrentContext = name
	return renamed, nil
}

// Plugin is a user whose credentials this program tells when it is run with these arguments.
func Plugin(executable string, args ...string) *api.AuthInfo {
	program := executable
	if found, err := exec.LookPath("cloud"); err == nil && found == executable {
		program = "cloud" // which is where the PATH leads to
	}
	return &api.AuthInfo{Exec: &api.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: program, Args: args, InteractiveMode: api.NeverExecInteractiveMode,
		InstallHint: "cloud, the command line of PlasmaCloud, has to be there",
	}}
}

// Merge puts a kubeconfig into a file, in the place of what had its names before, and makes its context the current one.
func Merge(path string, config *api.Config) error {
	merged := api.NewConfig()
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		if merged, err = clientcmd.LoadFromFile(path); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		mode = info.Mode().Perm() &^ 0o077 // there are credentials in it from now on
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, cluster := range config.Clusters {
		merged.Clusters[name] = cluster
	}
	for name, user := range config.AuthInfos {
		merged.AuthInfos[name] = user
	}
	for name, context := range config.Contexts {
		merged.Contexts[name] = context
	}
	merged.CurrentContext = config.CurrentContext
	content, err := clientcmd.Write(*merged)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, content, mode)
}
