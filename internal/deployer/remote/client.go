package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"plasmacloud.io/plasmacloud/internal/deployer"
	taskv1 "plasmacloud.io/plasmacloud/proto/plasmacloud/task/v1"
)

// callTimeout is how long an answer may take.
const callTimeout = 20 * time.Second

// beats is how many heartbeats there are in a lease.
const beats = 6

// Options are what a remote deployer is told.
type Options struct {
	Server    string // address of the platform's service, https://…
	CA        []byte
	Project   string
	Account   string
	TokenFile string // read anew for every call
	Name      string // by which people know it
	Limit     int    // of operations at once
	Poll      time.Duration
	Release   string
	Work      string
	Clouds    map[string]deployer.Cloud
	Log       *slog.Logger
}

// Client is a remote deployer: it comes for tasks, and runs them.
type Client struct {
	Options
	connection *grpc.ClientConn
	tasks      taskv1.TaskManagerClient
	running    sync.WaitGroup
	run        func(ctx context.Context, config deployer.Config) error
}

// Connect makes a deployer. It talks to nobody yet.
func Connect(options Options) (*Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(options.CA) {
		return nil, errors.New("reach the platform: its certificate authority is no certificate")
	}
	address, err := url.Parse(options.Server)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("reach the platform: %q is no address such as https://platform.example.com:9445", options.Server)
	}
	target := address.Host
	if address.Port() == "" {
		target += ":443"
	}
	connection, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13})),
		grpc.WithPerRPCCredentials(tokenFile(options.TokenFile)))
	if err != nil {
		return nil, fmt.Errorf("reach the platform: %w", err)
	}
	return &Client{Options: options, connection: connection, tasks: taskv1.NewTaskManagerClient(connection), run: deployer.Run}, nil
}

// tokenFile is where the token is. It can be replaced while the deployer runs.
type tokenFile string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (tokenFile) RequireTransportSecurity() bool { return true }

func (c *Client) account() *taskv1.Account {
	return &taskv1.Account{Project: c.Project, Name: c.Account}
}

// Run comes for tasks until ctx ends, and then waits for those that it has begun: what a cloud is making is not left
// half made. It ends at once if it is refused when it comes for the first time.
func (c *Client) Run(ctx context.Context) error {
	defer func() { _ = c.connection.Close() }()
	defer c.running.Wait()
	room := make(chan struct{}, c.Limit)
	ticker := time.NewTicker(c.Poll)
	defer ticker.Stop()
	for known := false; ; {
		response, err := c.getTasks(ctx, c.Limit-len(room))
		switch code := status.Code(err); {
		case err == nil:
			if !known {
				c.Log.InfoContext(ctx, "waiting for tasks", "server", c.Server, "project", c.Project, "account", c.Account)
			}
			known = true
		case !known && (code == codes.PermissionDenied || code == codes.Unauthenticated):
			return fmt.Errorf("come for tasks: %s", status.Convert(err).Message())
		case ctx.Err() == nil:
			c.Log.WarnContext(ctx, "no tasks to be had", "error", err)
		}
		for _, info := range response.GetTasks() {
			room <- struct{}{}
			c.running.Go(func() {
				defer func() { <-room }()
				c.runTask(context.WithoutCancel(ctx), info, time.Duration(response.GetLeaseSeconds())*time.Second)
			})
		}
		select {
		case <-ctx.Done():
			c.Log.InfoContext(ctx, "no more tasks are taken; those that are running come to their end", "running", len(room))
			return nil
		case <-ticker.C:
		}
	}
}

// getTasks asks for as many tasks as there is room for.
func (c *Client) getTasks(ctx context.Context, limit int) (*taskv1.GetTasksResponse, error) {
	if limit <= 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.tasks.GetTasks(ctx, &taskv1.GetTasksRequest{Account: c.account(), Deployer: c.Name, Limit: int32(limit)})
}

// runTask does a task, and shows signs of life meanwhile.
func (c *Client) runTask(ctx context.Context, info *taskv1.TaskInfo, lease time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stack, turn := info.GetRef().GetStack(), turnOf(info.GetRef())
	log := c.Log.With("stack", stack, "operation", turn.ID, "attempt", turn.Attempt)
	log.InfoContext(ctx, "task begins", "what", info.GetOperation())
	// One that is cancelled shows signs of life until it has come to its end.
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go c.heartbeat(ctx, info.GetRef(), lease/beats, cancel, stop)
	err := c.run(work, deployer.Config{
		Server: c.Server, Token: info.GetStateToken(), CA: c.CA, Stack: stack, Turn: turn,
		Release: c.Release, Work: c.Work, Clouds: c.Clouds, Log: log, Platform: &platform{client: c, info: info},
	})
	if err != nil {
		log.ErrorContext(ctx, "task failed", "error", err)
		return
	}
	log.InfoContext(ctx, "task done")
}

// heartbeat renews the lease of a task. Silence ends nothing: who is cut off may be heard again in time, and what a cloud
// is making is better finished than dropped. But one whose task is another's stops.
func (c *Client) heartbeat(ctx context.Context, ref *taskv1.TaskRef, interval time.Duration, replaced, cancelled context.CancelCauseFunc) {
	ticker := time.NewTicker(max(interval, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := c.tasks.Heartbeat(call, &taskv1.HeartbeatRequest{Account: c.account(), Task: ref})
		cancel()
		switch {
		case status.Code(err) == codes.Aborted:
			replaced(deployer.ErrReplaced)
			return
		case status.Code(err) == codes.FailedPrecondition:
			cancelled(deployer.ErrCancelled)
		case err != nil && ctx.Err() == nil:
			c.Log.WarnContext(ctx, "heartbeat not heard", "stack", ref.GetStack(), "error", err)
		}
	}
}

// platform is whom a task is done for.
type platform struct {
	client *Client
	info   *taskv1.TaskInfo
}

var _ deployer.Platform = (*platform)(nil)

// Order implements deployer.Platform: it came with the task.
func (p *platform) Order(context.Context) (*deployer.Order, error) { return orderOf(p.info) }

// Report implements deployer.Platform.
func (p *platform) Report(ctx context.Context, report deployer.Report) error {
	return deployer.Persist(ctx, func() (again bool, err error) {
		err = p.Progress(ctx, report)
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
			return ctx.Err() == nil, err
		}
		return false, err
	})
}

// Progress implements deployer.Platform.
func (p *platform) Progress(ctx context.Context, report deployer.Report) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := p.client.tasks.ReportTask(ctx, &taskv1.ReportTaskRequest{Account: p.client.account(), Task: p.info.GetRef(), Report: wireReport(report)})
	if status.Code(err) == codes.Aborted {
		return deployer.ErrReplaced
	}
	return err
}
