package azure

import (
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

// Needed are the permissions that the configurations below /terraform/azure need.
func Needed() []string {
	return []string{
		"Microsoft.Resources/subscriptions/resourceGroups/write", "Microsoft.Resources/subscriptions/resourceGroups/delete",
		"Microsoft.Network/virtualNetworks/write", "Microsoft.Network/virtualNetworks/delete", "Microsoft.Network/virtualNetworks/subnets/write",
		"Microsoft.Network/virtualNetworks/subnets/join/action", "Microsoft.Network/natGateways/write", "Microsoft.Network/publicIPAddresses/write",
		"Microsoft.Network/networkSecurityGroups/write",
		"Microsoft.ContainerService/managedClusters/write", "Microsoft.ContainerService/managedClusters/delete", "Microsoft.ContainerService/managedClusters/agentPools/write",
		"Microsoft.ManagedIdentity/userAssignedIdentities/write", "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/write",
		"Microsoft.Authorization/roleAssignments/write", "Microsoft.Authorization/roleAssignments/delete",
		"Microsoft.Storage/storageAccounts/write", "Microsoft.Storage/storageAccounts/delete", "Microsoft.Storage/storageAccounts/blobServices/containers/write",
	}
}

const (
	permissionsVersion = "2022-04-01"
	maxAnswer          = 4 << 20
)

// permission is what a role lets its holder do, and what of that it does not.
type permission struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

// Verify asks Azure what the account's service principal may do in its subscription.
func Verify(ctx context.Context, environment map[string]string) (cloudapi.Verdict, error) {
	verdict := cloudapi.Verdict{Identity: environment["ARM_CLIENT_ID"]}
	site, err := locate(ctx, environment)
	if err != nil {
		return verdict, err
	}
	token, err := site.token(ctx, environment, strings.TrimSuffix(site.manager, "/")+"/.default")
	if unreachable := (net.Error)(nil); errors.As(err, &unreachable) {
		return verdict, err
	}
	if err != nil {
		return verdict, fmt.Errorf("%w: %w", cloudapi.ErrRejected, err)
	}
	roles, status, err := ask(ctx, site, environment["ARM_SUBSCRIPTION_ID"], token.Value)
	switch {
	case err != nil:
		return verdict, fmt.Errorf("ask Azure what the account may do: %w", err)
	case status == http.StatusUnauthorized:
		return verdict, fmt.Errorf("%w: Azure answers %d", cloudapi.ErrRejected, status)
	case status == http.StatusForbidden || status == http.StatusNotFound:
		verdict.Unknown = fmt.Sprintf("Azure does not tell what the account may do in subscription %s (%d)", environment["ARM_SUBSCRIPTION_ID"], status)
		return verdict, nil
	case status != http.StatusOK:
		return verdict, fmt.Errorf("ask Azure what the account may do: it answers %d", status)
	}
	for _, action := range Needed() {
		if !slices.ContainsFunc(roles, func(role permission) bool { return role.allows(action) }) {
			verdict.Missing = append(verdict.Missing, action)
		}
	}
	return verdict, nil
}

func ask(ctx context.Context, site site, subscription, token string) (roles []permission, status int, err error) {
	address := strings.TrimSuffix(site.manager, "/") + "/subscriptions/" + url.PathEscape(subscription) + "/providers/Microsoft.Authorization/permissions?api-version=" + permissionsVersion
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := site.client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Value []permission `json:"value"`
	}
	if response.StatusCode == http.StatusOK {
		err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer)
	}
	return answer.Value, response.StatusCode, err
}

// allows tells whether a role lets its holder do something.
func (p permission) allows(action string) bool {
	covers := func(pattern string) bool { return matches(strings.ToLower(pattern), strings.ToLower(action)) }
	return slices.ContainsFunc(p.Actions, covers) && !slices.ContainsFunc(p.NotActions, covers)
}

// matches tells whether an action is of a pattern, in which * stands for anything.
func matches(pattern, action string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == action
	}
	rest, found := strings.CutPrefix(action, parts[0])
	if !found {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
