package hosted

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/release"
)

// tokenMemory is how long an API server remembers whom the identity service has let in: a user who is disabled is refused
// within seconds, and one who works asks but now and then.
const tokenMemory = 5 * time.Second

// The containers of a control plane, named as their images are.
const (
	containerAPIServer         = "kube-apiserver"
	containerControllerManager = "kube-controller-manager"
	containerScheduler         = "kube-scheduler"
	containerKonnectivity      = release.ImageKonnectivityServer
)

const (
	tunnelDir    = "/run/konnectivity"
	tunnelSocket = tunnelDir + "/server.sock"
	auditDir     = "/var/log/kubernetes"

	annotationFingerprint = "plasmacloud.io/files"

	// shutdownDelay is how long a replica goes on serving while the last ones hear that it goes.
	shutdownDelay = 4 * time.Second
	// lease is how long the controllers of a replica that was lost keep their place.
	lease = 7500 * time.Millisecond

	// Of what a component may use, this part is set aside for it: most control planes idle.
	cpuShare    = 40
	memoryShare = 4
	// startPercent is the GOGC of Kubernetes' programs while they start.
	startPercent = "75"
	// cpuBurst is how many times the CPU of its preset a component may use while there is CPU to spare: it needs that
	// when it starts, and hardly ever else. What the cluster names itself is kept to.
	cpuBurst = 2
)

// plane is a control plane, described.
type plane struct {
	*build
	version  string
	endpoint base.Endpoint
	files    map[string][]byte
	images   map[string]string
	sizes    map[string]size
}

// size is what a container can count on, and how much CPU it may use at most.
type size struct {
	v1alpha1.Resources
	cpuLimit resource.Quantity
}

// choose looks up images and sizes.
func (p *plane) choose(offered *catalogue.Catalogue) error {
	spec := p.Cluster.Spec.ControlPlane
	p.images, p.sizes = map[string]string{}, map[string]size{}
	for name, wanted := range map[string]v1alpha1.Component{
		containerAPIServer:         v1alpha1.Component(spec.APIServer),
		containerControllerManager: spec.ControllerManager,
		containerScheduler:         spec.Scheduler,
		containerKonnectivity:      spec.Konnectivity.Server,
	} {
		image, err := offered.Image(p.version, name)
		if err != nil {
			return err
		}
		resources, err := offered.ComponentSize(wanted.Resources, wanted.ResourcesPreset)
		if err != nil {
			return fmt.Errorf("spec.controlPlane: size of %s: %w", name, err)
		}
		limit := resources.CPU.DeepCopy()
		if wanted.Resources.CPU == nil {
			limit.Mul(cpuBurst)
		}
		p.images[name], p.sizes[name] = image, size{Resources: resources, cpuLimit: limit}
	}
	return nil
}

func (p *plane) deployment() (*appsv1.Deployment, error) {
	serving, controlling, err := p.containers()
	if err != nil {
		return nil, err
	}
	pod := base.PodSpec(v1alpha1.ComponentControlPlane, controlling, p.volumes())
	pod.InitContainers = serving
	replicas := max(p.Cluster.Spec.ControlPlane.Replicas, 1)
	selector := map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentControlPlane}
	history, deadline := int32(2), int32(600)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: p.Meta(controlPlaneName),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: selector},
			RevisionHistoryLimit: &history, ProgressDeadlineSeconds: &deadline, Strategy: base.OneMore(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: p.ComponentLabels(v1alpha1.ComponentControlPlane),
					// New files replace the pods, as most programs read them once.
					Annotations: map[string]string{annotationFingerprint: fingerprint(p.files)},
				},
				Spec: pod,
			},
		},
	}, nil
}

// volumes: each container has its own view of the files.
func (p *plane) volumes() []corev1.Volume {
	mode := int32(0o440)
	limit := resource.MustParse("500Mi")
	small := resource.MustParse("1Mi")
	volumes := []corev1.Volume{
		{Name: "audit", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: "tunnel", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &small}}},
	}
	for _, container := range []string{containerAPIServer, containerControllerManager, containerScheduler, containerKonnectivity} {
		var items []corev1.KeyToPath
		for _, name := range filesOf(container) {
			if _, ok := p.files[name]; ok {
				items = append(items, corev1.KeyToPath{Key: name, Path: name})
			}
		}
		volumes = append(volumes, corev1.Volume{Name: container, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: controlPlaneName, DefaultMode: &mode, Items: items,
		}}})
	}
	return volumes
}

