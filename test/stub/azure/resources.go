package azure

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// slow are the kinds that take their time.
var slow = map[string]bool{"managedclusters": true, "agentpools": true, "natgateways": true}

// atOnce tells the provider's client that there is nothing to wait for; otherwise it waits ten seconds to ask.
var atOnce = map[string]string{"X-Go-Azure-Sdk-Skip-Polling-Delay": "true"}

// resource answers for a document by its path.
func (s *Server) resource(r *request) *answer {
	if !strings.HasPrefix(r.key, "/subscriptions/") {
		return nil
	}
	existing := s.Resources[r.key]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if existing == nil {
			if s.listable(r) {
				return s.list(r)
			}
			return refuse(http.StatusNotFound, "ResourceNotFound", "The Resource '%s' was not found.", r.path)
		}
		return &answer{status: http.StatusOK, body: existing}
	case http.MethodPut, http.MethodPatch:
		return s.put(r, existing)
	case http.MethodDelete:
		return s.delete(r, existing)
	}
	return nil
}

// listable tells whether a path is that of a collection: its parts come in pairs, and one is over.
func (s *Server) listable(r *request) bool {
	_, provider, ok := strings.Cut(r.key, "/providers/")
	return ok && len(strings.Split(provider, "/"))%2 == 0
}

func (s *Server) list(r *request) *answer {
	found := []any{}
	for path, resource := range s.Resources {
		if below, ok := strings.CutPrefix(path, r.key+"/"); ok && !strings.Contains(below, "/") {
			found = append(found, resource)
		}
	}
	return &answer{status: http.StatusOK, body: document{"value": found}}
}

// parent is the resource that another is a part of; its resource group, or nothing.
func parent(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) > 11 { // /subscriptions/s/resourcegroups/g/providers/p/t/n/t/n
		return strings.Join(parts[:len(parts)-2], "/")
	}
	if len(parts) == 11 {
		return strings.Join(parts[:9], "/")
	}
	if len(parts) >= 9 && parts[3] == "resourcegroups" {
		return strings.Join(parts[:5], "/")
	}
	return ""
}

func (s *Server) put(r *request, existing document) *answer {
	if above := parent(r.key); above != "" && s.Resources[above] == nil && !strings.Contains(r.key, "microsoft.authorization") {
		return refuse(http.StatusNotFound, "ParentResourceNotFound", "there is no %s", above)
	}
	kind := ledger.KindOf(r.key)
	resource := maps.Clone(r.body)
	if r.Method == http.MethodPatch && existing != nil {
		resource = maps.Clone(existing)
		maps.Copy(resource, r.body)
	}
	parts := strings.Split(r.path, "/")
	properties, _ := resource["properties"].(document)
	if properties == nil {
		properties = document{}
	}
	properties["provisioningState"] = "Succeeded"
	resource["properties"] = properties
	resource["id"], resource["name"] = r.path, parts[len(parts)-1]
	if _, provider, ok := strings.Cut(r.path, "/providers/"); ok {
		steps := strings.Split(provider, "/")
		kinds := []string{steps[0]}
		for i := 1; i < len(steps); i += 2 {
			kinds = append(kinds, steps[i])
		}
		resource["type"] = strings.Join(kinds, "/")
	}
	s.complete(r, kind, resource, properties, existing)
	s.embed(r.key, resource)
	status := http.StatusOK
	if existing == nil {
		s.CountMade(kind)
		if kind != "storageaccounts" { // which say less
			status = http.StatusCreated
		}
	}
	s.Resources[r.key] = resource
	if !slow[kind] {
		return &answer{status: status, body: resource, header: atOnce}
	}
	properties["provisioningState"] = "Creating"
	header := s.begin(r, func() { properties["provisioningState"] = "Succeeded" })
	return &answer{status: status, body: resource, header: header}
}

// complete adds what Azure adds.
func (s *Server) complete(r *request, kind string, resource, properties, existing document) {
	number := s.Next()
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", number)
	switch kind {
	case "userassignedidentities":
		old, _ := existing["properties"].(document)
		if old != nil {
			maps.Copy(properties, old)
			return
		}
		maps.Copy(properties, document{"principalId": id, "clientId": id, "tenantId": s.config.Tenant})
	case "publicipaddresses":
		properties["ipAddress"] = fmt.Sprintf("203.0.113.%d", number%250+1)
	case "virtualnetworks":
		if properties["subnets"] == nil {
			properties["subnets"] = []any{}
		}
	case "roleassignments":
		maps.Copy(properties, document{"scope": strings.Split(r.path, "/providers/Microsoft.Authorization")[0]})
	case "agentpools":
		maps.Copy(properties, running(fmt.Sprint(properties["orchestratorVersion"])))
	case "managedclusters":
		s.completeCluster(r, resource, properties)
	case "storageaccounts":
		name := fmt.Sprint(resource["name"])
		endpoints := document{}
		for _, service := range []string{"blob", "queue", "table", "file", "web", "dfs"} {
			endpoints[service] = "https://" + name + "." + service + ".core.windows.net/"
		}
		maps.Copy(properties, document{"primaryEndpoints": endpoints, "primaryLocation": resource["location"], "statusOfPrimary": "available", "creationTime": s.config.Now().UTC().Format("2006-01-02T15:04:05Z")})
		s.Resources[r.key+"/blobservices/default"] = document{"id": r.path + "/blobServices/default", "name": "default", "properties": document{}}
		s.Resources[r.key+"/fileservices/default"] = document{"id": r.path + "/fileServices/default", "name": "default", "properties": document{"shareDeleteRetentionPolicy": document{"enabled": true, "days": 7}}}
	}
}

