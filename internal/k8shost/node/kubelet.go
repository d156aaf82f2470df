package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

const kubeletHealthz = "http://127.0.0.1:10248/healthz"

// Kubelet returns the kubelet.
func (n *Node) Kubelet(credentials Credentials) (*component.Process, error) {
	binary, err := n.Release.Kube(n.Version)
	if err != nil {
		return nil, err
	}
	configFile := filepath.Join(n.Dir.Agent(), "kubelet.yaml")
	args := []string{
		"config=" + configFile,
		"kubeconfig=" + credentials.Kubelet,
		"root-dir=" + n.Dir.Kubelet(),
		"cert-dir=" + n.Dir.AgentPKI(),
		"hostname-override=" + n.Config.NodeName,
		"node-ip=" + n.Config.NodeIP.String(),
	}
	if credentials.Bootstrap != "" {
		args = append(args, "bootstrap-kubeconfig="+credentials.Bootstrap)
	}
	if len(n.Config.NodeLabels) > 0 {
		args = append(args, "node-labels="+strings.Join(n.Config.NodeLabels, ","))
	}
	return n.process(component.Spec{
		Name: "kubelet", Path: binary, Args: n.Config.KubeletArgs.Flags(args...), Env: []string{n.binPath()},
		Prepare: func(context.Context) error { return n.prepareKubelet(configFile, credentials) },
		Probe:   answering(kubeletHealthz),
	}), nil
}

func (n *Node) prepareKubelet(configFile string, credentials Credentials) error {
	if err := shareRootMount(); err != nil {
		return err
	}
	if n.Settings.OwnCgroup {
		if err := n.Cgroups.Ensure(n.Dir.Cgroup()); err != nil {
			return err
		}
	}
	for _, dir := range []string{n.Dir.Kubelet(), n.staticPods()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make kubelet's directory: %w", err)
		}
	}
	settings, err := n.kubeletConfiguration(credentials)
	if err != nil {
		return err
	}
	content, err := yaml.Marshal(settings)
	if err != nil {
		return err
	}
	_, err = atomicfile.WriteChanged(configFile, content, 0o600)
	return err
}

func (n *Node) staticPods() string { return filepath.Join(n.Dir.Agent(), "pod-manifests") }

// shareRootMount lets mounts made by the kubelet reach the containers and the other way round.
func shareRootMount() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the root mount, which volumes of pods need: %w", err)
	}
	return nil
}

func (n *Node) kubeletConfiguration(credentials Credentials) (*kubeletconfig.KubeletConfiguration, error) {
	taints, err := parseTaints(n.Config.NodeTaints)
	if err != nil {
		return nil, err
	}
	yes, no := true, false
	cgroupRoot := "" // the kubelet's default, the root; there systemd makes what is needed
	if n.Settings.OwnCgroup {
		cgroupRoot = "/" + n.Dir.Cgroup()
	}
	settings := &kubeletconfig.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration"},
		Authentication: kubeletconfig.KubeletAuthentication{
			X509:      kubeletconfig.KubeletX509Authentication{ClientCAFile: credentials.CA},
			Webhook:   kubeletconfig.KubeletWebhookAuthentication{Enabled: &yes},
			Anonymous: kubeletconfig.KubeletAnonymousAuthentication{Enabled: &no},
		},
		Authorization:            kubeletconfig.KubeletAuthorization{Mode: kubeletconfig.KubeletAuthorizationModeWebhook},
		CgroupDriver:             n.Settings.CgroupDriver,
		CgroupRoot:               cgroupRoot,
		FailCgroupV1:             ptr(n.Settings.FailCgroupV1),
		FailSwapOn:               ptr(n.Settings.FailSwapOn),
		ContainerRuntimeEndpoint: "unix://" + n.Dir.ContainerdSocket(),
		ClusterDomain:            n.ClusterDomain,
		ClusterDNS:               []string{n.ClusterDNS},
		ResolverConfig:           ptr(resolvConf()),
		StaticPodPath:            n.staticPods(),
		PodLogsDir:               filepath.Join(n.Dir.Agent(), "pod-logs"),
		VolumePluginDir:          filepath.Join(n.Dir.Agent(), "volume-plugins"),
		RegisterWithTaints:       taints,
		MaxPods:                  int32(n.Config.MaxPods),
		RotateCertificates:       true,
		// Nothing here uses iptables; the kubelet need not leave chains behind.
		MakeIPTablesUtilChains: &no,
		SerializeImagePulls:    &no,
		OOMScoreAdj:            ptr(int32(oomScoreAdj(n.Settings))),
		HealthzBindAddress:     "127.0.0.1",
		// The defaults keep 15 % of the image file system free, which is much of a large disk.
		EvictionHard: map[string]string{
			"memory.available": "100Mi", "nodefs.available": "5%", "nodefs.inodesFree": "5%", "imagefs.available": "5%",
		},
		// A node whose disk was full takes pods again soon after there is room; the default is five minutes.
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: time.Minute},

		ImageGCHighThresholdPercent: ptr(int32(90)),
		ImageGCLowThresholdPercent:  ptr(int32(85)),
		NodeStatusUpdateFrequency:   metav1.Duration{Duration: 10 * time.Second},
		RuntimeRequestTimeout:       metav1.Duration{Duration: 2 * time.Minute},
		Logging:                     logsapi.LoggingConfiguration{Format: "text"},
		ServerTLSBootstrap:          credentials.ServingCert == "",
		TLSCertFile:                 credentials.ServingCert,
		TLSPrivateKeyFile:           credentials.ServingKey,
	}
	return settings, nil
}

func oomScoreAdj(settings host.Settings) int {
	if settings.RestrictOOMScoreAdj {
		return 0
	}
	return -999
}

// resolvConf is the file that pods inherit name servers from. Where the host runs a stub resolver on loopback, its
// upstream servers are in another file; pods cannot reach the host's loopback.
func resolvConf() string {
	const plain, upstream = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"
	content, err := os.ReadFile(plain)
	if err != nil || !strings.Contains(string(content), "127.0.0.53") {
		return plain
	}
	if _, err := os.Stat(upstream); errors.Is(err, os.ErrNotExist) {
		return plain
	}
	return upstream
}

func parseTaints(specs []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, spec := range specs {
		taint, err := config.ParseTaint(spec)
		if err != nil {
			return nil, err
		}
		taints = append(taints, taint)
	}
	return slices.Clip(taints), nil
}

func ptr[T any](v T) *T { return &v }
