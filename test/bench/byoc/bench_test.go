//go:build bench

package byoc

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	"plasmacloud.io/plasmacloud/test/measure"
	stubaws "plasmacloud.io/plasmacloud/test/stub/aws"
)

const (
	rounds       = 3
	delay        = 5 * time.Second // what slow things in the stub take
	infraVersion = "v1.1.0"
)

func TestByoc(t *testing.T) {
	b := newBench(t)
	t.Log("a first round, to have everything in memory")
	b.round("warm-up")
	var all []round
	for number := 1; number <= rounds; number++ {
		one := b.round(fmt.Sprintf("round%d", number))
		t.Logf("round %d: tofu alone %.1f s, a deployer %.1f s", number, one.bare.Seconds(), one.ours.Seconds())
		all = append(all, one)
	}
	for _, figure := range figures(all, b.plans(stacks(t))) {
		fmt.Println(figure)
	}
}

func stacks(t *testing.T) int {
	text := os.Getenv("BENCH_BYOC_STACKS")
	if text == "" {
		return 50
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("BENCH_BYOC_STACKS: %q is no number", text)
	}
	return number
}

// bench is the platform's part: states over TLS.
type bench struct {
	*testing.T
	built   *release.Cloud
	release string
	tokens  *state.Tokens
	server  *httptest.Server
	ca      []byte
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t}
	var err error
	b.release, err = release.Locate("")
	b.must(err)
	b.built, err = release.OpenCloud(b.release)
	b.must(err)
	store, err := state.NewDirectory(t.TempDir())
	b.must(err)
	keys, err := state.NewKeyring(bytes.Repeat([]byte{7}, state.KeySize))
	b.must(err)
	states, err := state.New(state.Config{Store: store, Keys: keys, Now: time.Now})
	b.must(err)
	b.tokens, err = state.NewTokens(bytes.Repeat([]byte{9}, state.KeySize), time.Now)
	b.must(err)
	mux := http.NewServeMux()
	mux.Handle(deployer.PathStates+"/", http.StripPrefix(deployer.PathStates, state.NewHandler(states, b.tokens, slog.New(slog.DiscardHandler))))
	b.server = httptest.NewTLSServer(mux)
	t.Cleanup(b.server.Close)
	b.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.server.Certificate().Raw})
	return b
}

// amazon is a stub with nothing in it, and the way to it.
func (b *bench) amazon() map[string]string {
	server := httptest.NewServer(stubaws.New(stubaws.Config{Delay: delay}))
	b.Cleanup(server.Close)
	return map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIASTUBSTUBSTUBSTUB", "AWS_SECRET_ACCESS_KEY": byoclab.Secret, "AWS_ENDPOINT_URL": server.URL,
		"HTTP_PROXY": server.URL, // S3's control plane is asked at <account>.<endpoint>, which nobody resolves
	}
}

func (b *bench) own(stack string) aws.Stack {
	return aws.Stack{Name: stack, InfraVersion: infraVersion, Account: byoclab.AWSAccount()}
}

func (b *bench) network(stack string) any {
	variables, err := aws.Network(b.own(stack), byoclab.Network(), aws.NetworkOptions{})
	b.must(err)
	return variables
}

func (b *bench) cluster(stack string, outputs map[string]json.RawMessage) any {
	var made aws.NetworkOutputs
	data, err := json.Marshal(outputs)
	b.must(err)
	b.must(json.Unmarshal(data, &made))
	variables, err := aws.Cluster(b.own(stack), byoclab.Cluster(v1alpha1.ClusterEKS, 3), byoclab.Network(), &made, aws.ClusterOptions{})
	b.must(err)
	return variables
}

// round makes a network and a cluster both ways, in a cloud each.
func (b *bench) round(name string) round {
	environment := b.amazon()
	began := time.Now()
	outputs := b.bare(name+".network", configuration.Network, b.network(name+".network"), environment)
	b.bare(name+".cluster", configuration.Cluster, b.cluster(name+".cluster", outputs), environment)
	bare := time.Since(began)
	environment = b.amazon()
	began = time.Now()
	outputs = b.deploy(name+".network", deployer.Apply, configuration.Network, b.network(name+".network"), environment).Outputs
	b.deploy(name+".cluster", deployer.Apply, configuration.Cluster, b.cluster(name+".cluster", outputs), environment)
	return round{bare, time.Since(began)}
}

