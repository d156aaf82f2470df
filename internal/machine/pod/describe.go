package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/guest"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
)

const (
	// annotationDescription names the description that a machine was made from, by its content.
	annotationDescription = "plasmacloud.io/description"

	containerName = "machine"

	// hostPublicKeyFile is beside the machine's private key. The machine has no use for it; who reaches it compares.
	hostPublicKeyFile = guest.HostKeyFile + ".pub"

	// filesLimit is what a Secret can hold, less what goes with it.
	filesLimit = 1000 << 10

	// besidesDisk is what a machine may keep besides its disk: the SSH host key, for one.
	besidesDisk = 64 << 20

	// stopSeconds is how long a machine may take to shut down before it is cut off.
	stopSeconds = 10

	// sharedCPU is how many machines' CPUs one CPU of a host is promised to, unless they are dedicated;
	// overcommittedMemory is the same of memory that is overcommitted. Limits are always the whole.
	sharedCPU           = 10
	overcommittedMemory = 2
)

// Name is the name of a machine's pod.
func Name(key machine.Key) string {
	if strings.HasPrefix(key.Name, key.Cluster+"-") {
		return key.Name // the cluster is in it already
	}
	return key.Cluster + "-" + key.Name
}

// ownLabels are those that everything has which is made for a machine.
func ownLabels(key machine.Key) map[string]string {
	return map[string]string{
		v1alpha1.LabelComponent: v1alpha1.ComponentMachine, v1alpha1.LabelCluster: key.Cluster, v1alpha1.LabelMachine: key.Name,
	}
}

// keyOf is the key of the machine that a pod is.
func keyOf(pod *corev1.Pod) machine.Key {
	return machine.Key{Namespace: pod.Namespace, Cluster: pod.Labels[v1alpha1.LabelCluster], Name: pod.Labels[v1alpha1.LabelMachine]}
}

// describe turns the description of a machine into that of its pod and of the Secret with its files.
func (d *Driver) describe(spec machine.Spec) (*corev1.Pod, *corev1.Secret, error) {
	if spec.Image == "" {
		spec.Image = d.config.Image
	}
	if err := validate(spec); err != nil {
		return nil, nil, err
	}
	files, err := filesOf(spec)
	if err != nil {
		return nil, nil, err
	}
	sum, err := digest(spec)
	if err != nil {
		return nil, nil, err
	}
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, ownLabels(spec.Key))
	meta := metav1.ObjectMeta{
		Namespace: spec.Key.Namespace, Name: Name(spec.Key), Labels: labels, Annotations: map[string]string{annotationDescription: sum},
	}
	yes := true
	secret := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Immutable: &yes, Data: map[string][]byte{}}
	secret.Name += "-" + sum[:8] // machines of one name and different descriptions must not get one another's files
	source := &corev1.SecretVolumeSource{SecretName: secret.Name, DefaultMode: ptr(int32(0o400)), Items: []corev1.KeyToPath{}}
	for i, file := range slices.Sorted(maps.Keys(files)) {
		key := fmt.Sprintf("file-%d", i)
		secret.Data[key] = files[file]
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: strings.TrimPrefix(file, "/")})
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: d.podSpec(spec, source)}, secret, nil
}

// filesOf are all files of a machine: those that it was given, and its keys.
func filesOf(spec machine.Spec) (map[string][]byte, error) {
	files := maps.Clone(spec.Files)
	if files == nil {
		files = map[string][]byte{}
	}
	if len(spec.AuthorizedKeys) > 0 {
		files[guest.AuthorizedKeysFile] = []byte(strings.Join(spec.AuthorizedKeys, "\n") + "\n")
	}
	if len(spec.HostKey) > 0 {
		public, err := sshkey.Public(spec.HostKey)
		if err != nil {
			return nil, fmt.Errorf("%w: host key: %w", machine.ErrInvalid, err)
		}
		files[guest.HostKeyFile], files[hostPublicKeyFile] = spec.HostKey, []byte(public+"\n")
	}
	return files, nil
}

