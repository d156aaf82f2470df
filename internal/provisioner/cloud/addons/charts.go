package addons

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/registry"
	repo "helm.sh/helm/v4/pkg/repo/v1"
)

// RepositoryVariable is a variable among a cloud's settings: where charts come from that the release does not have,
// oci://… or https://…. It is the operator's to name, as it is the platform itself that goes there.
const RepositoryVariable = "PLASMACLOUD_CHARTS"

// Charts are where charts come from.
type Charts struct {
	// Dir of the release holds charts as archives, <name>-<version>.tgz; it need not be there.
	Dir string
	// Scratch is for what is fetched.
	Scratch string
}

// NoChartError says that a chart cannot be had.
type NoChartError struct{ why string }

func (e *NoChartError) Error() string { return e.why }

// load finds the newest version of a chart: the release's, and otherwise the repository's.
func (c Charts) load(name, repository string) (*chart.Chart, error) {
	file, err := c.newest(name)
	if err != nil {
		return nil, err
	}
	if file != "" {
		return loader.Load(file)
	}
	if repository == "" {
		return nil, &NoChartError{fmt.Sprintf("the release has no such chart, and no repository is named (%s)", RepositoryVariable)}
	}
	dir, err := os.MkdirTemp(c.Scratch, "charts-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing in it is secret
	if file, err = fetch(dir, name, repository); err != nil {
		return nil, &NoChartError{fmt.Sprintf("the release has no such chart, and %s does not give it: %v", repository, err)}
	}
	return loader.Load(file)
}

// newest is the archive of a chart in the release; nothing if there is none.
func (c Charts) newest(name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(c.Dir, name+"-*.tgz"))
	if err != nil {
		return "", err
	}
	var best, file string
	for _, candidate := range files {
		version := "v" + strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(candidate), name+"-"), ".tgz"), "v")
		if semver.IsValid(version) && (best == "" || semver.Compare(version, best) > 0) { // others are of charts with longer names
			best, file = version, candidate
		}
	}
	return file, nil
}

// fetch downloads the newest version of a chart into a folder.
func fetch(dir, name, repository string) (string, error) {
	settings := cli.New()
	settings.RepositoryCache, settings.ContentCache, settings.PluginsDirectory = dir, dir, filepath.Join(dir, "plugins")
	settings.RepositoryConfig, settings.RegistryConfig = filepath.Join(dir, "repositories.yaml"), filepath.Join(dir, "registry.json")
	client, err := registry.NewClient(registry.ClientOptWriter(discard{}), registry.ClientOptCredentialsFile(settings.RegistryConfig))
	if err != nil {
		return "", err
	}
	pull := action.NewInstall(action.NewConfiguration())
	pull.SetRegistryClient(client)
	if registry.IsOCI(repository) {
		return pull.LocateChart(strings.TrimSuffix(repository, "/")+"/"+name, settings)
	}
	address, err := lookUp(dir, name, repository, getter.All(settings))
	if err != nil {
		return "", err
	}
	return pull.LocateChart(address, settings)
}

// lookUp finds the newest version of a chart in the index of a repository. Helm's own way to do so writes to the home
// directory, and the daemon has none.
func lookUp(dir, name, repository string, getters getter.Providers) (string, error) {
	r, err := repo.NewChartRepository(&repo.Entry{Name: "charts", URL: repository}, getters)
	if err != nil {
		return "", err
	}
	r.CachePath = dir
	file, err := r.DownloadIndexFile()
	if err != nil {
		return "", err
	}
	index, err := repo.LoadIndexFile(file)
	if err != nil {
		return "", err
	}
	found, err := index.Get(name, "")
	if err != nil {
		return "", err
	}
	if len(found.URLs) == 0 {
		return "", fmt.Errorf("it does not say where version %s is", found.Version)
	}
	return repo.ResolveReferenceURL(repository, found.URLs[0])
}

// discard is for what Helm would tell a person.
type discard struct{}

func (discard) Write(data []byte) (int, error) { return len(data), nil }

// plain is a document as JSON has it, so that two that mean the same are the same.
func plain(values map[string]any) any {
	content, err := json.Marshal(values)
	if err != nil {
		return values
	}
	var same any
	if err := json.Unmarshal(content, &same); err != nil || len(values) == 0 {
		return nil
	}
	return same
}
