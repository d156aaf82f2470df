package kubeadm

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

// What Health looks at.
const (
	CheckMembership    = "membership"
	CheckUnit          = "unit"
	CheckConfiguration = "configuration"
	CheckCertificates  = "certificates"
	CheckAPI           = "api"
	CheckEtcd          = "etcd"
)

const (
	// expiring is when certificates are renewed: kubeadm's last for a year.
	expiring = 60 * 24 * time.Hour
	// kubeletExpiring is when a kubelet should have renewed its own long ago.
	kubeletExpiring = 7 * 24 * time.Hour

	// kubeletCertificate is the kubelet's own.
	kubeletCertificate = "kubelet-client-current.pem"
)

//go:embed script/health.sh
var healthScript string

// Health implements hostsetup.Distribution.
func (d *Distribution) Health(ctx context.Context, host hostsetup.Host, role hostsetup.Role) ([]hostsetup.Finding, error) {
	answer, err := d.script(ctx, host, stepHealth, healthScript, string(role), networkService, laidFile, doneFile,
		net.JoinHostPort(host.Address, strconv.Itoa(bootstrap.KubeadmAPIPort)))
	if err != nil {
		return nil, err
	}
	findings := judge(answer, host, role, d.clock.Now())
	if role != hostsetup.ControlPlane {
		return findings, nil
	}
	members, err := d.members(ctx, host)
	if err != nil {
		findings = append(findings, hostsetup.Finding{
			Check: CheckEtcd, Subject: host.Name, Message: "it does not answer: " + err.Error(), Remedy: "see the log of its pod: journalctl -u kubelet", Repairable: true,
		})
	}
	return append(findings, judgeMembers(members)...), nil
}

// members asks etcd's members how they are.
func (d *Distribution) members(ctx context.Context, host hostsetup.Host) ([]etcd.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience/2)
	defer cancel()
	client, err := d.datastore(ctx, host, stepHealth)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	return etcd.Members(ctx, client)
}

// judge reads what the script printed.
func judge(answer string, host hostsetup.Host, role hostsetup.Role, now time.Time) []hostsetup.Finding {
	var findings []hostsetup.Finding
	for _, section := range strings.Split("\n"+answer, "\n== ")[1:] {
		title, content, _ := strings.Cut(section, "\n")
		kind, subject, _ := strings.Cut(title, " ")
		content = strings.TrimSpace(content)
		switch kind {
		case "unit":
			if content != "active" {
				findings = append(findings, hostsetup.Finding{
					Check: CheckUnit, Subject: subject, Message: "it is " + content, Remedy: "systemctl restart " + subject, Repairable: true,
				})
			}
		case "changed":
			for _, file := range strings.Fields(content) {
				findings = append(findings, hostsetup.Finding{
					Check: CheckConfiguration, Subject: file, Message: "it is not as it was laid", Remedy: "the repair lays it again", Repairable: true,
				})
			}
		case "certificate":
			findings = append(findings, judgeCertificate(subject, content, role, now)...)
		case "membership":
			if content == "" {
				findings = append(findings, hostsetup.Finding{
					Check: CheckMembership, Subject: host.Name, Message: "the host is no part of a cluster", Remedy: "replace the machine: it was reset, or never finished",
				})
			}
		case "api":
			if content != "ok" {
				findings = append(findings, hostsetup.Finding{
					Check: CheckAPI, Subject: host.Name, Message: "the API server is not ready: " + strings.Join(strings.Fields(content), " "),
					Remedy: "see the log of its pod: journalctl -u kubelet", Repairable: true,
				})
			}
		}
	}
	return findings
}

// judgeCertificate finds a certificate that expires soon, or has. Authorities last for ten years, and nobody can renew
// them without the cluster's people; a worker's kubelet proves who it is with the one that it has.
func judgeCertificate(name, content string, role hostsetup.Role, now time.Time) []hostsetup.Finding {
	finding := hostsetup.Finding{Check: CheckCertificates, Subject: name, Message: "it cannot be read", Remedy: "the repair makes it anew", Repairable: true}
	block, _ := pem.Decode([]byte(content))
	if block == nil {
		return []hostsetup.Finding{finding}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return []hostsetup.Finding{finding}
	}
	margin := expiring
	if name == kubeletCertificate {
		margin = kubeletExpiring
	}
	left := certificate.NotAfter.Sub(now)
	if left > margin {
		return nil
	}
	finding.Message = "it expires at " + certificate.NotAfter.UTC().Format(time.RFC3339)
	if left < 0 {
		finding.Message = "it has expired at " + certificate.NotAfter.UTC().Format(time.RFC3339)
	}
	switch {
	case certificate.IsCA:
		finding.Remedy, finding.Repairable = "make a new cluster, or replace the authority as Kubernetes' documentation describes (manual rotation of CA certificates)", false
	case name == kubeletCertificate && role == hostsetup.Worker:
		finding.Remedy, finding.Repairable = "replace the machine", false
	}
	return []hostsetup.Finding{finding}
}

func judgeMembers(members []etcd.MemberStatus) []hostsetup.Finding {
	var findings []hostsetup.Finding
	for _, member := range members {
		if member.Healthy {
			continue
		}
		name := member.Name
		if name == "" {
			name = member.PeerURL
		}
		findings = append(findings, hostsetup.Finding{
			Check: CheckEtcd, Subject: name, Message: fmt.Sprintf("the etcd member is not well: %s", member.Error),
			Remedy: "mend its machine, or let the repair of the cluster replace it",
		})
	}
	return findings
}
