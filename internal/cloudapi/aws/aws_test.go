package aws_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	authenticationv1 "k8s.io/api/authentication/v1"

	"plasmacloud.io/plasmacloud/internal/cloudapi/aws"
	terraform "plasmacloud.io/plasmacloud/internal/terraform/aws"
	stub "plasmacloud.io/plasmacloud/test/stub/aws"
)

const secret = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"

// site is a stub of AWS, and the environment of an account there.
type site struct {
	*testing.T
	stub        *stub.Server
	url         string
	environment map[string]string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, stub: stub.New(stub.Config{Secret: secret})}
	server := httptest.NewServer(s.stub)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.environment = map[string]string{"AWS_ACCESS_KEY_ID": "AKIASTUBSTUBSTUBSTUB", "AWS_SECRET_ACCESS_KEY": secret, "AWS_ENDPOINT_URL": server.URL}
	return s
}

// review asks the authenticator of a cluster whose token it is.
func (s *site) review(cluster, token string) authenticationv1.TokenReviewStatus {
	s.Helper()
	body, err := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
	if err != nil {
		s.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	stub.Authenticator{Cluster: func() string { return cluster }, STS: func() string { return s.url }, Client: http.DefaultClient}.
		ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	review := authenticationv1.TokenReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		s.Fatal(err)
	}
	return review.Status
}

func TestTokensAreTakenByTheirCluster(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	for _, c := range []struct{ role, who string }{{"", "user/stub"}, {"arn:aws:iam::123456789012:role/platform", "assumed-role/stub/plasmacloud"}} {
		token, err := aws.Token(t.Context(), s.environment, aws.Identity{Region: "eu-west-1", RoleARN: c.role, ExternalID: "x"}, "shop-1", now)
		if err != nil {
			t.Fatal(err)
		}
		if left := token.Expires.Sub(now); left < 5*time.Minute || left > 15*time.Minute || strings.Contains(token.Value, secret) || strings.Contains(token.String(), "k8s") {
			t.Errorf("%v expires in %s", token, left)
		}
		if status := s.review("shop-1", token.Value); !status.Authenticated || !strings.HasSuffix(status.User.Username, c.who) {
			t.Errorf("%+v", status)
		}
		if status := s.review("shop-2", token.Value); status.Authenticated {
			t.Errorf("another cluster takes it: %+v", status)
		}
	}
}

func TestTokensOfWrongKeysAreNotTaken(t *testing.T) {
	s := newSite(t)
	s.environment["AWS_SECRET_ACCESS_KEY"] = "another"
	token, err := aws.Token(t.Context(), s.environment, aws.Identity{Region: "eu-west-1"}, "shop-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status := s.review("shop-1", token.Value); status.Authenticated {
		t.Errorf("%+v", status)
	}
	delete(s.environment, "AWS_ACCESS_KEY_ID")
	if _, err := aws.Token(t.Context(), s.environment, aws.Identity{Region: "eu-west-1", RoleARN: "arn"}, "shop-1", time.Now()); err == nil || !strings.Contains(err.Error(), "no keys") {
		t.Errorf("without keys: %v", err)
	}
}

func TestTagsAreListed(t *testing.T) {
	s := newSite(t)
	identity := aws.Identity{Region: "eu-west-1"}
	config, err := aws.Config(s.environment, identity)
	if err != nil {
		t.Fatal(err)
	}
	name, document, key, stack := "cluster", `{}`, terraform.TagStack, "shop.cluster.web"
	input := &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &document, Tags: []types.Tag{{Key: &key, Value: &stack}}}
	if _, err := iam.NewFromConfig(config).CreateRole(t.Context(), input); err != nil {
		t.Fatal(err)
	}
	tags := aws.Tags{Environment: s.environment, Identity: identity}
	found, err := tags.List(t.Context(), stack)
	if err != nil || len(found) != 1 || !strings.HasSuffix(found[0].ARN, ":role/cluster") || found[0].Tags[key] != stack {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := tags.List(t.Context(), "another"); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	if unknown := s.stub.Unknown(); len(unknown) > 0 {
		t.Errorf("the stub does not know %v", unknown)
	}
}
