package addons

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// releaseTimeout is for a chart's hooks. What it makes is not waited for: there may be no nodes yet.
	releaseTimeout = 3 * time.Minute
	// releases of a chart that are kept.
	maxHistory = 5
)

// release installs a chart, or brings its release to another version or other values. One that is as it should be is left
// alone, and one that somebody was killed over is taken up.
func (i *Installer) release(ctx context.Context, config *rest.Config, c Chart, loaded *chart.Chart) error {
	helm := action.NewConfiguration(action.ConfigurationSetLogger(i.Log.Handler()))
	if err := helm.Init(&access{config: config, namespace: c.Namespace}, c.Namespace, "secret"); err != nil {
		return err
	}
	last, err := helm.Releases.Last(c.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		install := action.NewInstall(helm)
		install.ReleaseName, install.Namespace, install.CreateNamespace = c.Name, c.Namespace, true
		install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, releaseTimeout
		_, err := install.RunWithContext(ctx, loaded, c.Values)
		return err
	}
	if err != nil {
		return err
	}
	release, ok := last.(*releasev1.Release)
	if !ok {
		return fmt.Errorf("its release is a %T", last)
	}
	switch {
	case release.Info.Status == common.StatusDeployed && release.Chart.Metadata.Version == loaded.Metadata.Version && equality.Semantic.DeepEqual(plain(release.Config), plain(c.Values)):
		return nil
	case release.Info.Status.IsPending() || release.Info.Status == common.StatusUninstalling:
		release.SetStatus(common.StatusFailed, "whoever began this was ended before it was done")
		if err := helm.Releases.Update(release); err != nil {
			return err
		}
	}
	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace, upgrade.MaxHistory, upgrade.ResetValues = c.Namespace, maxHistory, true
	upgrade.WaitStrategy, upgrade.Timeout = kube.HookOnlyStrategy, releaseTimeout
	_, err = upgrade.RunWithContext(ctx, c.Name, loaded, c.Values)
	return err
}

// access is how Helm reaches a cluster.
type access struct {
	config    *rest.Config
	namespace string
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (a *access) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(a.config), nil }

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (a *access) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(a.config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (a *access) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := a.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter. Helm asks it for the namespace alone.
func (a *access) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: a.namespace}})
}
