//go:build e2e

package byocdeployer

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stubgcp "plasmacloud.io/plasmacloud/test/stub/gcp"
)

const databasePassword = "correct-horse-battery"

// database is Debian's PostgreSQL, for one test.
type database struct {
	bin, address string
	port         int
}

// asPostgres runs one of its programs, which refuse to be root's.
func (d *database) asPostgres(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), "setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups", "--", filepath.Join(d.bin, program)}, args...)...)
	command.Dir = "/"
	return command
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(programs) == 0 {
		t.Fatal("no PostgreSQL here: hack/packages.sh installs it")
	}
	d := &database{bin: filepath.Dir(slices.Max(programs))}
	home, err := os.MkdirTemp("", "states-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	owner, err := user.Lookup("postgres")
	must(t, err)
	uid, err := strconv.Atoi(owner.Uid)
	must(t, err)
	gid, err := strconv.Atoi(owner.Gid)
	must(t, err)
	password := filepath.Join(home, "password")
	must(t, os.WriteFile(password, []byte(databasePassword), 0o600))
	for _, path := range []string{home, password} {
		must(t, os.Chown(path, uid, gid))
	}
	data := filepath.Join(home, "data")
	if out, err := d.asPostgres(t, "initdb", "--pgdata", data, "--auth=scram-sha-256", "--pwfile", password, "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d.port = listener.Addr().(*net.TCPAddr).Port
	must(t, listener.Close())
	server := d.asPostgres(t, "postgres", "-D", data, "-p", strconv.Itoa(d.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+home, "-c", "fsync=off")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGQUIT) } // at once, and its children too
	must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Signal(syscall.SIGQUIT); _ = server.Wait() })
	d.address = fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", databasePassword, d.port)
	for deadline := time.Now().Add(time.Minute); d.query(t, "SELECT 1") != "1"; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("PostgreSQL does not answer")
		}
	}
	return d
}

// query asks the database; what it cannot answer is empty.
func (d *database) query(t *testing.T, query string) string {
	t.Helper()
	command := d.asPostgres(t, "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--host=127.0.0.1", "--port="+strconv.Itoa(d.port), "--command="+query)
	command.Env = []string{"PGPASSWORD=" + databasePassword, "PATH=" + os.Getenv("PATH")}
	out, _ := command.Output()
	return strings.TrimSpace(string(out))
}

// killedAndTakenOver makes a network by one deployer that is killed, and another, and a cluster in it. It returns the network's
// stack, and what ends the other one and has all that was logged.
func (l *lab) killedAndTakenOver(t *testing.T) (stack string, end func() string) {
	t.Helper()
	first, second, made := l.relieved(t)
	// A cluster is made of what its network has put out, which the platform knows by its copy.
	if made := l.run(v1alpha1.OperationCreate, l.cluster); !strings.HasPrefix(made[provisioner.OutputEndpoint], "https://gke-") {
		t.Errorf("the cluster: %v", made)
	}
	record := l.state(made)
	if record.Lock != nil || len(record.Versions) == 0 || record.Versions[len(record.Versions)-1].Resources == 0 {
		t.Errorf("the platform's copy is %+v", record)
	}
	return strings.TrimPrefix(made[provisioner.OutputInventory], "Stack/"), func() string {
		return first.output.String() + second.stop(t, syscall.SIGTERM) + l.log.String()
	}
}

// same tells whether the platform's copy is the state.
func (l *lab) same(t *testing.T, stack string, raw []byte) {
	t.Helper()
	have, err := terraform.ReadState(raw)
	must(t, err)
	copied, err := l.states.Get(t.Context(), stack)
	must(t, err)
	want, err := terraform.ReadState(copied)
	must(t, err)
	if len(have) == 0 || fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("the state has %v\nthe platform's copy %v", have, want)
	}
}

// gone removes everything, and looks for what is left.
func (l *lab) gone(t *testing.T) {
	t.Helper()
	l.run(v1alpha1.OperationDelete, l.cluster)
	l.run(v1alpha1.OperationDelete, network())
	if left := l.stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

// TestStatesInPostgreSQL keeps states in a real database, through a kill.
func TestStatesInPostgreSQL(t *testing.T) {
	l, database := newLab(t), newDatabase(t)
	l.account.Spec.State = &v1alpha1.AccountState{Type: v1alpha1.StatePostgres}
	l.environment["PG_CONN_STR"] = database.address
	stack, end := l.killedAndTakenOver(t)
	row := fmt.Sprintf(`SELECT data FROM plasmacloud."%s"`, stack)
	l.same(t, stack, []byte(database.query(t, row)))
	l.gone(t)
	if resources, err := terraform.ReadState([]byte(database.query(t, row))); err != nil || len(resources) > 0 {
		t.Errorf("the state still has %v, %v", resources, err)
	}
	log := end()
	for _, secret := range []string{databasePassword, byoclab.Secret} {
		if strings.Contains(log, secret) {
			t.Errorf("a log tells %s", secret)
		}
	}
}

// TestStatesInCloudStorage keeps states in a stub of Cloud Storage, where a killed deployer leaves its lock: the next one takes
// that away, and nobody else's.
func TestStatesInCloudStorage(t *testing.T) {
	l, objects := newLab(t), stubgcp.NewObjects(byoclab.Secret)
	storage := httptest.NewServer(objects)
	t.Cleanup(storage.Close)
	l.account.Spec.State = &v1alpha1.AccountState{Type: v1alpha1.StateGCS, GCS: &v1alpha1.GCSState{Bucket: "states", Prefix: "plasmacloud"}}
	l.environment["GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT"] = storage.URL + "/storage/v1/"
	stack, end := l.killedAndTakenOver(t)
	l.same(t, stack, objects.Content("states/plasmacloud/"+stack+"/default.tfstate"))
	for _, name := range objects.Names() {
		if !strings.HasSuffix(name, ".tfstate") {
			t.Errorf("%s is left", name)
		}
	}
	l.gone(t)
	log := end()
	if !strings.Contains(log, "lock taken away from a deployer that is no more") {
		t.Error("no lock was taken away")
	}
	if strings.Contains(log, byoclab.Secret) {
		t.Error("a log tells the credentials")
	}
}
