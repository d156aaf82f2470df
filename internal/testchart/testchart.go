// Package testchart makes charts for tests of what installs them: each makes a ConfigMap that tells the chart's version and
// the values that it was given.
package testchart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// Write writes the archive of a chart into a folder, with further files.
func Write(tb testing.TB, dir, name, version string, more map[string]string) {
	tb.Helper()
	files := map[string]string{
		"Chart.yaml":               fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version),
		"templates/configmap.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: {{.Release.Namespace}}}\ndata: {version: %q, values: {{.Values | toJson | quote}}}\n", name, version),
	}
	maps.Copy(files, more)
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	writer := tar.NewWriter(compressed)
	for path, content := range files {
		must(tb, writer.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(content))}))
		_, err := writer.Write([]byte(content))
		must(tb, err)
	}
	must(tb, writer.Close())
	must(tb, compressed.Close())
	must(tb, os.WriteFile(filepath.Join(dir, name+"-"+version+".tgz"), out.Bytes(), 0o600))
}

// Index makes the folder a repository of one chart.
func Index(tb testing.TB, dir, name, version string) {
	tb.Helper()
	index := fmt.Sprintf("apiVersion: v1\nentries:\n  %[1]s:\n  - {apiVersion: v2, name: %[1]s, version: %[2]s, urls: [%[1]s-%[2]s.tgz]}\n", name, version)
	must(tb, os.WriteFile(filepath.Join(dir, "index.yaml"), []byte(index), 0o600))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