// containers are what serves, which starts first, one after the other, and what controls: that could do nothing without
// the API server but compete with it for the processor. They end in the opposite order, so that the tunnel stays for as
// long as the API server beside it serves.
func (p *plane) containers() (serving, controlling []corev1.Container, err error) {
	l := p.layout()
	etcd, err := l.etcd(p.files)
	if err != nil {
		return nil, nil, err
	}
	network := p.Cluster.Spec.ClusterNetwork
	server := bootstrap.APIServer{
		PKI: l, Datastore: etcd,
		AdvertiseAddress: p.endpoint.Address.String(), BindAddress: "0.0.0.0", Port: p.endpoint.Port(),
		ServiceCIDR: network.ServiceCIDR, ClusterDomain: network.Domain,
		Audit:          bootstrap.Audit{Policy: l.path(auditPolicyFile), Log: auditDir + "/audit.log", MaxAge: 7, MaxBackups: 2, MaxSize: 100},
		EgressSelector: l.path(egressSelectorFile), SharedAddress: true, ShutdownDelay: shutdownDelay,
	}
	if _, ok := p.files[webhook.FileName]; ok {
		server.Webhook = bootstrap.Webhook{Config: l.path(webhook.FileName), CacheTTL: tokenMemory}
	}
	client := func(kubeconfig string) bootstrap.Client {
		return bootstrap.Client{Kubeconfig: l.path(kubeconfig), BindAddress: "0.0.0.0", Lease: lease}
	}
	controllers := bootstrap.ControllerManager{
		Client: client(controllerManagerKubeconfig), PKI: l, ClusterCIDR: network.PodCIDR, ServiceCIDR: network.ServiceCIDR,
	}
	scheduler := bootstrap.Scheduler{Client: client(schedulerKubeconfig)}
	tunnel := bootstrap.KonnectivityServer{
		PKI: l, Certificate: bootstrap.KonnectivityTunnel, Kubeconfig: l.path(konnectivityKubeconfig), Socket: tunnelSocket,
		Replicas: int(max(p.Cluster.Spec.ControlPlane.Replicas, 1)),
	}
	serving = []corev1.Container{p.konnectivity(tunnel.Args()), p.apiServer(server.Args())}
	for i := range serving {
		always := corev1.ContainerRestartPolicyAlways
		serving[i].RestartPolicy = &always
	}
	return serving, []corev1.Container{
		p.container(containerControllerManager, controllers.Args(), alive(corev1.URISchemeHTTPS, bootstrap.ControllerManagerPort)),
		p.container(containerScheduler, scheduler.Args(), alive(corev1.URISchemeHTTPS, bootstrap.SchedulerPort)),
	}, nil
}

func (p *plane) apiServer(args []string) corev1.Container {
	c := p.container(containerAPIServer, args, probe(corev1.URISchemeHTTPS, "/livez", p.endpoint.Port(), 10, 8))
	c.StartupProbe = probe(corev1.URISchemeHTTPS, "/readyz", p.endpoint.Port(), 1, 300)
	c.ReadinessProbe = probe(corev1.URISchemeHTTPS, "/readyz", p.endpoint.Port(), 1, 3)
	c.Ports = []corev1.ContainerPort{{Name: base.PortAPI, ContainerPort: int32(p.endpoint.Port()), Protocol: corev1.ProtocolTCP}}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "audit", MountPath: auditDir}, corev1.VolumeMount{Name: "tunnel", MountPath: tunnelDir})
	return c
}

func (p *plane) konnectivity(args []string) corev1.Container {
	c := p.container(containerKonnectivity, args, alive(corev1.URISchemeHTTP, bootstrap.KonnectivityHealthPort))
	c.Ports = []corev1.ContainerPort{{Name: base.PortKonnectivity, ContainerPort: bootstrap.KonnectivityAgentPort, Protocol: corev1.ProtocolTCP}}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "tunnel", MountPath: tunnelDir})
	return c
}

func (p *plane) container(name string, args []string, liveness *corev1.Probe) corev1.Container {
	size := p.sizes[name]
	var command []string
	if name != containerKonnectivity { // whose image knows its program
		command = []string{name}
	}
	return corev1.Container{
		Name: name, Image: p.images[name], ImagePullPolicy: cmp.Or(p.PullPolicy, corev1.PullIfNotPresent),
		Command:                  command,
		Args:                     bootstrap.Flags(args),
		Env:                      environment(name, size),
		Resources:                requirements(size),
		LivenessProbe:            liveness,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          base.Unprivileged(),
		VolumeMounts:             []corev1.VolumeMount{{Name: name, MountPath: p.layout().Dir(), ReadOnly: true}},
	}
}

// environment makes the programs collect garbage sooner than Go does by itself, the smaller they are: many of them share
// a machine, and most have little to do. Kubernetes' own do so once they have started: until then it would cost them half
// as much time again, while a heap that has grown much at first does not become quite as small again. The limit makes
// them work harder at it before they hit the wall.
func environment(name string, size size) []corev1.EnvVar {
	const gibibyte = 1 << 30
	memory, percent := size.Memory.Value(), "100"
	switch {
	case memory <= gibibyte/2:
		percent = "15"
	case memory <= gibibyte:
		percent = "18"
	case memory <= 2*gibibyte:
		percent = "50"
	}
	variables := []corev1.EnvVar{
		{Name: "GOGC", Value: percent},
		{Name: "GOMEMLIMIT", Value: strconv.FormatInt(memory/10*9, 10)},
	}
	if name != containerKonnectivity {
		variables[0].Value = startPercent
		variables = append(variables, corev1.EnvVar{Name: "KUBE_THRIFTY_GOGC", Value: percent})
	}
	return variables
}

func requirements(size size) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: size.cpuLimit, corev1.ResourceMemory: *size.Memory},
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(max(size.CPU.MilliValue()/cpuShare, 1), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(size.Memory.Value()/memoryShare, resource.BinarySI),
		},
	}
}

// alive is for programs that are not asked whether they are ready: their clients find out.
func alive(scheme corev1.URIScheme, port int) *corev1.Probe {
	p := probe(scheme, "/healthz", port, 10, 8)
	p.InitialDelaySeconds = 15
	return p
}

func probe(scheme corev1.URIScheme, path string, port int, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: scheme, Path: path, Port: intstr.FromInt32(int32(port))}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 5,
	}
}
