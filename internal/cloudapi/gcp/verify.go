package gcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

// Needed are the permissions that the configurations below /terraform/gcp need.
func Needed() []string {
	return []string{
		"compute.networks.create", "compute.networks.delete", "compute.networks.get", "compute.networks.updatePolicy",
		"compute.subnetworks.create", "compute.subnetworks.delete", "compute.subnetworks.update", "compute.subnetworks.use",
		"compute.routers.create", "compute.routers.update", "compute.routers.delete",
		"container.clusters.create", "container.clusters.update", "container.clusters.delete", "container.clusters.get", "container.operations.get",
		"iam.serviceAccounts.create", "iam.serviceAccounts.delete", "iam.serviceAccounts.actAs",
		"resourcemanager.projects.get", "resourcemanager.projects.getIamPolicy", "resourcemanager.projects.setIamPolicy",
		"storage.buckets.create", "storage.buckets.update", "storage.buckets.delete", "storage.buckets.setIamPolicy",
	}
}

const (
	projects = "https://cloudresourcemanager.googleapis.com/v3/"
	// projectsVariable is how the provider is told of another place.
	projectsVariable = "GOOGLE_RESOURCE_MANAGER_V3_CUSTOM_ENDPOINT"
	maxAnswer        = 1 << 20
)

// Verify asks Google Cloud what the account's credentials may do in its project.
func Verify(ctx context.Context, environment map[string]string, project string) (cloudapi.Verdict, error) {
	token, err := Token(ctx, environment)
	if unreachable := (net.Error)(nil); errors.As(err, &unreachable) {
		return cloudapi.Verdict{}, err
	}
	if errors.Is(err, errFederated) {
		return cloudapi.Verdict{Identity: identity(environment), Unknown: err.Error()}, nil
	}
	if err != nil { // it is no key, or Google does not take it
		return cloudapi.Verdict{}, fmt.Errorf("%w: %w", cloudapi.ErrRejected, err)
	}
	client, err := cloudapi.Client(environment)
	if err != nil {
		return cloudapi.Verdict{}, err
	}
	granted, status, err := ask(ctx, client, cmp.Or(environment[projectsVariable], projects), project, token.Value)
	verdict := cloudapi.Verdict{Identity: identity(environment)}
	switch {
	case err != nil:
		return verdict, fmt.Errorf("ask Google Cloud what the account may do: %w", err)
	case status == http.StatusUnauthorized:
		return verdict, fmt.Errorf("%w: Google Cloud answers %d", cloudapi.ErrRejected, status)
	case status == http.StatusForbidden || status == http.StatusNotFound:
		verdict.Unknown = fmt.Sprintf("Google Cloud does not tell what the account may do in project %s (%d): is there such a project, and is its Resource Manager API on?", project, status)
		return verdict, nil
	case status != http.StatusOK:
		return verdict, fmt.Errorf("ask Google Cloud what the account may do: it answers %d", status)
	}
	for _, permission := range Needed() {
		if !slices.Contains(granted, permission) {
			verdict.Missing = append(verdict.Missing, permission)
		}
	}
	slices.Sort(verdict.Missing)
	return verdict, nil
}

// identity is whom a key file is of; a token does not tell.
func identity(environment map[string]string) string {
	var file struct {
		Email string `json:"client_email"`
	}
	if err := json.Unmarshal([]byte(environment["GOOGLE_CREDENTIALS"]), &file); err != nil {
		return ""
	}
	return file.Email
}

// ask is which of the needed permissions Google says that the bearer has.
func ask(ctx context.Context, client *http.Client, base, project, token string) (granted []string, status int, err error) {
	body, err := json.Marshal(map[string]any{"permissions": Needed()})
	if err != nil {
		return nil, 0, err
	}
	address := strings.TrimSuffix(base, "/") + "/projects/" + url.PathEscape(project) + ":testIamPermissions"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Permissions []string `json:"permissions"`
	}
	if response.StatusCode == http.StatusOK {
		err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer)
	}
	return answer.Permissions, response.StatusCode, err
}
