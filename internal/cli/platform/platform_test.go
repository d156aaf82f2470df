package platform

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// fake is an installer that remembers what it was asked.
type fake struct {
	up     []UpOptions
	down   []DownOptions
	err    error
	report *Report
}

func (f *fake) Up(_ context.Context, options UpOptions, progress Progress) (*Installation, error) {
	f.up = append(f.up, options)
	progress.Step("start k8shost")
	progress.Report("waiting for the API")
	progress.Step("install CRDs")
	if f.err != nil {
		return nil, f.err
	}
	if options.Kubeconfig != "" {
		return &Installation{Context: config.Context{Name: "existing", Kubeconfig: options.Kubeconfig, Project: "default"}}, nil
	}
	return &Installation{
		Context: config.Context{Name: "local", Server: "https://127.0.0.1:6443", IAM: "https://127.0.0.1:9443", Project: "default", User: "admin@plasmacloud.local"},
		Token:   config.Token{AccessToken: "a", RefreshToken: "r"},
		Notes:   []string{"the administrator's password is in /var/lib/plasmacloud/password"},
	}, nil
}

func (f *fake) Down(_ context.Context, options DownOptions, progress Progress) error {
	f.down = append(f.down, options)
	progress.Step("stop k8shost")
	return f.err
}

func (f *fake) Status(context.Context, StatusOptions, Progress) (*Report, error) {
	return f.report, f.err
}

