package k3s

import (
	"context"
	_ "embed"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

var _ hostsetup.Survivor = (*Distribution)(nil)

const stepSurvive = "go on alone"

//go:embed script/survive.sh
var surviveScript string

// Survive implements hostsetup.Survivor: the server is started once to reset its cluster, which k8shost and k3s do alike.
func (d *Distribution) Survive(ctx context.Context, host hostsetup.Host) error {
	_, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: stepSurvive, Timeout: startPatience,
		Args: []string{"sh", "-c", surviveScript, "sh", server.unit(), server.settingsFile(), d.program()},
	})
	return err
}
