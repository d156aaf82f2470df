package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
	configuration "plasmacloud.io/plasmacloud/terraform"
)

// stackOf names the stack of a resource.
func stackOf(object task.Object) (string, error) {
	var kind configuration.Kind
	switch object.(type) {
	case *v1alpha1.Network:
		kind = configuration.Network
	case *v1alpha1.Cluster:
		kind = configuration.Cluster
	case *v1alpha1.Bucket:
		kind = configuration.Bucket
	default:
		return "", task.Permanent(fmt.Errorf("a %T is nothing in a cloud", object))
	}
	project := strings.TrimPrefix(object.GetNamespace(), v1alpha1.NamespacePrefix)
	return translate.StackName(project, string(kind), object.GetName(), string(object.GetUID())), nil
}

// subject is what a request is about, and what it is a part of.
type subject struct {
	account *v1alpha1.Account
	network *v1alpha1.Network
	cluster *v1alpha1.Cluster
	bucket  *v1alpha1.Bucket
}

// request describes what a task asks for. What is wrong with the resource itself is permanent.
func (p *Provisioner) request(ctx context.Context, scope *task.Scope) (deployer.Request, error) {
	name, err := stackOf(scope.Object)
	if err != nil {
		return deployer.Request{}, err
	}
	s, err := p.load(ctx, scope)
	if err != nil {
		return deployer.Request{}, err
	}
	translate, err := translatorOf(s.account.Spec.Provider)
	if err != nil {
		return deployer.Request{}, task.Permanent(err)
	}
	if err := revoked(s.account); err != nil {
		return deployer.Request{}, err
	}
	kind, want, have := s.version()
	version, err := configuration.Resolve(translate.cloud(), cmp.Or(want, have))
	if err != nil {
		return deployer.Request{}, task.Permanent(fmt.Errorf("spec.infraVersion: %w", err))
	}
	request := deployer.Request{
		ID: string(scope.Task.UID), Stack: name, Operation: deployer.Apply, Cloud: translate.cloud(), InfraVersion: version, Kind: kind,
		Account: deployer.Account{Namespace: s.account.Namespace, Name: s.account.Name}, Consent: consent(scope.Object),
		Remote: s.account.Spec.Remote(), Backend: BackendOf(s.account, name),
	}
	switch scope.Task.Spec.Operation {
	case v1alpha1.OperationDelete:
		request.Operation = deployer.Destroy
	case v1alpha1.OperationPlan:
		request.Operation = deployer.Plan
	}
	if s.cluster != nil && s.bucket == nil {
		request.OpenAPI = terraform.Everybody(s.cluster.Spec.Access.CIDRs)
		request.DeletionProtection = s.cluster.Spec.DeletionProtection
	}
	variables, err := p.variables(ctx, translate, stack{name: name, infraVersion: version, account: s.account}, s)
	if request.Operation == deployer.Destroy && task.IsPermanent(err) {
		return request, nil // what is wrong with it is no reason to keep it
	}
	if err != nil {
		return deployer.Request{}, err
	}
	if request.Variables, err = json.Marshal(variables); err != nil {
		return deployer.Request{}, err
	}
	return request, nil
}

// load reads what the task's resource is a part of.
func (p *Provisioner) load(ctx context.Context, scope *task.Scope) (s subject, err error) {
	namespace := scope.Object.GetNamespace()
	switch object := scope.Object.(type) {
	case *v1alpha1.Network:
		s.network = object
	case *v1alpha1.Cluster:
		s.cluster = scaled(scope.Task, object)
	case *v1alpha1.Bucket:
		s.bucket = object
		if s.cluster, err = p.Resources.Cluster(ctx, namespace, object.Spec.Cluster); err != nil {
			return s, err
		}
	}
	if s.network == nil {
		if s.network, err = p.Resources.Network(ctx, namespace, s.cluster.Spec.Network); err != nil {
			return s, err
		}
	}
	s.account, err = p.Resources.Account(ctx, namespace, s.network.Spec.Account)
	return s, err
}

// scaled is the cluster with the numbers of nodes that the task is for.
func scaled(t *v1alpha1.Task, c *v1alpha1.Cluster) *v1alpha1.Cluster {
	c = c.DeepCopy()
	for name, group := range c.Spec.NodeGroups {
		replicas := int32(provisioner.Replicas(t, c, name))
		group.Replicas = &replicas
		c.Spec.NodeGroups[name] = group
	}
	return c
}

// version is the kind of the stack, the infra version that is asked for, and the one that it has.
func (s subject) version() (kind configuration.Kind, want, have string) {
	switch {
	case s.bucket != nil:
		return configuration.Bucket, s.bucket.Spec.InfraVersion, s.bucket.Status.InfraVersion
	case s.cluster != nil:
		return configuration.Cluster, s.cluster.Spec.InfraVersion, s.cluster.Status.InfraVersion
	default:
		return configuration.Network, s.network.Spec.InfraVersion, s.network.Status.InfraVersion
	}
}

// variables are those of the stack's configuration, with what other stacks put out.
func (p *Provisioner) variables(ctx context.Context, t translator, own stack, s subject) (any, error) {
	var variables any
	var err error
	switch {
	case s.bucket != nil:
		made, found := p.outputs(ctx, s.cluster)
		if found != nil {
			return nil, found
		}
		variables, err = t.bucket(own, s.bucket, made)
	case s.cluster != nil:
		made, found := p.outputs(ctx, s.network)
		if found != nil {
			return nil, found
		}
		variables, err = t.cluster(own, s.cluster, s.network, made)
	default:
		variables, err = t.network(own, s.network)
	}
	if err != nil {
		return nil, task.Permanent(err)
	}
	return variables, nil
}

// outputs are what the stack of another resource puts out.
func (p *Provisioner) outputs(ctx context.Context, of task.Object) (outputs, error) {
	name, err := stackOf(of)
	if err != nil {
		return nil, err
	}
	values, err := p.States.Outputs(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read what %s put out: %w", name, err)
	}
	return values, nil
}

// consent is what may be lost.
func consent(object task.Object) []string {
	text := object.GetAnnotations()[v1alpha1.AnnotationConsent]
	return slices.DeleteFunc(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), func(s string) bool { return s == "" })
}
