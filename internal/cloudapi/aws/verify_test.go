package aws_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/cloudapi/aws"
)

func TestAWSTellsWhatAnAccountMayDo(t *testing.T) {
	s := newSite(t)
	who := aws.Identity{Region: "eu-west-1"}
	verdict, err := aws.Verify(t.Context(), s.environment, who)
	if err != nil || !strings.HasSuffix(verdict.Identity, "user/stub") || len(verdict.Missing) > 0 || verdict.Unknown != "" {
		t.Errorf("%+v, %v", verdict, err)
	}
	s.stub.Deny("eks:CreateCluster", "iam:PassRole")
	if verdict, err = aws.Verify(t.Context(), s.environment, who); err != nil || strings.Join(verdict.Missing, " ") != "eks:CreateCluster iam:PassRole" || !verdict.Simulated {
		t.Errorf("%+v, %v", verdict, err)
	}
	if unknown := s.stub.Unknown(); len(unknown) > 0 {
		t.Errorf("the stub does not know %v", unknown)
	}
}

func TestAnAccountThatMayNotAskIsNotCondemned(t *testing.T) {
	s := newSite(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "/iam/") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`))
			return
		}
		s.stub.ServeHTTP(w, r)
	}))
	defer front.Close()
	s.environment["AWS_ENDPOINT_URL"] = front.URL
	verdict, err := aws.Verify(t.Context(), s.environment, aws.Identity{Region: "eu-west-1"})
	if err != nil || len(verdict.Missing) > 0 || !strings.Contains(verdict.Unknown, "iam:SimulatePrincipalPolicy") {
		t.Errorf("%+v, %v", verdict, err)
	}
}

func TestRevokedKeysAreToldFromAnAWSThatDoesNotAnswer(t *testing.T) {
	s := newSite(t)
	s.stub.Revoke(true)
	if _, err := aws.Verify(t.Context(), s.environment, aws.Identity{Region: "eu-west-1"}); !errors.Is(err, cloudapi.ErrRejected) || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	s.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
	if _, err := aws.Verify(t.Context(), s.environment, aws.Identity{Region: "eu-west-1"}); err == nil || errors.Is(err, cloudapi.ErrRejected) {
		t.Errorf("%v", err)
	}
}
