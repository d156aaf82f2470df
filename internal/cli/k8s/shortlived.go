package k8s

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// The shortest and the longest time that a certificate is asked for: Kubernetes signs no shorter one, and what lives
// longer than a day is not short-lived.
const (
	leastTTL, greatestTTL = 10 * time.Minute, 24 * time.Hour
	// signing is how long the cluster may take to sign.
	signing = 30 * time.Second
)

// roleGroups are the groups of the roles that a kubeconfig can be for.
func roleGroups() map[string]string {
	return map[string]string{
		"cluster-admin": v1alpha1.GroupClusterAdmin, "edit": v1alpha1.GroupClusterEdit, "view": v1alpha1.GroupClusterView,
	}
}

func checkTTL(ttl time.Duration) error {
	if ttl < leastTTL || ttl > greatestTTL {
		return exit.Usagef("--ttl: %s is not between %s and %s", ttl, leastTTL, greatestTTL)
	}
	return nil
}

// shortLived makes a kubeconfig out of the administrator's that is good for one role and some time. The key never leaves
// this process but in the kubeconfig; the cluster signs its certificate.
func shortLived(ctx context.Context, admin []byte, user, role string, ttl time.Duration) ([]byte, error) {
	config, err := clientcmd.Load(admin)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	rest, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	cert, key, err := issue(ctx, client, user, roleGroups()[role], ttl)
	if err != nil {
		return nil, fmt.Errorf("have the cluster sign a certificate: %w", err)
	}
	current := config.Contexts[config.CurrentContext]
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {ClientCertificateData: cert, ClientKeyData: key}}
	return clientcmd.Write(*config)
}

// userName is who the management API takes the caller for: the audit log of the cluster names the same person.
func userName(ctx context.Context, s *session.Session) (string, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

func issue(ctx context.Context, client kubernetes.Interface, user, group string, ttl time.Duration) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	subject := pkix.Name{CommonName: user, Organization: []string{group}}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, private)
	if err != nil {
		return nil, nil, err
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, err
	}
	request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, request, "", certificatesv1.KubeAPIServerClientSignerName, &ttl,
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, private)
	if err != nil {
		return nil, nil, err
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubeconfigRequested", Message: "for `cloud k8s kubeconfig`",
	})
	if _, err := requests.UpdateApproval(ctx, name, made, metav1.UpdateOptions{}); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, signing)
	defer cancel()
	cert, err = csr.WaitForCertificate(ctx, client, name, uid)
	return cert, key, err
}
