package k8s

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/offer"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/vpc"
)

// description is the flags that say what a cluster shall be.
type description struct {
	vpc, version, kind, instanceType string
	host, podCIDR, serviceCIDR, cni  string
	controlPlaneType                 string
	workers, controlPlane, apiPort   int32
	groups, addons, access           []string
}

func create(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var creation resource.Creation
	var d description
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create a cluster",
		Long: "create asks for a cluster and returns at once; with --wait it shows how far it is, and returns when the cluster runs.\n" +
			"--workers makes one group of nodes, named workers; --node-group makes others. A manifest can be given with -f, and\n" +
			"printed with --export.",
		Example: "  cloud k8s create --name dev-cluster --vpc default --workers 2 --wait\n" +
			"  cloud k8s create big --node-group name=web,min=2,max=8,type=u1.large --node-group name=db,min=3,max=3,type=m1.large\n" +
			"  cloud k8s create --name dev-cluster --workers 2 --export > cluster.yaml",
		Args: command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := creation.Waiting.Check(cmd); err != nil {
				return err
			}
			object, err := resource.Load(cmd, s, kind, &creation, args)
			if err != nil {
				return err
			}
			if err := d.apply(cmd, &object.Spec, creation.File != ""); err != nil {
				return err
			}
			if !creation.Export {
				offered, err := s.OptionalCatalogue(cmd.Context())
				if err != nil {
					return err
				}
				if err := offers(offered, &object.Spec); err != nil {
					return err
				}
				fitInstallation(offered, &object.Spec)
			}
			return kind.Create(cmd.Context(), s, object, &creation)
		},
	}
	creation.AddTo(cmd, "cluster")
	creation.AddFile(cmd)
	creation.Waiting.AddTo(cmd, "the cluster runs")
	d.addTo(cmd, s)
	return cmd
}

