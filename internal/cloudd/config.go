// Package cloudd is the platform's daemon: controllers, task workers, identities and admission in one program, of which
// each process runs the roles it is given. Here they are put together; what they do is in packages of their own.
package cloudd

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/internal/controller/audit"
	"plasmacloud.io/plasmacloud/internal/controller/plan"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Role is a part of the daemon.
type Role string

// The roles.
const (
	RoleControllers Role = "controllers"
	RoleWorkers     Role = "workers"
	RoleIAM         Role = "iam"
	RoleAdmission   Role = "admission"
)

func roles() []string {
	return []string{string(RoleControllers), string(RoleWorkers), string(RoleIAM), string(RoleAdmission)}
}

// Queues that tasks can wait in.
const (
	QueueMemory = "memory"
	QueueRedis  = "redis"
)

// Config is what a process is told.
type Config struct {
	Roles     []string
	Namespace string
	LogLevel  string

	Queue string
	// RedisURL comes by environment: it may hold a password.
	RedisURL    string
	Workers     int
	Shard       int
	Shards      int
	Concurrency int

	IAMAddress       string
	IAMIssuer        string
	Scratch          string
	IAMNames         []string
	AdmissionAddress string
	AdmissionNames   []string
	HealthAddress    string
	MetricsAddress   string
	ProfileAddress   string

	// What hosted clusters run on.
	EndpointAddress  string
	PodCIDRs         []string
	StorageClass     string
	StorageDirectory string
	ImagePullPolicy  string

	// What clusters on machines need: the release that is laid onto them, and the image of their balancers.
	ReleaseDir string
	Image      string

	// What infrastructure in clouds needs: where deployers reach the platform, and the claim of the release's volume.
	DeploymentsAddress string
	DeploymentsService string
	DeploymentsNames   []string
	ReleaseClaim       string

	// When clusters are audited, and how often they are repaired before a person is asked.
	AuditInterval  time.Duration
	RepairAttempts int
	// DriftInterval is when what is in clouds is compared with what was asked for.
	DriftInterval time.Duration

	FakeStep time.Duration
}

// AddFlags adds the flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Roles, "roles", roles(), "what this process does: "+strings.Join(roles(), ", "))
	fs.StringVar(&c.Namespace, "namespace", "plasmacloud-system", "the platform's own `namespace`")
	fs.StringVar(&c.LogLevel, "log-level", "info", "least `level` that is logged: debug, info, warn or error")
	fs.StringVar(&c.Queue, "queue", QueueMemory, "where tasks wait: memory, or redis (its address in CLOUDD_REDIS_URL) where several processes share the work")
	fs.IntVar(&c.Workers, "workers", 16, "`number` of tasks at once")
	fs.IntVar(&c.Shard, "shard", 0, "which shard of the tasks this process takes, from 0")
	fs.IntVar(&c.Shards, "shards", 1, "into how many shards the tasks are divided")
	fs.IntVar(&c.Concurrency, "concurrency", 8, "`number` of clusters that are looked at at once")
	fs.StringVar(&c.IAMAddress, "iam-bind-address", ":9443", "`address` that identities are served on")
	fs.StringVar(&c.IAMIssuer, "iam-issuer", "https://iam.plasmacloud-system.svc", "`URL` that identities are served under; it is in every token")
	fs.StringVar(&c.Scratch, "scratch-dir", "", "`directory` in memory where certificates are made; the system's for temporary files where it is empty")
	fs.StringSliceVar(&c.IAMNames, "iam-names", nil, "further `names` that the identities' certificate is good for")
	fs.StringVar(&c.AdmissionAddress, "admission-bind-address", ":9444", "`address` that admission is served on")
	fs.StringSliceVar(&c.AdmissionNames, "admission-names", []string{"admission.plasmacloud-system.svc"}, "`names` that admission's certificate is good for")
	fs.StringVar(&c.HealthAddress, "health-bind-address", ":8081", "`address` of /healthz and /readyz")
	fs.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8443", "`address` of /metrics, over TLS; 0 for none")
	fs.StringVar(&c.ProfileAddress, "pprof-bind-address", "", "`address` of /debug/pprof, without TLS or authentication, so on loopback only; none where it is empty")
	fs.StringVar(&c.EndpointAddress, "endpoint-address", "", "`address` that hosted clusters' APIs are reached under; a node's where it is empty")
	fs.StringSliceVar(&c.PodCIDRs, "pod-cidrs", nil, "`ranges` of the management cluster's pods; those of its nodes where none are given")
	fs.StringVar(&c.StorageClass, "storage-class", "", "storage `class` of hosted clusters' etcds; the cluster's default where it is empty")
	fs.StringVar(&c.StorageDirectory, "storage-dir", "/var/lib/plasmacloud", "`directory` on hosts for them where there is no storage class")
	fs.StringVar(&c.ImagePullPolicy, "image-pull-policy", string(corev1.PullIfNotPresent), "`policy` for images of control planes and machines: IfNotPresent, or Never where all nodes were given them")
	fs.StringVar(&c.ReleaseDir, "release-dir", "", "`directory` of the release that is laid onto machines; without it there are no clusters of type Kubeadm and K3s")
	fs.StringVar(&c.Image, "image", "plasmacloud.io/cloudd:latest", "`image` of the daemon itself, which the balancers of such clusters run")
	fs.StringVar(&c.DeploymentsAddress, "deployments-bind-address", ":9445", "`address` that deployers are served on")
	fs.StringVar(&c.DeploymentsService, "deployments-service", "deployments", "`name` of the Service, in the platform's namespace, that leads there")
	fs.StringSliceVar(&c.DeploymentsNames, "deployments-names", nil, "further `names` that its certificate is good for: those that deployers elsewhere reach it by")
	fs.StringVar(&c.ReleaseClaim, "release-claim", "", "volume `claim` of the release; without it nothing is made in clouds")
	fs.DurationVar(&c.AuditInterval, "audit-interval", audit.DefaultLimits().Interval, "`time` between two looks at a cluster that nothing happens to; 0 for none")
	fs.IntVar(&c.RepairAttempts, "repair-attempts", audit.DefaultLimits().Attempts, "`number` of repairs in a row that are begun before a person is asked")
	fs.DurationVar(&c.DriftInterval, "drift-interval", plan.DefaultLimits().Interval, "`time` between two looks whether somebody else has changed what is in a cloud; 0 for none")
	fs.DurationVar(&c.FakeStep, "fake-step-duration", 200*time.Millisecond, "how long a step of a cluster of type Fake takes, where the cluster says nothing else")
}

