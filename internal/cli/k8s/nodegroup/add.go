package nodegroup

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/k8s"
	"plasmacloud.io/plasmacloud/internal/cli/offer"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// description is the flags that say what a group shall be.
type description struct {
	instanceType, storage           string
	least, mostly, replicas         int32
	roles, labels, taints, gpuNames []string
}

func add(s *session.Session, clusters *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var d description
	var dryRun resource.DryRun
	var waiting resource.Waiting
	cmd := &cobra.Command{
		Use: "add CLUSTER GROUP", Short: "Add a node group to a cluster",
		Example:           "  cloud k8s nodegroup add dev-cluster gpu --replicas 2 --instance-type gn1.xlarge --taint gpu=yes:NoSchedule",
		Args:              command.Exactly("CLUSTER", "GROUP"),
		ValidArgsFunction: clusters.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := waiting.Check(cmd); err != nil {
				return err
			}
			template, err := d.template(cmd)
			if err != nil {
				return err
			}
			if !groupName.MatchString(args[1]) {
				return exit.Usagef("GROUP: %q is no name; use 1 to 20 lower-case letters, digits and '-', beginning with a letter", args[1])
			}
			cluster, err := clusters.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			if _, there := cluster.Spec.NodeGroups[args[1]]; there {
				return exit.Refusedf("change it with `cloud k8s scale`", "cluster %s has a node group %q already", cluster.Name, args[1])
			}
			if err := k8s.Require(ctx, s, cluster.Spec.Type, catalogue.CanScale, "change node groups of clusters"); err != nil {
				return err
			}
			return k8s.Change(ctx, s, clusters, cluster, k8s.ChangeOptions{
				Group: args[1], Value: template, Operation: v1alpha1.OperationUpdate, DryRun: &dryRun, Waiting: &waiting,
				Done: fmt.Sprintf("node group %s added to cluster %s", args[1], cluster.Name),
			})
		},
	}
	d.addTo(cmd, s)
	dryRun.AddTo(cmd)
	waiting.AddTo(cmd, "the nodes are there")
	return cmd
}

var groupName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$`)

func (d *description) addTo(cmd *cobra.Command, s *session.Session) {
	set := cmd.Flags()
	set.Int32Var(&d.replicas, "replicas", 0, "`number` of nodes; --min where it is not given")
	set.Int32Var(&d.least, "min", 0, "least `number` of nodes")
	set.Int32Var(&d.mostly, "max", 0, "greatest `number` of nodes; 10, or --replicas, where it is not given")
	set.StringVar(&d.instanceType, "instance-type", "", "`size` of the nodes; u1.medium where it is not given")
	set.StringVar(&d.storage, "storage", "", "`size` of their ephemeral storage; 20Gi where it is not given")
	set.StringArrayVar(&d.roles, "role", nil, "`role` of the nodes; repeatable")
	set.StringArrayVar(&d.labels, "label", nil, "`key=value` that the nodes are labelled with; repeatable")
	set.StringArrayVar(&d.taints, "taint", nil, "`key[=value]:effect` that the nodes are tainted with; repeatable")
	set.StringArrayVar(&d.gpuNames, "gpu", nil, "`name` of a device that each node has, such as nvidia.com/AD102GL_L40S; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("instance-type", offer.Complete(s, offer.InstanceTypes)) // fails for a flag that is not there
}

// template is the group that the flags describe.
func (d *description) template(cmd *cobra.Command) (*v1alpha1.NodeGroupTemplate, error) {
	for flag, value := range map[string]int32{"replicas": d.replicas, "min": d.least, "max": d.mostly} {
		if value < 0 || value > 1000 {
			return nil, exit.Usagef("--%s: %d is not between 0 and 1000", flag, value)
		}
	}
	template := &v1alpha1.NodeGroupTemplate{MinReplicas: d.least, MaxReplicas: -1, InstanceType: d.instanceType, Roles: d.roles}
	if cmd.Flags().Changed("max") {
		template.MaxReplicas = d.mostly
	}
	if cmd.Flags().Changed("replicas") {
		template.Replicas = &d.replicas
	}
	if err := k8s.Bound(template); err != nil {
		return nil, err
	}
	var err error
	if d.storage != "" {
		if template.EphemeralStorage, err = k8s.Storage("storage", d.storage); err != nil {
			return nil, err
		}
	}
	for _, name := range d.gpuNames {
		template.GPUs = append(template.GPUs, v1alpha1.GPU{Name: name})
	}
	for _, text := range d.labels {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, exit.Usagef("--label: %q is not key=value", text)
		}
		if template.Labels == nil {
			template.Labels = map[string]string{}
		}
		template.Labels[key] = value
	}
	for _, text := range d.taints {
		taint, err := parseTaint(text)
		if err != nil {
			return nil, err
		}
		template.Taints = append(template.Taints, taint)
	}
	return template, nil
}

// parseTaint reads key[=value]:effect.
func parseTaint(text string) (corev1.Taint, error) {
	effects := map[string]corev1.TaintEffect{}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute} {
		effects[string(effect)] = effect
	}
	what, effect, found := strings.Cut(text, ":")
	key, value, _ := strings.Cut(what, "=")
	if !found || key == "" {
		return corev1.Taint{}, exit.Usagef("--taint: %q is no taint; it looks like gpu=yes:NoSchedule", text)
	}
	word, err := command.OneOf("taint", effect, slices.Sorted(maps.Keys(effects))...)
	if err != nil {
		return corev1.Taint{}, err
	}
	return corev1.Taint{Key: key, Value: value, Effect: effects[word]}, nil
}
