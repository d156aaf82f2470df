package k3s

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// What Health looks at.
const (
	CheckService       = "service"
	CheckConfiguration = "configuration"
	CheckCertificates  = "certificates"
	CheckAPI           = "api"
	CheckEtcd          = "etcd"
)

const (
	stepHealth = "health"
	stepRepair = "repair"

	// expiring is when a certificate should have been renewed by the launcher long ago.
	expiring = 14 * 24 * time.Hour
)

//go:embed script/look.sh
var lookScript string

// Health implements hostsetup.Distribution.
func (d *Distribution) Health(ctx context.Context, host hostsetup.Host, role hostsetup.Role) ([]hostsetup.Finding, error) {
	k := kindOf(role)
	answer, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: stepHealth, Timeout: time.Minute,
		Args: append([]string{"sh", "-c", lookScript, "sh", k.unit(), laidFile, dataDir}, d.kubectl()...),
	})
	if err != nil {
		return nil, err
	}
	said := sections(answer.Stdout)
	findings := append(judgeService(k, said["state"]), judgeFiles(said["changed"])...)
	certificates := judgeCertificates(said["certificates"], time.Now())
	findings = append(findings, certificates...)
	if role != hostsetup.ControlPlane || strings.TrimSpace(said["state"]) != "active" {
		return findings, nil
	}
	if api := strings.TrimSpace(said["api"]); api != "ok" {
		findings = append(findings, hostsetup.Finding{
			Check: CheckAPI, Subject: host.Name, Message: "the API server is not ready: " + api, Remedy: "see " + dataDir + "/logs/kube-apiserver.log", Repairable: true,
		})
	}
	return append(findings, judgeMembers(said["members"])...), nil
}

// sections splits what the script prints: "== name" begins one.
func sections(text string) map[string]string {
	found := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		if next, begins := strings.CutPrefix(strings.TrimSpace(line), "== "); begins {
			name = next
			continue
		}
		found[name] += line
	}
	return found
}

func judgeService(k kind, state string) []hostsetup.Finding {
	if state = strings.TrimSpace(state); state == "active" {
		return nil
	}
	return []hostsetup.Finding{{
		Check: CheckService, Subject: k.unit(), Message: "it is " + state, Remedy: "systemctl start " + k.unit(), Repairable: true,
	}}
}

func judgeFiles(changed string) []hostsetup.Finding {
	var findings []hostsetup.Finding
	for _, name := range strings.Fields(changed) {
		findings = append(findings, hostsetup.Finding{
			Check: CheckConfiguration, Subject: name, Message: "it is not as it was laid", Remedy: "the repair lays it again", Repairable: true,
		})
	}
	return findings
}

// judgeCertificates finds those that expire soon, or have. The launcher renews its own when it starts.
func judgeCertificates(text string, now time.Time) []hostsetup.Finding {
	var findings []hostsetup.Finding
	name, rest := "", []byte(text)
	for len(rest) > 0 {
		if bytes, found := strings.CutPrefix(string(rest), "file "); found {
			line, after, _ := strings.Cut(bytes, "\n")
			name, rest = line, []byte(after)
			continue
		}
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || certificate.NotAfter.Sub(now) > expiring {
			continue
		}
		message := "it expires at " + certificate.NotAfter.UTC().Format(time.RFC3339)
		if now.After(certificate.NotAfter) {
			message = "it has expired at " + certificate.NotAfter.UTC().Format(time.RFC3339)
		}
		findings = append(findings, hostsetup.Finding{
			Check: CheckCertificates, Subject: name, Message: message, Remedy: "restart the service: it renews its certificates", Repairable: !certificate.IsCA,
		})
	}
	return findings
}

// Repair implements hostsetup.Distribution: everything is laid again, and the service started; restarted where its
// certificates or its API are not well.
func (d *Distribution) Repair(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, findings []hostsetup.Finding) error {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f hostsetup.Finding) bool { return !f.Repairable })
	if len(findings) == 0 {
		return nil
	}
	if err := d.install(ctx, host, cluster, role, func(string) {}); err != nil {
		return err
	}
	restart := slices.ContainsFunc(findings, func(f hostsetup.Finding) bool { return f.Check == CheckCertificates || f.Check == CheckAPI })
	s, err := d.mendedSettings(ctx, host, cluster, role)
	if err != nil {
		return err
	}
	if err := d.run(ctx, stepRepair, host, kindOf(role), s, restart); err != nil {
		return err
	}
	return d.ensureNetwork(ctx, stepRepair, host, cluster)
}

// mendedSettings are what the host's service should have been started with. A server's beginning is in what is left of
// them; where nothing is, its data tell it which cluster it belongs to, and how it came there does not matter any more.
func (d *Distribution) mendedSettings(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role) (settings, error) {
	k := kindOf(role)
	last, err := lastSettings(ctx, stepRepair, host, k)
	if err != nil {
		return settings{}, err
	}
	_, err = host.Client.Download(ctx, stepRepair, tokenFile, 1<<12)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return settings{}, err
	}
	hasToken := err == nil
	if k == agent {
		s := d.agentSettings(host, cluster)
		if !hasToken {
			s.TokenFile = "" // a node that has joined needs none
		}
		if last != nil && host.Labels == nil && host.Taints == nil && host.KubeletArgs == nil {
			s.NodeLabels, s.NodeTaints, s.KubeletArgs = last.NodeLabels, last.NodeTaints, last.KubeletArgs // whoever repairs does not know them
		}
		return s, nil
	}
	at := first
	if last != nil {
		cluster.HA = last.highlyAvailable()
	}
	if last != nil && hasToken {
		at = last.place()
	}
	return d.serverSettings(host, cluster, at), nil
}

// lastSettings are those that lie on the host; nil where there are none that can be read.
func lastSettings(ctx context.Context, step string, host hostsetup.Host, k kind) (*settings, error) {
	content, err := host.Client.Download(ctx, step, k.settingsFile(), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	last := &settings{}
	if err := yaml.Unmarshal(content, last); err != nil {
		return nil, nil //nolint:nilerr // it is damaged, and laid again
	}
	return last, nil
}
