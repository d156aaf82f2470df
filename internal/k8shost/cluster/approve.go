package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const (
	nodeUserPrefix  = "system:node:"
	nodeGroup       = "system:nodes"
	bootstrapPrefix = "system:bootstrappers:k8shost:"
)

// Approver approves the certificates that nodes ask for and that Kubernetes itself does not approve: the kubelets'
// serving certificates, and the node proxies' client certificates. Several may run at once.
type Approver struct {
	client kubernetes.Interface
	log    *slog.Logger
	known  func(node string) []string
}

// NewApprover returns an approver.
func NewApprover(client kubernetes.Interface, log *slog.Logger) *Approver {
	return &Approver{client: client, log: log}
}

// Trusting lets nodes have serving certificates only for the names and addresses that known returns for them: what a
// node says of itself counts no longer.
func (a *Approver) Trusting(known func(node string) []string) *Approver {
	a.known = known
	return a
}

// Run watches certificate signing requests until ctx ends.
func (a *Approver) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactory(a.client, 0)
	informer := factory.Certificates().V1().CertificateSigningRequests()
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if request, ok := object.(*certificatesv1.CertificateSigningRequest); ok && undecided(request) {
				queue.Add(request.Name)
			}
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		if err := a.decide(ctx, name); err != nil {
			a.log.Warn("cannot approve certificate yet", "request", name, "error", err)
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

func undecided(request *certificatesv1.CertificateSigningRequest) bool {
	return len(request.Status.Conditions) == 0 &&
		(request.Spec.SignerName == certificatesv1.KubeletServingSignerName ||
			request.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName)
}

// decide approves what fits. What does not fit is left alone: it may be somebody else's business.
func (a *Approver) decide(ctx context.Context, name string) error {
	request, err := a.client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !undecided(request) {
		return nil
	}
	reason, err := a.judge(ctx, request)
	if err != nil {
		if _, foreign := errors.AsType[notOurs](err); foreign {
			a.log.Info("certificate request left to others", "request", name, "user", request.Spec.Username, "why", err)
			return nil
		}
		return err
	}
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "K8shostApproved", Message: reason, LastUpdateTime: metav1.NewTime(time.Now()),
	})
	_, err = a.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, name, request, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // another server was faster
	}
	return err
}

// notOurs says why a request is not approved here.
type notOurs string

func (n notOurs) Error() string { return string(n) }

func (a *Approver) judge(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (string, error) {
	parsed, err := parseRequest(request.Spec.Request)
	if err != nil {
		return "", notOurs(err.Error())
	}
	if request.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		return "serving certificate of a node of this cluster", a.judgeServing(ctx, request, parsed)
	}
	return "client certificate of a node's proxies", judgeProxy(request, parsed)
}

// judgeServing wants a node that asks for itself, under addresses that the cluster knows as its own: otherwise one
// node could pose as another.
func (a *Approver) judgeServing(ctx context.Context, request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) error {
	nodeName, isNode := strings.CutPrefix(request.Spec.Username, nodeUserPrefix)
	if !isNode || !slices.Contains(request.Spec.Groups, nodeGroup) {
		return notOurs("the asking user is no node")
	}
	if parsed.Subject.CommonName != request.Spec.Username || !slices.Equal(parsed.Subject.Organization, []string{nodeGroup}) {
		return notOurs("the subject is not the asking node")
	}
	known, err := a.addresses(ctx, nodeName)
	if err != nil {
		return err
	}
	for _, name := range parsed.DNSNames {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the name %q is none of the node's addresses", name)
		}
	}
	for _, ip := range parsed.IPAddresses {
		if !slices.Contains(known, ip.String()) {
			return fmt.Errorf("the address %s is none of the node's", ip)
		}
	}
	return nil
}

// addresses are the names and addresses that a node may have a certificate for.
func (a *Approver) addresses(ctx context.Context, nodeName string) ([]string, error) {
	if a.known != nil {
		return a.known(nodeName), nil
	}
	node, err := a.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("look up the asking node: %w", err)
	}
	var known []string
	for _, address := range node.Status.Addresses {
		known = append(known, address.Address)
	}
	return known, nil
}

// judgeProxy wants a node, or somebody about to become one, that asks for the proxy identity and nothing else.
func judgeProxy(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) error {
	nodeName, isProxy := strings.CutPrefix(parsed.Subject.CommonName, pki.NodeProxyUserPrefix)
	if !isProxy || !slices.Equal(parsed.Subject.Organization, []string{pki.NodeProxyGroup}) {
		return notOurs("not a node proxy's identity")
	}
	if len(parsed.DNSNames)+len(parsed.IPAddresses)+len(parsed.EmailAddresses)+len(parsed.URIs) > 0 {
		return notOurs("a client certificate with addresses in it")
	}
	for _, usage := range request.Spec.Usages {
		if usage != certificatesv1.UsageClientAuth && usage != certificatesv1.UsageDigitalSignature && usage != certificatesv1.UsageKeyEncipherment {
			return notOurs("a usage that a client does not need: " + string(usage))
		}
	}
	if request.Spec.Username == nodeUserPrefix+nodeName && slices.Contains(request.Spec.Groups, nodeGroup) {
		return nil
	}
	if request.Spec.Username == pki.NodeProxyUserPrefix+nodeName && slices.Contains(request.Spec.Groups, pki.NodeProxyGroup) {
		return nil // renewal
	}
	for _, group := range request.Spec.Groups {
		if strings.HasPrefix(group, bootstrapPrefix) {
			return nil
		}
	}
	return notOurs("the asking user is no node of this cluster")
}

func parseRequest(content []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("not a certificate request")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