// run runs up, down or status.
func run(t *testing.T, f *fake, env map[string]string, input string, terminal bool, line string) (string, string, exit.Code) {
	t.Helper()
	var out, err strings.Builder
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := session.New(session.Parts{
		In: strings.NewReader(input), Out: &out, Err: &err, Now: func() time.Time { return now },
		Env:      func(name string) string { return env[name] },
		Terminal: session.Terminal{In: terminal, Width: func() int { return 80 }},
	})
	root := &cobra.Command{Use: "cloud", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().StringVar(&s.Flags.Context, "context", "", "")
	root.PersistentFlags().StringVarP(&s.Flags.Output, "output", "o", "table", "")
	root.AddCommand(Up(s, f), Down(s, f), Status(s, f))
	root.SetArgs(strings.Fields(line))
	failure := root.ExecuteContext(t.Context())
	if failure != nil {
		exit.Report(&err, failure)
	}
	return out.String(), err.String(), exit.Of(failure)
}

func TestUpRemembersTheInstallation(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	f := &fake{}
	_, messages, code := run(t, f, env, "", false, "up --redis rediss://redis.example.com:6379/0")
	const want = `install PlasmaCloud
  1/1 start k8shost: running
  1/1 start k8shost: running: waiting for the API
  1/2 start k8shost: done 0s
  2/2 install CRDs: running
  2/2 install CRDs: done 0s
install PlasmaCloud: done in 0s
the administrator's password is in /var/lib/plasmacloud/password
the current context is local, the project default
`
	if code != exit.OK || messages != want {
		t.Errorf("%d\n%s", code, messages)
	}
	if f.up[0] != (UpOptions{Target: Target{DataDir: DefaultDataDir}, Redis: "rediss://redis.example.com:6379/0"}) {
		t.Errorf("%+v", f.up[0])
	}
	store, err := config.Locate(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	file, err := store.Load()
	if err != nil || file.CurrentContext != "local" || file.Find("local").User != "admin@plasmacloud.local" {
		t.Errorf("%+v %v", file, err)
	}
	if token, err := store.Token("local"); err != nil || token.RefreshToken != "r" {
		t.Errorf("%+v %v", token, err)
	}
	// Again: what the user has chosen since stays.
	if err := store.Update(t.Context(), func(file *config.File) error { file.Find("local").Project = "web"; return nil }); err != nil {
		t.Fatal(err)
	}
	env["PLASMACLOUD_REDIS"] = "redis://:secret@redis:6379"
	if _, messages, code := run(t, f, env, "", false, "up"); code != exit.OK || !strings.Contains(messages, "the project web") {
		t.Errorf("%d %s", code, messages)
	}
	if f.up[1].Redis != env["PLASMACLOUD_REDIS"] {
		t.Errorf("%+v", f.up[1])
	}
	if _, _, code := run(t, f, env, "", false, "up --kubeconfig admin.conf --image registry.example.com/cloudd:1"); code != exit.OK || f.up[2].Kubeconfig != "admin.conf" || f.up[2].Image != "registry.example.com/cloudd:1" {
		t.Errorf("%d %+v", code, f.up[2])
	}
	if want := filepath.Join(env["HOME"], ".config", "plasmacloud", "default"); f.up[2].FilesDir != want {
		t.Errorf("files go to %s, want %s", f.up[2].FilesDir, want)
	}
	if file, err := store.Load(); err != nil || !filepath.IsAbs(file.Find("existing").Kubeconfig) {
		t.Errorf("%+v %v", file, err)
	}
	if _, _, code := run(t, f, env, "", false, "up --context lab"); code != exit.OK {
		t.Error(code)
	}
	if file, err := store.Load(); err != nil || file.CurrentContext != "lab" || len(file.Contexts) != 3 {
		t.Errorf("%+v %v", file, err)
	}
}

func TestUpLeavesOthersLoggedIn(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	f := &fake{}
	if _, messages, code := run(t, f, env, "", false, "up --redis none"); code != exit.OK || f.up[0].Redis != NoRedis {
		t.Fatalf("%d %s", code, messages)
	}
	store, err := config.Locate(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Update(t.Context(), func(file *config.File) error { file.Find("local").User = "ada@example.com"; return nil }); err != nil {
		t.Fatal(err)
	}
	adas := config.Token{AccessToken: "ada's", RefreshToken: "r"}
	if _, err := store.UpdateToken(t.Context(), "local", func(config.Token) (config.Token, error) { return adas, nil }); err != nil {
		t.Fatal(err)
	}
	if _, messages, code := run(t, f, env, "", false, "up"); code != exit.OK {
		t.Fatalf("%d %s", code, messages)
	}
	file, err := store.Load()
	if err != nil || file.Find("local").User != "ada@example.com" {
		t.Errorf("%+v %v", file, err)
	}
	if token, err := store.Token("local"); err != nil || token != adas {
		t.Errorf("%+v %v", token, err)
	}
}

func TestUpFails(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	_, messages, code := run(t, &fake{err: errors.New("no memory")}, env, "", false, "up")
	if code != exit.Failed || !strings.Contains(messages, "2/2 install CRDs: failed\ncloud: install: no memory\n") || strings.Contains(messages, "current context") {
		t.Errorf("%d %s", code, messages)
	}
}

func TestEndpointAddress(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	for _, address := range []string{"lb.example.com", "127.0.0.1", "0.0.0.0", "192.0.2.10:6443", "2001:db8::1"} {
		f := &fake{}
		_, messages, code := run(t, f, env, "", false, "up --endpoint-address "+address)
		if code != exit.Usage || len(f.up) > 0 || !strings.Contains(messages, "is no IPv4 address that others could reach") {
			t.Errorf("%s: %d %s", address, code, messages)
		}
	}
	f := &fake{}
	if _, messages, code := run(t, f, env, "", false, "up --endpoint-address 192.0.2.10"); code != 0 || len(f.up) != 1 || f.up[0].EndpointAddress != "192.0.2.10" {
		t.Errorf("%d %s %+v", code, messages, f.up)
	}
}

func TestStorageDir(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	f := &fake{}
	for line, says := range map[string]string{
		"up --storage-dir /data":                        "is for an existing cluster",
		"up --kubeconfig admin.conf --storage-dir data": "is no absolute path",
		"up --kubeconfig admin.conf --storage-dir /":    "is no absolute path",
	} {
		if _, messages, code := run(t, f, env, "", false, line); code != exit.Usage || !strings.Contains(messages, says) {
			t.Errorf("%s: %d %s", line, code, messages)
		}
	}
	if _, messages, code := run(t, f, env, "", false, "up --kubeconfig admin.conf --storage-dir /data"); code != 0 || len(f.up) != 1 || f.up[0].StorageDir != "/data" {
		t.Errorf("%d %s %+v", code, messages, f.up)
	}
}

func TestSecretsAreNotForCommandLines(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir(), "PLASMACLOUD_REDIS": "ftp://user:secret@x"}
	f := &fake{}
	for line, says := range map[string]string{
		"up --redis redis://:secret@redis:6379": "this URL holds a password",
		"up --redis redis:6379":                 "--redis: this is no URL of a Redis",
		"up":                                    "PLASMACLOUD_REDIS: this is no URL of a Redis",
	} {
		_, messages, code := run(t, f, env, "", false, line)
		if code != exit.Usage || !strings.Contains(messages, says) || strings.Contains(messages, "secret@") {
			t.Errorf("%s: %d %s", line, code, messages)
		}
	}
	if len(f.up) > 0 {
		t.Error("it was installed all the same")
	}
}

func TestDown(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	f := &fake{}
	if _, messages, code := run(t, f, env, "", false, "down --data-dir /d"); code != exit.OK || !strings.Contains(messages, "stop PlasmaCloud: done") {
		t.Errorf("%d %s", code, messages)
	}
	if _, _, code := run(t, f, env, "", false, "down --purge --yes"); code != exit.OK {
		t.Error(code)
	}
	if len(f.down) != 2 || f.down[0] != (DownOptions{Target: Target{DataDir: "/d"}}) || !f.down[1].Purge {
		t.Errorf("%+v", f.down)
	}
	f.err = errors.New("busy")
	if _, messages, code := run(t, f, env, "", false, "down"); code != exit.Failed || !strings.Contains(messages, "stop the platform: busy") {
		t.Errorf("%d %s", code, messages)
	}
	if _, _, code := run(t, f, env, "", false, "down --kubeconfig a --data-dir b"); code != exit.Usage {
		t.Error(code)
	}
}

func TestStatus(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	f := &fake{report: &Report{Components: []Component{{Name: "k8shost", Ready: true, Version: "v1.36.3"}, {Name: "cloudd", Ready: true}}}}
	out, _, code := run(t, f, env, "", false, "status")
	if want := "COMPONENT  READY  VERSION  MESSAGE\nk8shost    yes    v1.36.3\ncloudd     yes    -\n"; code != exit.OK || out != want {
		t.Errorf("%d\n%s", code, out)
	}
	f.report.Components[1] = Component{Name: "cloudd", Message: "0 of 1 pods are ready"}
	out, messages, code := run(t, f, env, "", false, "status -o json")
	if code != exit.Failed || !strings.Contains(out, `"message": "0 of 1 pods are ready"`) || !strings.Contains(messages, "hint: `cloud up` mends it") {
		t.Errorf("%d %s %s", code, out, messages)
	}
	if (&Report{}).Ready() {
		t.Error("nothing is ready")
	}
	f.err = exit.NotFoundf("install it with `cloud up`", "there is no installation here")
	if _, messages, code := run(t, f, env, "", false, "status"); code != exit.NotFound || !strings.Contains(messages, "hint: install it") {
		t.Errorf("%d %s", code, messages)
	}
}
