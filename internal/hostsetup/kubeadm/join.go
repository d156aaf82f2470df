package kubeadm

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

var (
	//go:embed script/look.sh
	lookScript string
	//go:embed script/finish.sh
	finishScript string
	//go:embed script/reset.sh
	resetScript string
	//go:embed script/upload-certs.sh
	uploadCertsScript string
)

// look tells whether the host is a part of the cluster already, or something is left of an attempt to make it one.
func (d *Distribution) look(ctx context.Context, host hostsetup.Host, step string) (done string, begun bool, err error) {
	answer, err := d.script(ctx, host, step, lookScript, doneFile)
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(answer) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
		case "done":
			done = value
		case "begun":
			begun = true
		}
	}
	return done, begun, nil
}

// finish starts the pod network, and writes down that the host is a part of the cluster.
// What kubeadm has made is taken for right only when it has just made it.
func (d *Distribution) finish(ctx context.Context, host hostsetup.Host, step string, ca []byte, was bool) error {
	hash, err := token.HashCA(ca)
	if err != nil {
		return fmt.Errorf("host %s: %s: read the cluster's authority: %w", host, step, err)
	}
	made := "new"
	if was {
		made = "old"
	}
	_, err = d.script(ctx, host, step, finishScript, networkService, laidFile, doneFile, hash, made)
	return err
}

// isPart tells whether the host is a part of the cluster already. One that is a part of another, or an attempt, is made
// new.
func (d *Distribution) isPart(ctx context.Context, host hostsetup.Host, step string, cluster hostsetup.Cluster) (bool, error) {
	hash, err := token.HashCA(cluster.CA)
	if err != nil {
		return false, fmt.Errorf("host %s: %s: read the cluster's authority: %w", host, step, err)
	}
	done, begun, err := d.look(ctx, host, step)
	if err != nil {
		return false, err
	}
	switch {
	case done == hash:
		return true, nil
	case done != "":
		return false, fmt.Errorf("host %s: %s: it is a part of another cluster, whose authority is %.12s…; clean it first", host, step, done)
	case begun:
		d.log.Info("begin anew after an attempt that was not finished", "host", host.String(), "step", step)
		_, err := d.script(ctx, host, step, resetScript, hostsetup.Socket)
		return false, err
	}
	return false, nil
}

// JoinWorker implements hostsetup.Distribution.
func (d *Distribution) JoinWorker(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, token string) error {
	part, err := d.isPart(ctx, host, stepJoin, cluster)
	if err != nil {
		return err
	}
	if !part {
		if err := d.join(ctx, host, stepJoin, cluster, token, ""); err != nil {
			return err
		}
	}
	return d.finish(ctx, host, stepJoin, cluster.CA, part)
}

// Phases of `kubeadm join` up to where etcd has taken the host in as a member that votes, and those after it, which wait for its
// API server and for its kubelet.
const (
	phasesOfEtcd  = "preflight,control-plane-prepare,check-etcd,kubelet-start,etcd-join"
	phasesOfPlane = "kubelet-wait-bootstrap,control-plane-join,wait-control-plane"
)

// JoinControlPlane implements hostsetup.Distribution.
func (d *Distribution) JoinControlPlane(ctx context.Context, host, first hostsetup.Host, cluster hostsetup.Cluster, admitted func()) error {
	part, err := d.isPart(ctx, host, stepJoinPlane, cluster)
	if err != nil {
		return err
	}
	if !part {
		// What an attempt has left in etcd that was not finished: a member that never started has no name.
		stale := func(member string) bool { return member == "" || member == host.Name }
		if err := d.strike(ctx, first, stepJoinPlane, stale); err != nil {
			return err
		}
		token, key, err := d.invite(ctx, first, cluster)
		if err != nil {
			return err
		}
		if err := d.join(ctx, host, stepJoinPlane, cluster, token, key, "--skip-phases="+phasesOfPlane); err != nil {
			return err
		}
		admitted()
		if err := d.join(ctx, host, stepJoinPlane, cluster, token, key, "--skip-phases="+phasesOfEtcd); err != nil {
			return err
		}
	}
	return d.finish(ctx, host, stepJoinPlane, cluster.CA, part)
}

// invite has a control-plane machine hand out what another one needs to join: a token, and its certificates, sealed with
// a key.
func (d *Distribution) invite(ctx context.Context, first hostsetup.Host, cluster hostsetup.Cluster) (token, key string, err error) {
	token, key = newToken(), newCertificateKey()
	config, err := bootstrap.KubeadmInit(describe(cluster), node(first), token, key)
	if err != nil {
		return "", "", err
	}
	if _, err := first.Client.Upload(ctx, remote.Bytes(stepJoinPlane, configFile, 0o600, config)); err != nil {
		return "", "", err
	}
	id, word, _ := strings.Cut(token, ".")
	secret, err := tokenSecret(id, word, d.clock.Now())
	if err != nil {
		return "", "", err
	}
	_, err = d.feed(ctx, first, stepJoinPlane, uploadCertsScript, secret, configFile)
	return token, key, err
}

// join runs `kubeadm join`.
func (d *Distribution) join(ctx context.Context, host hostsetup.Host, step string, cluster hostsetup.Cluster, token, key string, flags ...string) error {
	discovery, err := discovery(cluster)
	if err != nil {
		return err
	}
	config, err := bootstrap.KubeadmJoin(node(host), discoveryFile, token, key)
	if err != nil {
		return err
	}
	return d.run(ctx, host, step, config, map[string][]byte{path.Base(discoveryFile): discovery}, append([]string{"join"}, flags...)...)
}

// discovery is a kubeconfig that knows the cluster, and nobody's credentials.
func discovery(cluster hostsetup.Cluster) ([]byte, error) {
	if len(cluster.CA) == 0 || cluster.Endpoint == "" {
		return nil, errors.New("join cluster: its authority and endpoint are needed")
	}
	const nobody = "nobody" // a kubeconfig has to name a user
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster.Name] = &clientcmdapi.Cluster{Server: "https://" + cluster.Endpoint, CertificateAuthorityData: cluster.CA}
	config.AuthInfos[nobody] = &clientcmdapi.AuthInfo{}
	config.Contexts[cluster.Name] = &clientcmdapi.Context{Cluster: cluster.Name, AuthInfo: nobody}
	config.CurrentContext = cluster.Name
	return clientcmd.Write(*config)
}
