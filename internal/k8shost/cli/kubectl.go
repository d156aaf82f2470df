package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/release"
)

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] …",
		Short: "Run kubectl as the administrator of this server's cluster",
		Long: "kubectl runs the release's own kubectl with the administrator's kubeconfig of the server in --data-dir\n" +
			"(the first argument, or K8SHOST_DATA_DIR); where KUBECONFIG is set, or --kubeconfig given, with that.",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dataDir, args := cutDataDir(args)
			dir := datadir.New(dataDir)
			binary, err := kubeBinary(dir)
			if err != nil {
				return err
			}
			env := os.Environ()
			if os.Getenv("KUBECONFIG") == "" && !namesKubeconfig(args) {
				if _, err := os.Stat(dir.AdminKubeconfig()); errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("no server in %s (its kubeconfig is missing): give --data-dir, or set KUBECONFIG", dataDir)
				}
				env = append(env, "KUBECONFIG="+dir.AdminKubeconfig())
			}
			return syscall.Exec(binary, append([]string{"kubectl"}, args...), env)
		},
	}
}

// cutDataDir takes --data-dir off the front; all else is kubectl's.
func cutDataDir(args []string) (string, []string) {
	dataDir := os.Getenv("K8SHOST_DATA_DIR")
	if dataDir == "" {
		dataDir = config.DefaultDataDir
	}
	const flag = "--data-dir"
	switch {
	case len(args) >= 2 && args[0] == flag:
		return args[1], args[2:]
	case len(args) >= 1 && len(args[0]) > len(flag) && args[0][:len(flag)+1] == flag+"=":
		return args[0][len(flag)+1:], args[1:]
	}
	return dataDir, args
}

// namesKubeconfig tells whether kubectl is given a kubeconfig. What follows -- is for others.
func namesKubeconfig(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.ContainsFunc(args, func(arg string) bool { return arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=") })
}

// kubeBinary is the Kubernetes that the node runs, or the newest where it has run none.
func kubeBinary(dir datadir.Dir) (string, error) {
	releaseDir, err := release.Locate("")
	if err != nil {
		return "", err
	}
	catalogue, err := release.Open(releaseDir)
	if err != nil {
		return "", err
	}
	last, err := dir.LastVersion()
	if err != nil {
		return "", err
	}
	if binary, err := catalogue.Kube(last); err == nil {
		return binary, nil
	}
	version, err := catalogue.Resolve("")
	if err != nil {
		return "", err
	}
	return catalogue.Kube(version)
}