func (d *Driver) podSpec(spec machine.Spec, files *corev1.SecretVolumeSource) corev1.PodSpec {
	no, policy := false, d.config.PullPolicy
	if policy == "" {
		policy = corev1.PullIfNotPresent
	}
	// The disk is one file of its size, with little besides it.
	room := resource.NewQuantity(spec.Disk.Value()+besidesDisk, resource.BinarySI)
	inMemory := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Hostname:      spec.Key.Name,
		// Names are resolved as the host resolves them: the service addresses of the host's cluster are not for machines,
		// and may be those of the machine's own cluster.
		DNSPolicy:                     corev1.DNSDefault,
		EnableServiceLinks:            &no,
		AutomountServiceAccountToken:  &no,
		TerminationGracePeriodSeconds: ptr(int64(stopSeconds)),
		PriorityClassName:             d.config.PriorityClass,
		// Machines of a cluster are spread over the hosts, as far as there is room.
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelComponent: v1alpha1.ComponentMachine, v1alpha1.LabelCluster: spec.Key.Cluster,
			}},
		}},
		Containers: []corev1.Container{{
			Name: containerName, Image: spec.Image, ImagePullPolicy: policy,
			SecurityContext: &corev1.SecurityContext{Privileged: ptr(true)},
			Resources:       resources(spec),
			Env: []corev1.EnvVar{
				{Name: guest.EnvID, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
				{Name: guest.EnvCPU, ValueFrom: limit("limits.cpu", "1m")},
				{Name: guest.EnvMemory, ValueFrom: limit("limits.memory", "1")},
				{Name: guest.EnvDisk, Value: strconv.FormatInt(spec.Disk.Value(), 10)},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "disk", MountPath: guest.DiskDir},
				{Name: "files", MountPath: guest.FilesDir, ReadOnly: true},
				{Name: "run", MountPath: "/run"},
				{Name: "tmp", MountPath: "/tmp"},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
		Volumes: []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: room}}},
			{Name: "files", VolumeSource: corev1.VolumeSource{Secret: files}},
			{Name: "run", VolumeSource: inMemory},
			{Name: "tmp", VolumeSource: inMemory},
		},
	}
}

func limit(resourceName, divisor string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
		ContainerName: containerName, Resource: resourceName, Divisor: resource.MustParse(divisor),
	}}
}

// resources are what the cluster keeps free for a machine, and what the machine cannot go beyond.
func resources(spec machine.Spec) corev1.ResourceRequirements {
	cpu, memory := spec.CPU.DeepCopy(), spec.Memory.DeepCopy()
	if !spec.DedicatedCPU {
		cpu = *resource.NewMilliQuantity(max(1, cpu.MilliValue()/sharedCPU), resource.DecimalSI)
	}
	if spec.OvercommittedMemory {
		memory = *resource.NewQuantity(memory.Value()/overcommittedMemory, resource.BinarySI)
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: spec.CPU, corev1.ResourceMemory: spec.Memory},
	}
}

// digest names a description by its content. What means the same has the same name.
func digest(spec machine.Spec) (string, error) {
	spec.CPU = *resource.NewMilliQuantity(spec.CPU.MilliValue(), resource.DecimalSI)
	spec.Memory = *resource.NewQuantity(spec.Memory.Value(), resource.BinarySI)
	spec.Disk = *resource.NewQuantity(spec.Disk.Value(), resource.BinarySI)
	data, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("describe machine %s: %w", spec.Key, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// validate tells what no pod can be.
func validate(spec machine.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", machine.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case spec.Image == "":
		return invalid("no image is named, and the driver has none of its own")
	case len(spec.GPUs) > 0:
		return invalid("a machine that is a pod has no GPUs")
	case spec.Network != "":
		return invalid("a machine that is a pod is in the pods' network, not in %q", spec.Network)
	}
	for key, value := range spec.Labels {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(problems) > 0 {
			return invalid("label %q=%q: %s", key, value, problems[0])
		}
	}
	for _, key := range spec.AuthorizedKeys {
		if strings.ContainsAny(key, "\n\r") {
			return invalid("an authorized key has several lines")
		}
	}
	total := 0
	for file, content := range spec.Files {
		if !path.IsAbs(file) || path.Clean(file) != file || file == "/" || strings.Contains(file, "/..") {
			return invalid("file %q is not named by a plain absolute path", file)
		}
		if file == guest.AuthorizedKeysFile && len(spec.AuthorizedKeys) > 0 {
			return invalid("file %s is given, and authorized keys besides", file)
		}
		total += len(file) + len(content)
	}
	if total > filesLimit {
		return invalid("its files have %d bytes, a pod can be given %d", total, filesLimit)
	}
	return nil
}

func ptr[T any](value T) *T { return &value }
