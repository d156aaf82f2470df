package k8s

import (
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// addonNames are the add-ons that can be switched on, as the API spells them.
func addonNames() []string {
	return []string{"certManager", "gatewayAPI", "ingressNginx", "gpuOperator", "fluxcd", "monitoringAgents", "velero"}
}

// enable switches an add-on on. Its name may be spelt with dashes and in any case.
func enable(addons *v1alpha1.Addons, name string) error {
	switch strings.ToLower(strings.ReplaceAll(name, "-", "")) {
	case "certmanager":
		addons.CertManager.Enabled = true
	case "gatewayapi":
		addons.GatewayAPI.Enabled = true
	case "ingressnginx":
		addons.IngressNginx.Enabled = true
	case "gpuoperator":
		addons.GPUOperator.Enabled = true
	case "fluxcd":
		addons.FluxCD.Enabled = true
	case "monitoringagents":
		addons.MonitoringAgents.Enabled = true
	case "velero":
		addons.Velero.Enabled = true
	case "cilium", "coredns", "verticalpodautoscaler":
		return exit.Usagef("--addon: %s is not switched on, but there where it applies; its values can be set with -f", name)
	default:
		return exit.Usagef("--addon: there is no add-on %q; there are %s%s", name, strings.Join(addonNames(), ", "), command.DidYouMean(name, addonNames(), ""))
	}
	return nil
}