// patched is the version that Azure picks for a minor one.
func patched(version string) string {
	if strings.Count(version, ".") < 2 {
		version += ".2"
	}
	return version
}

// running is what Azure says of a pool that is well.
func running(version string) document {
	return document{"provisioningState": "Succeeded", "powerState": document{"code": "Running"}, "currentOrchestratorVersion": patched(version)}
}

func (s *Server) completeCluster(r *request, resource, properties document) {
	current := patched(fmt.Sprint(properties["kubernetesVersion"]))
	maps.Copy(properties, document{
		"fqdn": s.config.Endpoint, "privateFQDN": s.config.Endpoint, "azurePortalFQDN": s.config.Endpoint, "currentKubernetesVersion": current, "powerState": document{"code": "Running"},
		"oidcIssuerProfile": document{"enabled": true, "issuerURL": "https://westeurope.oic.prod-aks.azure.com/" + s.config.Tenant + "/stub/"},
		"identityProfile":   document{"kubeletidentity": document{"resourceId": strings.Split(r.path, "/providers/")[0] + "-nodes/providers/Microsoft.ManagedIdentity/userAssignedIdentities/" + fmt.Sprint(resource["name"]) + "-agentpool", "clientId": zeros, "objectId": zeros}},
		"maxAgentPools":     100,
	})
	pools, _ := properties["agentPoolProfiles"].([]any)
	for _, member := range pools {
		pool, _ := member.(document)
		name := fmt.Sprint(pool["name"])
		inner := maps.Clone(pool)
		delete(inner, "name")
		maps.Copy(inner, running(current))
		maps.Copy(pool, running(current))
		key := r.key + "/agentpools/" + strings.ToLower(name)
		s.Resources[key] = document{"id": r.path + "/agentPools/" + name, "name": name, "type": "Microsoft.ContainerService/managedClusters/agentPools", "properties": inner}
	}
	if identity, ok := resource["identity"].(document); ok {
		given, _ := identity["userAssignedIdentities"].(document)
		for id := range given {
			given[id] = document{"clientId": zeros, "principalId": zeros}
		}
	}
}

// embedded are the kinds that Azure shows in what they belong to as well, by the property that lists them there.
var embedded = map[string]string{"subnets": "subnets", "agentpools": "agentPoolProfiles"}

// embed shows a resource in what it belongs to, as Azure does; nil for one that is gone.
func (s *Server) embed(key string, resource document) {
	field := embedded[ledger.KindOf(key)]
	owner := s.Resources[parent(key)]
	if field == "" || owner == nil {
		return
	}
	properties, _ := owner["properties"].(document)
	members, _ := properties[field].([]any)
	kept := []any{}
	for _, member := range members {
		if other, _ := member.(document); !strings.EqualFold(fmt.Sprint(other["name"]), key[strings.LastIndex(key, "/")+1:]) {
			kept = append(kept, member)
		}
	}
	if resource != nil {
		kept = append(kept, profile(field, resource))
	}
	properties[field] = kept
}

// profile is how a cluster lists its pools: without a level between the name and the rest.
func profile(field string, resource document) document {
	if field != "agentPoolProfiles" {
		return resource
	}
	properties, _ := resource["properties"].(document)
	flat := maps.Clone(properties)
	flat["name"] = resource["name"]
	return flat
}

func (s *Server) delete(r *request, existing document) *answer {
	if existing == nil {
		return &answer{status: http.StatusNoContent}
	}
	if user := s.user(r.key); user != "" {
		return refuse(http.StatusBadRequest, "InUse", "%s is used by %s", r.path, user)
	}
	remove := func() {
		delete(s.Resources, r.key)
		for path := range s.Resources {
			if strings.HasPrefix(path, r.key+"/") {
				delete(s.Resources, path)
			}
		}
		s.embed(r.key, nil)
	}
	if kind := ledger.KindOf(r.key); !slow[kind] {
		remove()
		return &answer{status: http.StatusOK, header: atOnce}
	}
	return &answer{status: http.StatusAccepted, header: s.begin(r, remove)}
}

