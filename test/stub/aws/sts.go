package aws

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a role that was assumed has for keys.
const (
	roleKey    = "ASIASTUBSTUBSTUBSTUB"
	roleSecret = "stub"
)

// stsActions are those of STS: everybody is who they say they are, but for requests that others send for them.
func (s *Server) stsActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"GetCallerIdentity": s.callerIdentity,
		"AssumeRole": func(r *request) (*answer, *failure) {
			return &answer{tree: tree{
				"Credentials":     tree{"AccessKeyId": roleKey, "SecretAccessKey": roleSecret, "SessionToken": "stub", "Expiration": s.config.Now().UTC().AddDate(0, 0, 1).Format("2006-01-02T15:04:05Z")},
				"AssumedRoleUser": tree{"AssumedRoleId": "AROASTUB:plasmacloud", "Arn": r.text("RoleArn") + "/plasmacloud"},
			}}, nil
		},
	}
}

func (s *Server) callerIdentity(r *request) (*answer, *failure) {
	query := r.URL.Query()
	if signature := query.Get("X-Amz-Signature"); signature != "" && s.config.Secret != "" {
		if err := s.checkPresigned(r.Request, query); err != nil {
			return nil, refuse(http.StatusForbidden, "SignatureDoesNotMatch", "%v", err)
		}
	}
	who := s.arn("iam", "user/stub")
	if strings.HasPrefix(query.Get("X-Amz-Credential"), roleKey+"/") {
		who = s.arn("iam", "assumed-role/stub/plasmacloud")
	}
	return &answer{tree: tree{"Account": s.config.Account, "UserId": "AIDASTUB", "Arn": who}}, nil
}

// checkPresigned signs a request once more, as its sender should have, and compares.
func (s *Server) checkPresigned(r *http.Request, query url.Values) error {
	at, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil {
		return fmt.Errorf("it has no date: %w", err)
	}
	lifetime, err := time.ParseDuration(query.Get("X-Amz-Expires") + "s")
	if err != nil || s.config.Now().After(at.Add(15*time.Minute)) || lifetime > time.Hour {
		return fmt.Errorf("it was signed at %s for %s", at, lifetime)
	}
	id, _, _ := strings.Cut(query.Get("X-Amz-Credential"), "/")
	keys := awssdk.Credentials{AccessKeyID: id, SecretAccessKey: s.config.Secret, SessionToken: query.Get("X-Amz-Security-Token")}
	if id == roleKey {
		keys.SecretAccessKey = roleSecret
	}
	bare := url.Values{}
	for _, name := range []string{"Action", "Version", "X-Amz-Expires"} {
		bare.Set(name, query.Get(name))
	}
	again, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.Host+r.URL.Path+"?"+bare.Encode(), nil)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(query.Get("X-Amz-SignedHeaders"), ";") {
		if name != "host" {
			again.Header.Set(name, r.Header.Get(name))
		}
	}
	nothing := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(r.Context(), keys, again, hex.EncodeToString(nothing[:]), "sts", s.config.Region, at)
	if err != nil {
		return err
	}
	expected, err := url.Parse(signed)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(expected.Query().Get("X-Amz-Signature")), []byte(query.Get("X-Amz-Signature"))) != 1 {
		return fmt.Errorf("the signature is another one")
	}
	return nil
}

// Authenticator is what stands before the API server of an EKS cluster: a webhook that takes tokens for what they are,
// requests that their owner has signed, sends them, and believes the answer. Everybody that AWS knows is an administrator.
type Authenticator struct {
	// Cluster is the name of the cluster, as the token has to say.
	Cluster func() string
	// STS is where requests may go to, and Client who sends them.
	STS    func() string
	Client *http.Client
}

// ServeHTTP implements http.Handler.
func (a Authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := authenticationv1.TokenReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	who, err := a.identify(r.Context(), review.Spec.Token)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: err == nil}
	if err != nil {
		review.Status.Error = err.Error()
	} else {
		review.Status.User = authenticationv1.UserInfo{Username: who, Groups: []string{"system:masters"}}
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	review.Spec = authenticationv1.TokenReviewSpec{}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // to a client that may be gone
}

func (a Authenticator) identify(ctx context.Context, token string) (string, error) {
	encoded, ok := strings.CutPrefix(token, "k8s-aws-v1.")
	address, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return "", fmt.Errorf("this is no token of EKS")
	}
	if !strings.HasPrefix(string(address), a.STS()+"/?") {
		return "", fmt.Errorf("the token leads elsewhere")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(address), nil)
	if err != nil {
		return "", err
	}
	if !strings.Contains(request.URL.Query().Get("X-Amz-SignedHeaders"), "x-k8s-aws-id") {
		return "", fmt.Errorf("the token is for no cluster in particular")
	}
	request.Header.Set("x-k8s-aws-id", a.Cluster())
	response, err := a.Client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Result struct{ Arn string } `xml:"GetCallerIdentityResult"`
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("AWS answers %s", response.Status)
	}
	if err := xml.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Result.Arn == "" {
		return "", fmt.Errorf("AWS does not say who it is: %w", err)
	}
	return answer.Result.Arn, nil
}
