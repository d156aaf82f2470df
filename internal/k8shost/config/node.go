package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"
)

// longestSockets are the unix sockets with the longest names below the data directory.
func longestSockets() []string {
	return []string{
		"/agent/containerd/containerd.sock.ttrpc",
		"/agent/kubelet/pod-resources/kubelet.sock",
	}
}

// socketPathLimit is what the kernel lets a socket's path have, without its final zero.
const socketPathLimit = 107

var kubernetesVersion = regexp.MustCompile(`^v?1\.[0-9]+(\.[0-9]+)?$`)

// ReadToken gives the token from --token or --token-file; it is empty when neither is given.
func (n *Node) ReadToken() (Secret, error) {
	if n.TokenFile == "" {
		return n.Token, nil
	}
	content, err := os.ReadFile(n.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read --token-file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("read --token-file %s: it is empty: put the token there", n.TokenFile)
	}
	return Secret(token), nil
}

func (n *Node) validateGeneral(p *problems) {
	if n.DataDir == "" {
		p.add("--data-dir is empty: name a directory, such as %s", DefaultDataDir)
	}
	room := socketPathLimit
	for _, socket := range longestSockets() {
		room = min(room, socketPathLimit-len(socket))
	}
	if len(n.DataDir) > room {
		p.add("--data-dir %s: %d bytes are too long for the sockets below it: use a path of at most %d", n.DataDir, len(n.DataDir), room)
	}
	if strings.ContainsAny(n.DataDir, ",:\n") {
		// Overlay mounts separate their directories by these.
		p.add("--data-dir %q: overlay mounts cannot have a comma, colon or line break in a path: use another name", n.DataDir)
	}
	if info, err := os.Stat(n.DataDir); err == nil && !info.IsDir() {
		p.add("--data-dir %s: not a directory: name another one", n.DataDir)
	}
	if n.KubernetesVersion != "" && !kubernetesVersion.MatchString(n.KubernetesVersion) {
		p.add("--kubernetes-version %s: write it as v1.36 or v1.36.3", n.KubernetesVersion)
	}
}

func (n *Node) validateNode(p *problems) {
	if why := validation.IsDNS1123Subdomain(n.NodeName); len(why) > 0 {
		p.add("--node-name %q: a node's name has lower case letters, digits, '-' and '.' only: give another one", n.NodeName)
	}
	switch ip := n.NodeIP; {
	case !ip.IsValid():
		p.add("--node-ip is missing: this host has no default route and not exactly one address: tell which address is the node's")
	case !reachable(ip):
		p.add("--node-ip %s: give an IPv4 address of this host that other nodes can reach", ip)
	}
	if n.MaxPods < 1 {
		p.add("--max-pods %d: give at least 1", n.MaxPods)
	}
	for _, label := range n.NodeLabels {
		p.label(label)
	}
	for _, taint := range n.NodeTaints {
		if _, err := ParseTaint(taint); err != nil {
			p.add("--node-taint %s: %w", taint, err)
		}
	}
	p.args("kubelet-arg", n.KubeletArgs, ownedByKubelet())
	p.args("kube-proxy-arg", n.KubeProxyArgs, ownedByProxy())
}

func (p *problems) label(label string) {
	key, value, ok := strings.Cut(label, "=")
	switch why := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); {
	case !ok:
		p.add("--node-label %s: write it as key=value", label)
	case len(why) > 0:
		p.add("--node-label %s: %s", label, strings.Join(why, "; "))
	case reserved(key) && !kubeletapis.IsKubeletLabel(key):
		p.add("--node-label %s: a node may not give itself this label: use another prefix, or `k8shost kubectl label node`", label)
	}
}

// reserved reports whether a label's prefix belongs to Kubernetes; kubelet does not start
// with such a label unless it is one of a few.
func reserved(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(domain string) bool {
		return prefix == domain || strings.HasSuffix(prefix, "."+domain)
	})
}

// ParseTaint reads a taint such as key=value:NoSchedule or key:NoExecute.
func ParseTaint(text string) (corev1.Taint, error) {
	left, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(left, "=")
	effects := []string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}
	if !ok || !slices.Contains(effects, effect) {
		return corev1.Taint{}, fmt.Errorf("write it as key=value:Effect, where Effect is one of %s", strings.Join(effects, ", "))
	}
	if why := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(why) > 0 {
		return corev1.Taint{}, fmt.Errorf("write it as key=value:Effect: %s", strings.Join(why, "; "))
	}
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, nil
}
