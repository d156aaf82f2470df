package k8s

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// GroupUsage describes what ParseGroup reads.
const GroupUsage = "`name=…,min=…,max=…,replicas=…,type=…,storage=…,role=…` of a group of nodes, of which only name has to be given"

// defaultMax is the most nodes of a group that does not say.
const defaultMax = 10

// Workers is the group of --workers: as large as asked for now, with room to grow. It may have been there before.
func Workers(before v1alpha1.NodeGroupTemplate, replicas int32) v1alpha1.NodeGroupTemplate {
	before.Replicas = &replicas
	before.MinReplicas = min(before.MinReplicas, replicas)
	before.MaxReplicas = max(before.MaxReplicas, defaultMax, replicas)
	return before
}

// ParseGroup reads a group of nodes as --node-group has it.
func ParseGroup(text string) (name string, group v1alpha1.NodeGroupTemplate, err error) {
	keys := []string{"name", "min", "max", "replicas", "type", "storage", "role"}
	group.MaxReplicas = -1
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); !found || value == "" {
			return "", group, exit.Usagef("--node-group: %q is not key=value; it looks like name=web,min=1,max=5,type=u1.large", part)
		}
		switch key {
		case "name":
			name = value
		case "type":
			group.InstanceType = value
		case "role":
			group.Roles = append(group.Roles, value)
		case "storage":
			group.EphemeralStorage, err = Storage("node-group", value)
		case "min":
			group.MinReplicas, err = count(key, value)
		case "max":
			group.MaxReplicas, err = count(key, value)
		case "replicas":
			var n int32
			n, err = count(key, value)
			group.Replicas = &n
		default:
			err = exit.Usagef("--node-group: there is no %q; there are %s%s", key, strings.Join(keys, ", "), command.DidYouMean(key, keys, ""))
		}
		if err != nil {
			return "", group, err
		}
	}
	if name == "" {
		return "", group, exit.Usagef("--node-group: %q has no name; it looks like name=web,min=1,max=5", text)
	}
	return name, group, Bound(&group)
}

// Bound gives a group that does not say how large it may become room to grow, and checks the bounds.
func Bound(group *v1alpha1.NodeGroupTemplate) error {
	least := group.MinReplicas
	if group.Replicas != nil {
		least = max(least, *group.Replicas)
	}
	if group.MaxReplicas < 0 {
		group.MaxReplicas = max(defaultMax, least)
	}
	if group.MinReplicas > group.MaxReplicas {
		return exit.Usagef("the least number of nodes, %d, is greater than the greatest, %d", group.MinReplicas, group.MaxReplicas)
	}
	if r := group.Replicas; r != nil && (*r < group.MinReplicas || *r > group.MaxReplicas) {
		return exit.Usagef("%d nodes are not between the least, %d, and the greatest, %d", *r, group.MinReplicas, group.MaxReplicas)
	}
	return nil
}

func count(key, value string) (int32, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n > 1000 {
		return 0, exit.Usagef("--node-group: %s: %q is not a number between 0 and 1000", key, value)
	}
	return int32(n), nil
}

// Storage reads a size of disks.
func Storage(flag, value string) (*resource.Quantity, error) {
	size, err := resource.ParseQuantity(value)
	if err != nil || size.Sign() <= 0 {
		return nil, exit.Usagef("--%s: %q is no size; it looks like 20Gi", flag, value)
	}
	return &size, nil
}
