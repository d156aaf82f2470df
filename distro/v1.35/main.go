// Command kube is every Kubernetes program in one file. It looks at the name it was called by, or at its first
// argument, and runs that program: kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet,
// kubeadm or kubectl. One file means one download, one image layer and shared pages in memory.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs, where the host has no zoneinfo

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps a program's name to its main function. A function, not a map of commands: building a command
// registers flags and feature gates, and only the one that runs may do so.
var programs = map[string]func(){
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	"kube-proxy":              func() { run(proxy.NewProxyCommand()) },
	"kubelet":                 func() { run(kubelet.NewKubeletCommand(context.Background())) },
	"kubeadm":                 func() { kubeadmerrors.HandleError(kubeadm.Run()) },
	"kubectl":                 runKubectl,
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	program := programs[name]
	if program == nil {
		names := make([]string, 0, len(programs))
		for n := range programs {
			names = append(names, n)
		}
		fmt.Fprintf(os.Stderr, "kube: no program %q; have %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	becomeThrifty()
	program()
}

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

func runKubectl() {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) //nolint:errcheck // an invalid level is reported by flag parsing
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
