package balancer

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Command is the word after cloudd that makes it a balancer.
const Command = "api-balancer"

// Args are the balancer's arguments, Command among them.
func Args(listen int, namespace string) []string {
	return []string{Command, fmt.Sprintf("--listen=:%d", listen), "--namespace=" + namespace}
}

// RunCommand runs a balancer with the arguments after Command until ctx ends. It reaches the API as pods do.
func RunCommand(ctx context.Context, args []string, log *slog.Logger) error {
	config := Config{Log: log}
	flags := pflag.NewFlagSet("cloudd "+Command, pflag.ContinueOnError)
	flags.StringVar(&config.Listen, "listen", "", "`address` to listen on")
	flags.StringVar(&config.Namespace, "namespace", "", "`namespace` of the ConfigMap "+Name+" that names the API servers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	api, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the management API: %w", err)
	}
	if config.API, err = kubernetes.NewForConfig(api); err != nil {
		return err
	}
	balancer, err := New(config)
	if err != nil {
		return err
	}
	return balancer.Run(ctx)
}
