package addons

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
)

// pend leaves a release as somebody does who is killed over it.
func pend(t *testing.T, i *Installer, namespace, name string) {
	t.Helper()
	helm := action.NewConfiguration(action.ConfigurationSetLogger(i.Log.Handler()))
	if err := helm.Init(&access{config: api.Config(), namespace: namespace}, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	last, err := helm.Releases.Last(name)
	if err != nil {
		t.Fatal(err)
	}
	release, ok := last.(*releasev1.Release)
	if !ok {
		t.Fatalf("a release is a %T", last)
	}
	release.SetStatus(common.StatusPendingInstall, "")
	if err := helm.Releases.Update(release); err != nil {
		t.Fatal(err)
	}
}
