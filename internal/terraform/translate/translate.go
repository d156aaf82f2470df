// Package translate holds what the translations for all clouds have in common: names, sizes of machines, ranges of
// addresses, node groups, and who reaches a cluster's API. It refuses what no cloud does, in the user's words, before a
// provider refuses it in its own. What differs from cloud to cloud is in the packages aws, gcp and azure.
package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// StackName names the stack of a resource: unique in the platform, and the same for as long as the resource lives. The UID is
// part of it: one that is made anew under the same name never meets what is left of the one before.
func StackName(project, kind, name, uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return project + "." + kind + "." + name + "." + hex.EncodeToString(sum[:4])
}

// Name is what a resource is called in the cloud. Two projects may use one account, and names there are one's own only
// by chance: so it ends with a piece of the stack's. It has at most 37 characters, for the narrowest cloud.
func Name(stack, name string) string {
	sum := sha256.Sum256([]byte(stack))
	return strings.TrimSuffix(name[:min(len(name), 30)], "-") + "-" + hex.EncodeToString(sum[:3])
}

// Minor is the version of Kubernetes as clouds take it: v1.35 is 1.35. They choose the patch version themselves.
func Minor(version string, path *field.Path) (string, field.ErrorList) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	switch {
	case version == "":
		return "", field.ErrorList{field.Required(path, "name the minor version, such as v1.35: a cloud's newest may be newer than the platform knows")}
	case len(parts) != 2:
		return "", field.ErrorList{field.Invalid(path, version, "a cloud chooses the patch version itself; name the minor version, such as v"+strings.Join(parts[:min(2, len(parts))], "."))}
	}
	return strings.Join(parts, "."), nil
}

// Access is who reaches the API from outside of the network: the ranges that the cluster names, and those that the
// platform itself comes from. Everybody only if that is named: without any range, nobody.
func Access(access v1alpha1.Access, platform []string) (public bool, cidrs []string) {
	if access.Public != nil && !*access.Public {
		return false, []string{}
	}
	cidrs = slices.Concat(access.CIDRs, platform)
	slices.Sort(cidrs)
	cidrs = slices.Compact(cidrs)
	if cidrs == nil {
		cidrs = []string{}
	}
	return len(cidrs) > 0, cidrs
}

// ClusterNetwork refuses what clouds decide themselves.
func ClusterNetwork(network v1alpha1.ClusterNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if network.Domain != "" && network.Domain != "cluster.local" {
		errs = append(errs, field.Invalid(path.Child("domain"), network.Domain, "clusters in clouds have the domain cluster.local"))
	}
	if network.CNI == v1alpha1.CNINone {
		errs = append(errs, field.Invalid(path.Child("cni"), network.CNI, "a cloud brings its own pod network; leave it out"))
	}
	return errs
}

// Overlap refuses a range that overlaps with another.
func Overlap(path *field.Path, cidr, other, what string) field.ErrorList {
	a, errA := netip.ParsePrefix(cidr)
	b, errB := netip.ParsePrefix(other)
	if errA != nil || errB != nil || !a.Overlaps(b) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, cidr, fmt.Sprintf("it overlaps with %s, %s; choose ranges apart", what, other))}
}

// Within refuses a range that is larger or smaller than a cloud takes.
func Within(path *field.Path, cidr string, largest, smallest int, who string) field.ErrorList {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return field.ErrorList{field.Invalid(path, cidr, "this is no range of addresses")}
	}
	if !prefix.Addr().Is4() {
		return field.ErrorList{field.Invalid(path, cidr, "clusters in clouds have IPv4 ranges")}
	}
	if prefix.Bits() < largest || prefix.Bits() > smallest {
		return field.ErrorList{field.Invalid(path, cidr, fmt.Sprintf("%s takes ranges from /%d to /%d", who, largest, smallest))}
	}
	return nil
}

// Group is a node group as all clouds understand it.
type Group struct {
	Name              string
	Min, Max, Desired int
	Machine           string // the cloud's name
	DiskGiB           int
	Labels            map[string]string
	Taints            []corev1.Taint
	MaxSurge          string
	MaxUnavailable    string
}

// LabelRole is followed by a role in the label of a node that has it. Clouds refuse labels of Kubernetes itself.
const LabelRole = "role.plasmacloud.io/"

// reserved are the ends of label prefixes that clouds keep for Kubernetes.
var reserved = []string{"kubernetes.io", "k8s.io"}

// Groups translates the node groups of a cluster, sorted by name.
func Groups(groups map[string]v1alpha1.NodeGroupTemplate, sizes Sizes, path *field.Path) ([]Group, field.ErrorList) {
	var errs field.ErrorList
	translated := make([]Group, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		group, problems := translateGroup(name, groups[name], sizes, path.Key(name))
		translated, errs = append(translated, group), append(errs, problems...)
	}
	return translated, errs
}

func translateGroup(name string, template v1alpha1.NodeGroupTemplate, sizes Sizes, path *field.Path) (Group, field.ErrorList) {
	var errs field.ErrorList
	group := Group{
		Name: name, Min: int(template.MinReplicas), Max: int(template.MaxReplicas), Desired: int(template.MinReplicas),
		DiskGiB: 20, Labels: map[string]string{v1alpha1.LabelNodeGroup: name}, Taints: template.Taints, MaxSurge: "1", MaxUnavailable: "0",
	}
	if template.Replicas != nil {
		group.Desired = int(*template.Replicas)
	}
	if group.Max == 0 {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), template.MaxReplicas, "a group in a cloud may grow to one node at least; remove the group instead"))
	}
	machine, err := sizes.Machine(template.InstanceType)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("instanceType"), template.InstanceType, err.Error()))
	}
	group.Machine = machine
	if template.Resources.CPU != nil || template.Resources.Memory != nil {
		errs = append(errs, field.Forbidden(path.Child("resources"), "machines in a cloud come in fixed sizes; name an instanceType instead"))
	}
	if len(template.GPUs) > 0 && !sizes.GPU(template.InstanceType) {
		errs = append(errs, field.Invalid(path.Child("gpus"), template.InstanceType, "this instance type has no GPU; choose one such as gn1.xlarge"))
	}
	if template.EphemeralStorage != nil {
		const gib = 1 << 30
		group.DiskGiB = int((template.EphemeralStorage.Value() + gib - 1) / gib)
	}
	for key, value := range template.Labels {
		prefix, _, _ := strings.Cut(key, "/")
		if slices.ContainsFunc(reserved, func(end string) bool { return prefix == end || strings.HasSuffix(prefix, "."+end) }) && strings.Contains(key, "/") {
			errs = append(errs, field.Invalid(path.Child("labels"), key, "clouds refuse labels of Kubernetes itself; choose another prefix"))
		}
		group.Labels[key] = value
	}
	for _, role := range template.Roles {
		group.Labels[LabelRole+role] = "true"
	}
	if surge := template.RollingUpdate.MaxSurge; surge != nil {
		group.MaxSurge = surge.String()
	}
	if unavailable := template.RollingUpdate.MaxUnavailable; unavailable != nil {
		group.MaxUnavailable = unavailable.String()
	}
	return group, errs
}

// Provider refuses a resource of another cloud.
func Provider(account *v1alpha1.Account, want v1alpha1.Provider) field.ErrorList {
	if account.Spec.Provider == want {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "provider"), account.Spec.Provider, fmt.Sprintf("this is for accounts of %s", want))}
}
