// Package remote is for deployers that run where the platform does not: in a customer's own network, next to what they make.
// They come to the platform over gRPC and TLS, with a token that is good for one account, ask for what is to be done there,
// and are given it for as long as they show signs of life. Here are the service and the program, `cloudd deployer`, which
// does what `cloudd deploy` does in pods, for one task after another. The records of who does what are those of package
// pods.
package remote

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	taskv1 "plasmacloud.io/plasmacloud/proto/plasmacloud/task/v1"
)

// Records are the operations, and who does them. ErrReplaced: not this attempt.
type Records interface {
	// Lease gives operations of an account that wait for a remote deployer to one, up to a number. No two get the same.
	Lease(ctx context.Context, account deployer.Account, holder string, most int) ([]deployer.Leased, error)
	// Renew says that the deployer of an attempt is alive. ErrCancelled: it is to come to an end.
	Renew(ctx context.Context, stack string, turn deployer.Turn) error
	// Report writes down how far an attempt is.
	Report(ctx context.Context, stack string, report deployer.Report) error
	// Owner is the account whose remote deployers may work on a stack; none where they may not.
	Owner(ctx context.Context, stack string) (deployer.Account, error)
}

// Config is what the service works with.
type Config struct {
	Records Records
	// Account is one as it is now.
	Account func(ctx context.Context, namespace, name string) (*v1alpha1.Account, error)
	// StateToken opens the state of a stack, for so long.
	StateToken func(stack string, lifetime time.Duration) string
	// Lease is for how long the records lease an operation.
	Lease time.Duration
	Log   *slog.Logger
}

const (
	// stateLifetime is for how long an attempt can go on: a state that cannot be written at the end of an apply is lost.
	stateLifetime = 24 * time.Hour
	// maxLimit is how many operations a deployer gets at once, at most, and maxName how long its name may be.
	maxLimit, maxName = 50, 100
)

// Service serves remote deployers.
type Service struct {
	taskv1.UnimplementedTaskManagerServer
	Config
}

var _ taskv1.TaskManagerServer = (*Service)(nil)

// New returns the service.
func New(config Config) *Service { return &Service{Config: config} }

// GetTasks implements taskv1.TaskManagerServer.
func (s *Service) GetTasks(ctx context.Context, request *taskv1.GetTasksRequest) (*taskv1.GetTasksResponse, error) {
	account, err := s.admit(ctx, request.GetAccount())
	if err != nil {
		return nil, err
	}
	name := request.GetDeployer()
	if name == "" || len(name) > maxName {
		return nil, status.Errorf(codes.InvalidArgument, "a deployer has a name of at most %d characters", maxName)
	}
	leased, err := s.Records.Lease(ctx, account, name, min(max(int(request.GetLimit()), 1), maxLimit))
	if err != nil {
		return nil, s.fail(ctx, account, err)
	}
	response := &taskv1.GetTasksResponse{LeaseSeconds: int32(s.Lease / time.Second)}
	for i := range leased {
		response.Tasks = append(response.Tasks, infoOf(&leased[i], s.StateToken(leased[i].Stack, stateLifetime)))
	}
	return response, nil
}

// Heartbeat implements taskv1.TaskManagerServer.
func (s *Service) Heartbeat(ctx context.Context, request *taskv1.HeartbeatRequest) (*taskv1.HeartbeatResponse, error) {
	account, err := s.own(ctx, request.GetAccount(), request.GetTask())
	if err != nil {
		return nil, err
	}
	if err := s.Records.Renew(ctx, request.GetTask().GetStack(), turnOf(request.GetTask())); err != nil {
		return nil, s.fail(ctx, account, err)
	}
	return &taskv1.HeartbeatResponse{}, nil
}

// ReportTask implements taskv1.TaskManagerServer.
func (s *Service) ReportTask(ctx context.Context, request *taskv1.ReportTaskRequest) (*taskv1.ReportTaskResponse, error) {
	account, err := s.own(ctx, request.GetAccount(), request.GetTask())
	if err != nil {
		return nil, err
	}
	report, err := reportOf(request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.Records.Report(ctx, request.GetTask().GetStack(), report); err != nil {
		return nil, s.fail(ctx, account, err)
	}
	return &taskv1.ReportTaskResponse{}, nil
}

// admit tells which account a call is about, if its token is for that.
func (s *Service) admit(ctx context.Context, named *taskv1.Account) (deployer.Account, error) {
	token, found := strings.CutPrefix(strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ""), "Bearer ")
	if !found || token == "" {
		return deployer.Account{}, status.Error(codes.Unauthenticated, "no token given")
	}
	wanted := deployer.Account{Namespace: v1alpha1.NamespacePrefix + named.GetProject(), Name: named.GetName()}
	account, err := s.Account(ctx, wanted.Namespace, wanted.Name)
	if err != nil || !account.Spec.Admits(token) { // who has no token for it does not get to know whether it is there
		s.Log.WarnContext(ctx, "remote deployer refused", "account", wanted, "error", err)
		return deployer.Account{}, status.Errorf(codes.PermissionDenied, "this token is not for account %s/%s, or the account has no remote deployers", named.GetProject(), named.GetName())
	}
	return wanted, nil
}

// own is admit for a call about a task, which has to be the account's.
func (s *Service) own(ctx context.Context, named *taskv1.Account, task *taskv1.TaskRef) (deployer.Account, error) {
	account, err := s.admit(ctx, named)
	if err != nil {
		return account, err
	}
	owner, err := s.Records.Owner(ctx, task.GetStack())
	switch {
	case err != nil:
		return account, s.fail(ctx, account, err)
	case owner == (deployer.Account{}): // its operation is over, or done by the platform itself
		return account, status.Error(codes.Aborted, deployer.ErrReplaced.Error())
	case owner != account:
		s.Log.WarnContext(ctx, "remote deployer refused", "account", account, "stack", task.GetStack())
		return account, status.Errorf(codes.PermissionDenied, "the task is not one of account %s", account.Name)
	}
	return account, nil
}

// fail puts an error into gRPC's terms. What it says stays here: there may be more in it than an account's owner should know.
func (s *Service) fail(ctx context.Context, account deployer.Account, err error) error {
	if errors.Is(err, deployer.ErrReplaced) {
		return status.Error(codes.Aborted, deployer.ErrReplaced.Error())
	}
	if errors.Is(err, deployer.ErrCancelled) {
		return status.Error(codes.FailedPrecondition, deployer.ErrCancelled.Error())
	}
	s.Log.WarnContext(ctx, "remote deployer not served", "account", account, "error", err)
	return status.Error(codes.Unavailable, "try again")
}
