package testapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Namespace makes a namespace of its own for a test.
func (s *Server) Namespace(tb testing.TB) string {
	tb.Helper()
	clients, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		tb.Fatal(err)
	}
	namespace, err := clients.CoreV1().Namespaces().Create(tb.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("make namespace: %v", err)
	}
	return namespace.Name
}

// ConfigFor is the access of a user with a client certificate: what it may do is up to RBAC.
func (s *Server) ConfigFor(tb testing.TB, user string, groups ...string) *rest.Config {
	tb.Helper()
	sum := sha256.Sum256([]byte(strings.Join(append([]string{user}, groups...), "\x00")))
	leaf := pki.Leaf{Name: "users/" + hex.EncodeToString(sum[:8]), CA: pki.ClusterCA, CommonName: user, Organizations: groups, Client: true}
	if _, err := s.pki.Ensure([]pki.Leaf{leaf}); err != nil {
		tb.Fatal(err)
	}
	return s.configOf(leaf.Name)
}

// Kubeconfig writes an administrator's kubeconfig, for programs that a test starts, and returns its path.
func (s *Server) Kubeconfig(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if _, err := pki.WriteKubeconfig(path, s.pki.Kubeconfig(pki.Admin, s.URL())); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Etcd is where etcd listens; the API server's own certificate opens it.
func (s *Server) Etcd() string { return s.etcdURL }

// EndAPIServer ends kube-apiserver, which comes back after a moment, as it does after a crash.
func (s *Server) EndAPIServer(tb testing.TB) {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "kube-apiserver.pid"))
	if err != nil {
		tb.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(content), &pid); err != nil {
		tb.Fatalf("read process of kube-apiserver: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		tb.Fatalf("end kube-apiserver: %v", err)
	}
}

// installCRDs makes our kinds known, and returns when the API serves them.
func installCRDs(ctx context.Context, config *rest.Config, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("install our kinds: no definitions in %s", dir)
	}
	clients, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		if _, err := clients.CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("install %s: %w", filepath.Base(file), err)
		}
		names = append(names, crd.Name)
	}
	return component.Poll(ctx, func(ctx context.Context) error { return established(ctx, clients, names) })
}

func established(ctx context.Context, clients apiextensions.ApiextensionsV1Interface, names []string) error {
	for _, name := range names {
		crd, err := clients.CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := accepted(crd); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func accepted(crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, condition := range crd.Status.Conditions {
		switch {
		case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
			return nil
		case condition.Status == apiextensionsv1.ConditionFalse:
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return errors.New("not served yet")
}
