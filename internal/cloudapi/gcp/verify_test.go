package gcp_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/cloudapi/gcp"
	stub "plasmacloud.io/plasmacloud/test/stub/gcp"
)

func TestGoogleTellsWhatAnAccountMayDo(t *testing.T) {
	google := stub.New(stub.Config{Token: "ya29"})
	server := httptest.NewServer(google)
	defer server.Close()
	environment := stub.Environment(server.URL)
	environment["GOOGLE_OAUTH_ACCESS_TOKEN"] = "ya29"
	if verdict, err := gcp.Verify(t.Context(), environment, "stub-project"); err != nil || len(verdict.Missing) > 0 || verdict.Simulated {
		t.Errorf("%+v, %v", verdict, err)
	}
	google.Deny("storage.buckets.create", "container.clusters.create")
	verdict, err := gcp.Verify(t.Context(), environment, "stub-project")
	if err != nil || strings.Join(verdict.Missing, " ") != "container.clusters.create storage.buckets.create" {
		t.Errorf("%+v, %v", verdict, err)
	}
	google.SetToken("another")
	if _, err := gcp.Verify(t.Context(), environment, "stub-project"); !errors.Is(err, cloudapi.ErrRejected) || strings.Contains(err.Error(), "ya29") {
		t.Errorf("%v", err)
	}
	if _, err := gcp.Verify(t.Context(), map[string]string{"GOOGLE_CREDENTIALS": "{}"}, "p"); !errors.Is(err, cloudapi.ErrRejected) {
		t.Errorf("no key at all: %v", err)
	}
	federated := map[string]string{"GOOGLE_CREDENTIALS": `{"type": "external_account"}`}
	if verdict, err := gcp.Verify(t.Context(), federated, "p"); err != nil || !strings.Contains(verdict.Unknown, "federated") {
		t.Errorf("credentials that are good elsewhere: %+v, %v", verdict, err)
	}
	server.Close()
	if _, err := gcp.Verify(t.Context(), environment, "stub-project"); err == nil || errors.Is(err, cloudapi.ErrRejected) {
		t.Errorf("a cloud that does not answer: %v", err)
	}
	if unknown := google.Unknown(); len(unknown) > 0 {
		t.Errorf("the stub does not know %v", unknown)
	}
}
