package byoclab

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// NothingTold looks for secrets in all that a run leaves: the log, the workspaces and the states.
func (l *Lab) NothingTold(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, Secret) {
		if strings.Contains(l.Log.String(), secret) {
			t.Errorf("the log tells %q", secret)
		}
		for _, root := range []string{l.root, l.states} {
			err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				data, err := os.ReadFile(path)
				if bytes.Contains(data, []byte(secret)) {
					t.Errorf("%s holds %q", path, secret)
				}
				return err
			})
			must(t, err)
		}
	}
}

// Left are the files in the lab's workspaces.
func (l *Lab) Left(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(l.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, l.root+"/"))
		}
		return err
	})
	must(t, err)
	return files
}

// Contents are the texts in a stack's state that are long enough to be recognised anywhere: ARNs, addresses, certificates,
// policies, outputs. Names and IDs are not among them: people are told what is being made, and an import names it.
func (l *Lab) Contents(t *testing.T, stack string) []string {
	t.Helper()
	data, err := l.Backend.Get(t.Context(), stack)
	must(t, err)
	var document struct {
		Outputs   map[string]any
		Resources []struct {
			Instances []struct{ Attributes map[string]any }
		}
	}
	must(t, json.Unmarshal(data, &document))
	found, names := map[string]bool{}, map[string]bool{}
	collect(document.Outputs, found, names)
	for _, resource := range document.Resources {
		for _, instance := range resource.Instances {
			collect(instance.Attributes, found, names)
		}
	}
	maps.DeleteFunc(found, func(text string, _ bool) bool { return names[text] })
	return slices.Sorted(maps.Keys(found))
}

// recognisable is the length of a text that is nowhere by chance.
const recognisable = 24

func collect(value any, found, names map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if name == "id" || name == "name" {
				collect(inner, names, names)
			} else {
				collect(inner, found, names)
			}
		}
	case []any:
		for _, inner := range value {
			collect(inner, found, names)
		}
	case string:
		if len(value) >= recognisable {
			found[value] = true
		}
	}
}

// Watch is what others on the same host could see while operations run.
type Watch struct {
	Arguments []string // of all processes in the lab's workspaces
	Exposed   []string // files that everybody could read
	Processes int      // how many were seen
}

// Watching looks over the shoulder of all that works in the lab, until it is told to stop.
func (l *Lab) Watching(t *testing.T) (stop func() Watch) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan Watch)
	go func() {
		arguments, exposed, pids := map[string]bool{}, map[string]bool{}, map[int]bool{}
		for {
			select {
			case <-quit:
				done <- Watch{slices.Sorted(maps.Keys(arguments)), slices.Sorted(maps.Keys(exposed)), len(pids)}
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, pid := range l.Processes(t) {
				pids[pid] = true
				if line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err == nil {
					arguments[string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))] = true
				}
			}
			readable(l.root, exposed)
			readable(l.states, exposed)
		}
	}()
	return func() Watch {
		close(quit)
		return <-done
	}
}

// readable finds the files that everybody could read: those in folders that everybody may enter. What vanishes meanwhile
// is none.
func readable(dir string, found map[string]bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		path := filepath.Join(dir, entry.Name())
		switch {
		case err != nil:
		case info.IsDir() && info.Mode()&0o001 != 0:
			readable(path, found)
		case info.Mode().IsRegular() && info.Mode()&0o044 != 0:
			found[path] = true
		}
	}
}
