package testapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// stages are the programs in the order of their start. The API server waits for etcd by itself, so both start at once.
func (s *Server) stages() ([]component.Stage, error) {
	apiServer, err := s.apiServer()
	if err != nil {
		return nil, err
	}
	stages := []component.Stage{{s.program("etcd", s.etcd, s.etcdArgs(), nil), apiServer}}
	if len(s.options.Controllers) == 0 {
		return stages, nil
	}
	args, err := s.controllerManagerArgs()
	if err != nil {
		return nil, err
	}
	return append(stages, component.Stage{s.program("kube-controller-manager", s.kube, args, nil)}), nil
}

func (s *Server) program(name, path string, args []string, probe func(context.Context) error) *component.Process {
	return component.NewProcess(slog.New(slog.DiscardHandler), component.Spec{
		Name: name, Path: path, Args: args,
		LogDir: filepath.Join(s.dir, "logs"), RunDir: s.dir,
		Probe: probe,
		Grace: 100 * time.Millisecond, // nothing that a test wrote is worth waiting for
	})
}

func (s *Server) etcdArgs() []string {
	return []string{
		"--name=testapi",
		"--data-dir=" + filepath.Join(s.dir, "etcd"),
		"--unsafe-no-fsync", // what a test writes need not survive the host
		"--log-level=error",
		"--listen-client-urls=" + s.etcdURL,
		"--advertise-client-urls=" + s.etcdURL,
		"--listen-peer-urls=" + s.peerURL,
		"--initial-advertise-peer-urls=" + s.peerURL,
		"--initial-cluster=testapi=" + s.peerURL,
		"--client-cert-auth",
		"--trusted-ca-file=" + s.pki.CAPath(pki.EtcdCA),
		"--cert-file=" + s.pki.CertPath(pki.EtcdServer),
		"--key-file=" + s.pki.KeyPath(pki.EtcdServer),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + s.pki.CAPath(pki.EtcdCA),
		"--peer-cert-file=" + s.pki.CertPath(pki.EtcdPeer),
		"--peer-key-file=" + s.pki.KeyPath(pki.EtcdPeer),
	}
}

func (s *Server) apiServer() (*component.Process, error) {
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		return nil, err
	}
	ready := func(ctx context.Context) error { return probe(ctx, client, s.URL()+"/readyz") }
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(s.port),
		"--tls-cert-file=" + s.pki.CertPath(pki.APIServer),
		"--tls-private-key-file=" + s.pki.KeyPath(pki.APIServer),
		"--client-ca-file=" + s.pki.CAPath(pki.ClusterCA),
		"--etcd-servers=" + s.etcdURL,
		"--etcd-cafile=" + s.pki.CAPath(pki.EtcdCA),
		"--etcd-certfile=" + s.pki.CertPath(pki.APIServerEtcdClient),
		"--etcd-keyfile=" + s.pki.KeyPath(pki.APIServerEtcdClient),
		"--service-cluster-ip-range=" + serviceCIDR.String(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + s.pki.ServiceAccountPublicKeyPath(),
		"--service-account-signing-key-file=" + s.pki.ServiceAccountKeyPath(),
		"--authorization-mode=RBAC",
		// Nobody makes the default service accounts that it would wait for.
		"--disable-admission-plugins=ServiceAccount",
		// The address of loopback is no endpoint for a Service.
		"--endpoint-reconciler-type=none",
		"--shutdown-watch-termination-grace-period=1s",
	}
	return s.program("kube-apiserver", s.kube, append(args, s.options.APIServerArgs...), ready), nil
}

func (s *Server) controllerManagerArgs() ([]string, error) {
	file := filepath.Join(s.dir, "controller-manager.kubeconfig")
	if _, err := pki.WriteKubeconfig(file, s.pki.Kubeconfig(pki.ControllerManager, s.URL())); err != nil {
		return nil, err
	}
	return []string{
		"--kubeconfig=" + file,
		"--authentication-kubeconfig=" + file,
		"--authorization-kubeconfig=" + file,
		"--secure-port=0",
		"--leader-elect=false",
		// Each controller with its own rights, as in a real cluster.
		"--use-service-account-credentials",
		"--controllers=" + strings.Join(s.options.Controllers, ","),
		"--service-account-private-key-file=" + s.pki.ServiceAccountKeyPath(),
		"--root-ca-file=" + s.pki.CAPath(pki.ClusterCA),
	}, nil
}

func probe(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}