// Validate names all that is wrong at once.
func (c *Config) Validate() error {
	var problems []error
	if len(c.Roles) == 0 {
		problems = append(problems, errors.New("--roles: at least one is needed"))
	}
	for _, role := range c.Roles {
		if !slices.Contains(roles(), role) {
			problems = append(problems, fmt.Errorf("--roles: %q is none of %s", role, strings.Join(roles(), ", ")))
		}
	}
	switch c.Queue {
	case QueueMemory:
		if c.has(RoleControllers) != c.has(RoleWorkers) {
			problems = append(problems, errors.New("--queue memory: controllers and workers have to be in one process; use --queue redis to part them"))
		}
	case QueueRedis:
		if _, err := url.Parse(c.RedisURL); err != nil || c.RedisURL == "" {
			problems = append(problems, errors.New("--queue redis: CLOUDD_REDIS_URL has to hold its address, such as redis://user:password@host:6379/0"))
		}
	default:
		problems = append(problems, fmt.Errorf("--queue: %q is neither memory nor redis", c.Queue))
	}
	if err := c.shard().Validate(); err != nil {
		problems = append(problems, fmt.Errorf("--shard, --shards: %w", err))
	}
	if _, err := netip.ParseAddr(c.EndpointAddress); err != nil && c.EndpointAddress != "" {
		problems = append(problems, fmt.Errorf("--endpoint-address: %q is no IP address", c.EndpointAddress))
	}
	if c.ImagePullPolicy != string(corev1.PullIfNotPresent) && c.ImagePullPolicy != string(corev1.PullNever) {
		problems = append(problems, fmt.Errorf("--image-pull-policy: %q is neither IfNotPresent nor Never", c.ImagePullPolicy))
	}
	if _, err := appendPrefixes(nil, c.PodCIDRs); err != nil {
		problems = append(problems, fmt.Errorf("--pod-cidrs: %w", err))
	}
	if c.AuditInterval < 0 || c.DriftInterval < 0 || c.RepairAttempts < 1 {
		problems = append(problems, errors.New("--audit-interval, --drift-interval, --repair-attempts: at least 0, and at least 1"))
	}
	if c.Workers < 1 || c.Concurrency < 1 {
		problems = append(problems, errors.New("--workers, --concurrency: at least 1"))
	}
	return errors.Join(problems...)
}

func (c *Config) has(role Role) bool { return slices.Contains(c.Roles, string(role)) }

func (c *Config) shard() task.Shard { return task.Shard{Index: c.Shard, Count: c.Shards} }