func (d *description) addTo(cmd *cobra.Command, s *session.Session) {
	set := cmd.Flags()
	set.StringVar(&d.vpc, "vpc", "", "`network` that it is in; default where it is not given")
	set.Int32Var(&d.workers, "workers", 1, "`number` of nodes in the group workers; none is made where --node-group is given and this is not")
	set.StringVar(&d.version, "version", "", "`version` of Kubernetes, such as v1.36 or v1.36.3; the newest where it is not given")
	command.Choice(cmd, set, &d.kind, "type", "", "", "how the control plane runs, Hosted where it is not given",
		"Hosted", "Kubeadm", "K3s", "EKS", "GKE", "AKS", "Fake")
	set.StringVar(&d.instanceType, "instance-type", "", "`size` of nodes whose group names none, such as u1.medium")
	set.Int32Var(&d.controlPlane, "control-plane-replicas", 0, "`number` of replicas of the control plane: pods where it is hosted, 2 where it is not given, or 1 where they could not spread; otherwise machines, 1, 3 or 5, and 1 where it is not given")
	set.StringVar(&d.controlPlaneType, "control-plane-instance-type", "", "`size` of the control plane's machines, such as u1.large, where it is not hosted")
	set.StringVar(&d.host, "host", "", "DNS `name` of the cluster's API")
	set.Int32Var(&d.apiPort, "api-port", 0, "`port` of the cluster's API, from 30000 to 32767; a free one where it is not given")
	set.StringVar(&d.podCIDR, "pod-cidr", "", "`range` of pods' addresses; 192.168.0.0/16 where it is not given and that is free")
	set.StringVar(&d.serviceCIDR, "service-cidr", "", "`range` of services' addresses; 10.96.0.0/12 where it is not given and that is free")
	command.Choice(cmd, set, &d.cni, "cni", "", "", "pod network, prismnet where it is not given; none for those who bring their own", "prismnet", "none")
	set.StringSliceVar(&d.access, "access-cidr", nil, "`range` that may reach the cluster's API; everybody where none is given, and nobody from outside for a cluster in a cloud; repeatable")
	set.StringArrayVar(&d.groups, "node-group", nil, GroupUsage+"; repeatable")
	set.StringArrayVar(&d.addons, "addon", nil, "`name` of an add-on: "+command.Words(addonNames())+"; repeatable")
	vpc.Kind().CompleteFlag(s, cmd, "vpc")
	for flag, complete := range map[string]cobra.CompletionFunc{
		"version":                     offer.Complete(s, offer.Versions),
		"instance-type":               offer.Complete(s, offer.InstanceTypes),
		"control-plane-instance-type": offer.Complete(s, offer.InstanceTypes),
		"addon":                       cobra.FixedCompletions(addonNames(), cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails for a flag that is not there
	}
}

// apply puts what was given into the spec. The rest, and whether it fits together, is the API's to say.
func (d *description) apply(cmd *cobra.Command, spec *v1alpha1.ClusterSpec, fromFile bool) (err error) {
	if d.vpc != "" {
		spec.Network = d.vpc
	}
	if d.version != "" {
		spec.Version = d.version
		if d.version[0] >= '0' && d.version[0] <= '9' {
			spec.Version = "v" + d.version
		}
	}
	if d.kind != "" {
		spec.Type = v1alpha1.ClusterType(d.kind)
	}
	if d.host != "" {
		spec.Host = d.host
	}
	if cmd.Flags().Changed("api-port") {
		spec.Access.Port = &d.apiPort
	}
	if len(d.access) > 0 {
		spec.Access.CIDRs = d.access
	}
	if d.cni != "" {
		spec.ClusterNetwork.CNI = d.cni
	}
	if d.controlPlaneType != "" {
		spec.ControlPlane.InstanceType = d.controlPlaneType
	}
	if cmd.Flags().Changed("control-plane-replicas") {
		if d.controlPlane < 1 || d.controlPlane > 5 {
			return exit.Usagef("--control-plane-replicas: %d is not between 1 and 5", d.controlPlane)
		}
		spec.ControlPlane.Replicas = d.controlPlane
	}
	if d.podCIDR != "" {
		if spec.ClusterNetwork.PodCIDR, err = command.CIDR("pod-cidr", d.podCIDR); err != nil {
			return err
		}
	}
	if d.serviceCIDR != "" {
		if spec.ClusterNetwork.ServiceCIDR, err = command.CIDR("service-cidr", d.serviceCIDR); err != nil {
			return err
		}
	}
	for _, name := range d.addons {
		if err := enable(&spec.Addons, name); err != nil {
			return err
		}
	}
	return d.nodes(cmd, spec, fromFile)
}

// nodes makes the node groups.
func (d *description) nodes(cmd *cobra.Command, spec *v1alpha1.ClusterSpec, fromFile bool) error {
	counted := cmd.Flags().Changed("workers")
	if d.workers < 0 || d.workers > 1000 {
		return exit.Usagef("--workers: %d is not between 0 and 1000", d.workers)
	}
	made := map[string]v1alpha1.NodeGroupTemplate{}
	if counted || (!fromFile && len(d.groups) == 0) {
		made["workers"] = Workers(spec.NodeGroups["workers"], d.workers)
	}
	for _, text := range d.groups {
		name, group, err := ParseGroup(text)
		if err != nil {
			return err
		}
		if _, twice := made[name]; twice {
			return exit.Usagef("--node-group: there are two groups %q", name)
		}
		made[name] = group
	}
	if d.instanceType != "" && len(made) == 0 {
		return exit.Usagef("--instance-type is the size of the nodes of --workers and --node-group; neither is given")
	}
	for name, group := range made {
		if group.InstanceType == "" {
			group.InstanceType = d.instanceType
		}
		if spec.NodeGroups == nil {
			spec.NodeGroups = map[string]v1alpha1.NodeGroupTemplate{}
		}
		spec.NodeGroups[name] = group
	}
	return nil
}

// fitInstallation fills in, where nobody says it, what is good for a cluster on this installation: how many replicas its
// control plane has, and which addresses are free.
func fitInstallation(offered *catalogue.Catalogue, spec *v1alpha1.ClusterSpec) {
	machines := onMachines(spec.Type)
	if machines && spec.ControlPlane.Replicas == 0 {
		spec.ControlPlane.Replicas = 1
	}
	if offered == nil || spec.Type != "" && spec.Type != v1alpha1.ClusterHosted && !machines {
		return
	}
	if spec.ControlPlane.Replicas == 0 {
		spec.ControlPlane.Replicas = offered.ControlPlaneReplicas
	}
	if spec.ClusterNetwork.PodCIDR == "" {
		spec.ClusterNetwork.PodCIDR = offered.PodRange()
	}
	if spec.ClusterNetwork.ServiceCIDR == "" {
		spec.ClusterNetwork.ServiceCIDR = offered.ServiceRange()
	}
}

// onMachines tells whether the control plane of such clusters runs on machines.
func onMachines(clusterType v1alpha1.ClusterType) bool {
	return clusterType == v1alpha1.ClusterKubeadm || clusterType == v1alpha1.ClusterK3s
}

// offers checks early, and in plainer words, what the API checks anyway.
func offers(offered *catalogue.Catalogue, spec *v1alpha1.ClusterSpec) error {
	clusterType := spec.Type
	if clusterType == "" {
		clusterType = v1alpha1.ClusterHosted
	}
	if err := require(offered, clusterType, catalogue.CanCreate, "create clusters"); err != nil {
		return err
	}
	if offered == nil || clusterType.InCloud() { // a cloud has versions and sizes of its own
		return nil
	}
	if _, err := offered.ResolveVersion(spec.Version); err != nil {
		return exit.With(exit.Refused, "`cloud versions` lists them", err)
	}
	sizes := []string{spec.ControlPlane.InstanceType}
	for _, group := range spec.NodeGroups {
		sizes = append(sizes, group.InstanceType)
	}
	for _, size := range sizes {
		if size == "" {
			continue
		}
		if _, err := offered.InstanceType(size); err != nil {
			return exit.With(exit.Refused, "`cloud instance-types` lists them", err)
		}
	}
	return nil
}