// bare makes a stack as a person would who has nothing but tofu.
func (b *bench) bare(stack string, kind configuration.Kind, variables any, environment map[string]string) map[string]json.RawMessage {
	b.Helper()
	dir := b.TempDir()
	files, err := configuration.Files(aws.Cloud, infraVersion, kind)
	b.must(err)
	lock, err := b.built.Lock(aws.Provider)
	b.must(err)
	files[".terraform.lock.hcl"], err = os.ReadFile(lock)
	b.must(err)
	files["own.auto.tfvars.json"], err = json.Marshal(variables)
	b.must(err)
	files["tofu.rc"] = fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", b.built.Mirror())
	for name, content := range files {
		b.must(os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	tofu, err := b.built.Tofu()
	b.must(err)
	run := func(args ...string) []byte {
		command := exec.CommandContext(b.Context(), tofu, args...)
		command.Dir = dir
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_CLI_CONFIG_FILE=" + filepath.Join(dir, "tofu.rc"), "CHECKPOINT_DISABLE=1"}
		for name, value := range environment {
			command.Env = append(command.Env, name+"="+value)
		}
		var problems bytes.Buffer
		command.Stderr = &problems
		output, err := command.Output()
		if err != nil {
			b.Fatalf("tofu %v of %s: %v\n%s", args, stack, err, problems.String())
		}
		return output
	}
	run("init", "-input=false", "-no-color")
	run("apply", "-input=false", "-no-color", "-auto-approve")
	var outputs map[string]struct{ Value json.RawMessage }
	b.must(json.Unmarshal(run("output", "-json"), &outputs))
	values := map[string]json.RawMessage{}
	for name, output := range outputs {
		values[name] = output.Value
	}
	return values
}

// platform is one that has an order, and hears reports.
type platform struct {
	order deployer.Order
	last  deployer.Report
	mu    sync.Mutex
}

var _ deployer.Platform = (*platform)(nil)

func (p *platform) Order(context.Context) (*deployer.Order, error) { return &p.order, nil }

func (p *platform) Report(_ context.Context, report deployer.Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = report
	return nil
}

func (p *platform) Progress(ctx context.Context, report deployer.Report) error {
	return p.Report(ctx, report)
}

// deploy does an operation as a deployer does.
func (b *bench) deploy(stack string, operation deployer.Operation, kind configuration.Kind, variables any, environment map[string]string) deployer.Report {
	data, err := json.Marshal(variables)
	if err != nil {
		b.Error(err)
		return deployer.Report{}
	}
	p := &platform{order: deployer.Order{Environment: maps.Clone(environment), Request: deployer.Request{
		ID: stack, Stack: stack, Operation: operation, Cloud: aws.Cloud, InfraVersion: infraVersion, Kind: kind, Variables: data,
	}}}
	err = deployer.Run(b.Context(), deployer.Config{
		Server: b.server.URL, CA: b.ca, Token: b.tokens.Issue(stack, time.Hour), Stack: stack, Turn: deployer.Turn{ID: stack, Attempt: 1},
		Release: b.release, Work: b.TempDir(), Clouds: cloud.Clouds(), Log: slog.New(slog.DiscardHandler), Platform: p,
	})
	if err != nil {
		b.Errorf("%s %s: %v", operation, stack, err)
	}
	return p.last
}

// plans plans networks, all at once.
func (b *bench) plans(number int) crowd {
	environment := b.amazon()
	c := crowd{stacks: number}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		for i := range number {
			stack := fmt.Sprintf("many%d.network", i)
			variables := b.network(stack)
			all.Go(func() {
				if report := b.deploy(stack, deployer.Plan, configuration.Network, variables, environment); report.Changes == 0 {
					b.Errorf("%s: nothing planned", stack)
				}
			})
		}
		all.Wait()
	}()
	began := time.Now()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-done:
			c.all = time.Since(began)
			tick.Stop()
			return c
		case <-tick.C:
		}
		programs, err := measure.Descendants(os.Getpid())
		b.must(err)
		c.memory = max(c.memory, measure.Sum(programs, measure.PSS))
	}
}