// user finds who refers to a resource: a subnet with a NAT gateway, a pool in a subnet, a gateway with an address.
func (s *Server) user(key string) string {
	for path, resource := range s.Resources {
		if path == key || strings.HasPrefix(path, key+"/") || strings.HasPrefix(key, path+"/") {
			continue
		}
		properties, _ := resource["properties"].(document)
		for _, field := range []string{"natGateway", "networkSecurityGroup"} {
			if reference, ok := properties[field].(document); ok && strings.EqualFold(fmt.Sprint(reference["id"]), key) {
				return path
			}
		}
		if strings.EqualFold(fmt.Sprint(properties["vnetSubnetID"]), key) {
			return path
		}
		addresses, _ := properties["publicIpAddresses"].([]any)
		for _, member := range addresses {
			if reference, ok := member.(document); ok && strings.EqualFold(fmt.Sprint(reference["id"]), key) {
				return path
			}
		}
	}
	return ""
}

// lookup answers for what is not a resource of its own.
func (s *Server) lookup(r *request) *answer {
	switch {
	case strings.HasSuffix(r.key, "/providers/microsoft.authorization/roledefinitions") && r.Method == http.MethodGet:
		return &answer{status: http.StatusOK, body: document{"value": []any{s.role(strings.Trim(strings.TrimPrefix(r.URL.Query().Get("$filter"), "roleName eq "), "'"))}}}
	case strings.Contains(r.key, "/roledefinitions/") && r.Method == http.MethodGet:
		for _, name := range roles {
			if role := s.role(name); strings.EqualFold(fmt.Sprint(role["id"]), r.path) {
				return &answer{status: http.StatusOK, body: role}
			}
		}
		return refuse(http.StatusNotFound, "RoleDefinitionDoesNotExist", "there is no %s", r.path)
	case strings.HasSuffix(r.key, "/availableagentpoolversions") && r.Method == http.MethodGet:
		return s.poolVersions(strings.TrimSuffix(r.key, "/availableagentpoolversions"))
	case strings.HasSuffix(r.key, "/listkeys") && r.Method == http.MethodPost:
		return &answer{status: http.StatusOK, body: document{"keys": []any{}}}
	case strings.HasSuffix(r.key, "/listclusterusercredential"), strings.HasSuffix(r.key, "/listclusteradmincredential"):
		return &answer{status: http.StatusOK, body: document{"kubeconfigs": []any{document{"name": "clusterUser", "value": s.kubeconfig()}}}}
	case r.key == "/subscriptions/"+s.config.Subscription+"/providers/microsoft.authorization/permissions":
		return &answer{status: http.StatusOK, body: document{"value": []any{document{"actions": []any{"*"}, "notActions": s.DeniedAll()}}}}
	case r.key == "/subscriptions/"+s.config.Subscription:
		return &answer{status: http.StatusOK, body: document{"id": r.path, "subscriptionId": s.config.Subscription, "tenantId": s.config.Tenant, "state": "Enabled", "displayName": "stub"}}
	case r.key == "/subscriptions/"+s.config.Subscription+"/providers":
		return &answer{status: http.StatusOK, body: document{"value": []any{}}}
	case strings.HasSuffix(r.key, "/resources") && r.Method == http.MethodGet:
		return s.resourcesIn(strings.TrimSuffix(r.key, "/resources"))
	}
	return nil
}

// poolVersions are those that pools of a cluster can have: no newer than its own.
func (s *Server) poolVersions(cluster string) *answer {
	properties, _ := s.Resources[cluster]["properties"].(document)
	if properties == nil {
		return refuse(http.StatusNotFound, "ResourceNotFound", "there is no %s", cluster)
	}
	current := document{"default": true, "kubernetesVersion": properties["currentKubernetesVersion"]}
	return &answer{status: http.StatusOK, body: document{"id": cluster, "name": "default", "properties": document{"agentPoolVersions": []any{current}}}}
}

// roles are those that Azure has built in, and the configurations give.
var roles = []string{"Network Contributor", "Storage Blob Data Contributor"}

// role is one of them; its ID tells its place in the list.
func (s *Server) role(name string) document {
	id := fmt.Sprintf("00000000-0000-4000-a000-%012d", slices.Index(roles, name))
	return document{
		"id": fmt.Sprintf("/subscriptions/%s/providers/Microsoft.Authorization/roleDefinitions/%s", s.config.Subscription, id), "name": id,
		"properties": document{"roleName": name, "type": "BuiltInRole"},
	}
}

// resourcesIn lists what is in a resource group.
func (s *Server) resourcesIn(group string) *answer {
	found := []any{}
	for path, resource := range s.Resources {
		if strings.HasPrefix(path, group+"/providers/") && len(strings.Split(path, "/")) == 9 {
			found = append(found, document{"id": resource["id"], "name": resource["name"], "type": resource["type"]})
		}
	}
	return &answer{status: http.StatusOK, body: document{"value": found}}
}
