package remote

import (
	"encoding/json"
	"fmt"

	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/terraform"
	taskv1 "plasmacloud.io/plasmacloud/proto/plasmacloud/task/v1"
	configuration "plasmacloud.io/plasmacloud/terraform"
)

func refOf(stack string, turn deployer.Turn) *taskv1.TaskRef {
	return &taskv1.TaskRef{Stack: stack, Id: turn.ID, FencingToken: int64(turn.Attempt)}
}

func turnOf(ref *taskv1.TaskRef) deployer.Turn {
	return deployer.Turn{ID: ref.GetId(), Attempt: int(ref.GetFencingToken())}
}

// infoOf is a leased operation on the wire, and orderOf what it was.
func infoOf(leased *deployer.Leased, stateToken string) *taskv1.TaskInfo {
	return &taskv1.TaskInfo{
		Ref: refOf(leased.Stack, leased.Turn), Operation: string(leased.Operation),
		Cloud: leased.Cloud, InfraVersion: leased.InfraVersion, Kind: string(leased.Kind), Variables: leased.Variables,
		Consent: leased.Consent, OpenApi: leased.OpenAPI, DeletionProtection: leased.DeletionProtection,
		Adopt: leased.Adopt, Environment: leased.Environment, StateToken: stateToken,
		Backend: wireBackend(leased.Backend), EarlierHosts: leased.Earlier,
	}
}

// wireBackend is a backend on the wire, and backendOf what it was.
func wireBackend(backend *terraform.Backend) *taskv1.Backend {
	if backend == nil {
		return nil
	}
	settings, _ := json.Marshal(backend.Settings) // texts and truths, which never fail
	return &taskv1.Backend{Type: backend.Type, Settings: settings}
}

func backendOf(wire *taskv1.Backend) (*terraform.Backend, error) {
	if wire == nil {
		return nil, nil
	}
	backend := &terraform.Backend{Type: wire.GetType()}
	if err := json.Unmarshal(wire.GetSettings(), &backend.Settings); err != nil {
		return nil, fmt.Errorf("read where the state is: %w", err)
	}
	return backend, nil
}

func orderOf(info *taskv1.TaskInfo) (*deployer.Order, error) {
	backend, err := backendOf(info.GetBackend())
	return &deployer.Order{
		Request: deployer.Request{
			ID: info.GetRef().GetId(), Stack: info.GetRef().GetStack(), Operation: deployer.Operation(info.GetOperation()), Remote: true,
			Cloud: info.GetCloud(), InfraVersion: info.GetInfraVersion(), Kind: configuration.Kind(info.GetKind()), Variables: info.GetVariables(),
			Consent: info.GetConsent(), OpenAPI: info.GetOpenApi(), DeletionProtection: info.GetDeletionProtection(),
			Backend: backend,
		},
		Adopt: info.GetAdopt(), Earlier: info.GetEarlierHosts(), Environment: info.GetEnvironment(),
	}, err
}

// wireReport is a report on the wire, and reportOf what it was.
func wireReport(report deployer.Report) *taskv1.TaskReport {
	wire := &taskv1.TaskReport{
		Phase: string(report.Phase), Message: report.Message, Plan: report.Plan, Changes: int32(report.Changes),
		Error: report.Error, Permanent: report.Permanent, Host: report.Host, Outputs: map[string][]byte{},
	}
	for name, value := range report.Outputs {
		wire.Outputs[name] = value
	}
	if report.Preview != nil {
		if value, err := json.Marshal(report.Preview); err == nil { // which is never otherwise
			wire.Outputs[outputPreview] = value
		}
	}
	return wire
}

// outputPreview is the name that a plan's preview goes by among the outputs: a plan has none of its own.
const outputPreview = "plasmacloud-preview"

func reportOf(request *taskv1.ReportTaskRequest) (deployer.Report, error) {
	wire := request.GetReport()
	report := deployer.Report{
		Turn: turnOf(request.GetTask()), Phase: deployer.Phase(wire.GetPhase()), Message: wire.GetMessage(), Plan: wire.GetPlan(), Changes: int(wire.GetChanges()),
		Error: wire.GetError(), Permanent: wire.GetPermanent(), Host: wire.GetHost(),
	}
	switch report.Phase {
	case deployer.Planning, deployer.Applying, deployer.Succeeded, deployer.Failed:
	default:
		return report, fmt.Errorf("there is no phase %q", report.Phase)
	}
	for name, value := range wire.GetOutputs() {
		if !json.Valid(value) {
			return report, fmt.Errorf("output %q is not JSON", name)
		}
		if name == outputPreview {
			if err := json.Unmarshal(value, &report.Preview); err != nil {
				return report, fmt.Errorf("read preview: %w", err)
			}
			continue
		}
		if report.Outputs == nil {
			report.Outputs = map[string]json.RawMessage{}
		}
		report.Outputs[name] = value
	}
	return report, nil
}
