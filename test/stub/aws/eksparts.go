package aws

import (
	"maps"
	"net/http"
)

// nodeActions are those on node groups and add-ons.
func (s *Server) nodeActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"POST clusters/*/node-groups": s.createNodeGroup, "GET clusters/*/node-groups/*": s.describeNodeGroup, "DELETE clusters/*/node-groups/*": s.deleteNodeGroup,
		"POST clusters/*/node-groups/*/update-config": s.updateNodeGroup, "POST clusters/*/node-groups/*/update-version": s.upgradeNodeGroup,
		"POST clusters/*/addons": s.createAddon, "GET clusters/*/addons/*": s.describeAddon, "DELETE clusters/*/addons/*": s.deleteAddon, "POST clusters/*/addons/*/update": s.updateAddon,
	}
}

func (s *Server) createNodeGroup(r *request) (*answer, *failure) {
	cluster, failed := s.cluster(r.path[0])
	if failed != nil {
		return nil, failed
	}
	if s.status(cluster) != "ACTIVE" {
		return nil, refuse(http.StatusBadRequest, "InvalidRequestException", "Cluster %s is not ACTIVE", r.path[0])
	}
	name, _ := r.json["nodegroupName"].(string)
	if _, failed := s.part("nodegroups", "nodegroup", r.path[0], name); failed == nil {
		return nil, refuse(http.StatusConflict, "ResourceInUseException", "NodeGroup already exists with name %s", name)
	}
	if role, _ := r.json["nodeRole"].(string); s.things[role] == nil {
		return nil, refuse(http.StatusBadRequest, "InvalidParameterException", "there is no role %s", role)
	}
	data := maps.Clone(r.json)
	delete(data, "tags")
	delete(data, "clientRequestToken")
	arn := s.arn("eks", "nodegroup/"+r.path[0]+"/"+name)
	maps.Copy(data, tree{
		"clusterName": r.path[0], "nodegroupName": name, "nodegroupArn": arn, "releaseVersion": "1.2.3", "health": tree{"issues": []any{}}, "version": or(data["version"], cluster.data["version"]),
		"resources": tree{"autoScalingGroups": []any{tree{"name": "eks-" + name}}}, "createdAt": float64(s.config.Now().Unix()), "modifiedAt": float64(s.config.Now().Unix()),
	})
	t := s.make("nodegroups", arn, data, tagsIn(r.json))
	return &answer{tree: tree{"nodegroup": s.eksView(t)}}, nil
}

// part is something of a cluster, by its name there.
func (s *Server) part(kind, singular, cluster, name string) (*thing, *failure) {
	if t := s.things[s.arn("eks", singular+"/"+cluster+"/"+name)]; t != nil && t.kind == kind {
		return t, nil
	}
	return nil, notFound("No %s found for name: %s.", singular, name)
}

func (s *Server) describeNodeGroup(r *request) (*answer, *failure) {
	t, failed := s.part("nodegroups", "nodegroup", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"nodegroup": s.eksView(t)}}, nil
}

func (s *Server) deleteNodeGroup(r *request) (*answer, *failure) {
	t, failed := s.part("nodegroups", "nodegroup", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	t.gone = s.config.Now()
	return &answer{tree: tree{"nodegroup": s.eksView(t)}}, nil
}

func (s *Server) updateNodeGroup(r *request) (*answer, *failure) {
	t, failed := s.part("nodegroups", "nodegroup", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	for _, name := range []string{"scalingConfig", "updateConfig"} {
		if r.json[name] != nil {
			t.data[name] = r.json[name]
		}
	}
	if change, ok := r.json["labels"].(tree); ok {
		labels, _ := t.data["labels"].(tree)
		if labels == nil {
			labels = tree{}
		}
		added, _ := change["addOrUpdateLabels"].(tree)
		maps.Copy(labels, added)
		removed, _ := change["removeLabels"].([]any)
		for _, key := range removed {
			name, _ := key.(string)
			delete(labels, name)
		}
		t.data["labels"] = labels
	}
	return &answer{tree: tree{"update": s.updated(t, "ConfigUpdate")}}, nil
}

func (s *Server) upgradeNodeGroup(r *request) (*answer, *failure) {
	t, failed := s.part("nodegroups", "nodegroup", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	for _, name := range []string{"version", "launchTemplate", "releaseVersion"} {
		if r.json[name] != nil {
			t.data[name] = r.json[name]
		}
	}
	return &answer{tree: tree{"update": s.updated(t, "VersionUpdate")}}, nil
}

func (s *Server) createAddon(r *request) (*answer, *failure) {
	cluster, failed := s.cluster(r.path[0])
	if failed != nil {
		return nil, failed
	}
	if s.status(cluster) != "ACTIVE" {
		return nil, refuse(http.StatusBadRequest, "InvalidRequestException", "Cluster %s is not ACTIVE", r.path[0])
	}
	name, _ := r.json["addonName"].(string)
	if _, failed := s.part("addons", "addon", r.path[0], name); failed == nil {
		return nil, refuse(http.StatusConflict, "ResourceInUseException", "Addon already exists: %s", name)
	}
	arn := s.arn("eks", "addon/"+r.path[0]+"/"+name)
	associations := []any{}
	given, _ := r.json["podIdentityAssociations"].([]any)
	for _, member := range given {
		one, _ := member.(tree)
		association := s.associate(r.path[0], "kube-system", one, map[string]string{})
		association.data["ownerArn"] = arn
		associations = append(associations, association.data["associationArn"])
	}
	t := s.make("addons", arn, tree{
		"addonName": name, "clusterName": r.path[0], "addonArn": arn, "addonVersion": or(r.json["addonVersion"], "v1.0.0-eksbuild.1"), "health": tree{"issues": []any{}},
		"configurationValues": r.json["configurationValues"], "serviceAccountRoleArn": r.json["serviceAccountRoleArn"], "podIdentityAssociations": associations,
		"createdAt": float64(s.config.Now().Unix()), "modifiedAt": float64(s.config.Now().Unix()),
	}, tagsIn(r.json))
	return &answer{tree: tree{"addon": s.eksView(t)}}, nil
}

func (s *Server) describeAddon(r *request) (*answer, *failure) {
	t, failed := s.part("addons", "addon", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"addon": s.eksView(t)}}, nil
}

func (s *Server) updateAddon(r *request) (*answer, *failure) {
	t, failed := s.part("addons", "addon", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	for _, name := range []string{"addonVersion", "configurationValues", "serviceAccountRoleArn"} {
		if r.json[name] != nil {
			t.data[name] = r.json[name]
		}
	}
	return &answer{tree: tree{"update": s.updated(t, "AddonUpdate")}}, nil
}

func (s *Server) deleteAddon(r *request) (*answer, *failure) {
	t, failed := s.part("addons", "addon", r.path[0], r.path[1])
	if failed != nil {
		return nil, failed
	}
	for _, association := range s.all("pod-identity-associations", func(a *thing) bool { return a.data["ownerArn"] == t.id }) {
		s.remove(association.id)
	}
	t.gone = s.config.Now()
	return &answer{tree: tree{"addon": s.eksView(t)}}, nil
}

// accessActions are those on who may do what: access entries and pod identities.
func (s *Server) accessActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"POST clusters/*/access-entries": s.createEntry, "GET clusters/*/access-entries/*": s.describeEntry, "DELETE clusters/*/access-entries/*": s.deleteEntry,
		"POST clusters/*/access-entries/*/access-policies": s.associatePolicy, "GET clusters/*/access-entries/*/access-policies": s.listPolicies,
		"DELETE clusters/*/access-entries/*/access-policies/*": s.disassociatePolicy,
		"POST clusters/*/pod-identity-associations":            s.createAssociation, "GET clusters/*/pod-identity-associations/*": s.describeAssociation,
		"POST clusters/*/pod-identity-associations/*": s.updateAssociation, "DELETE clusters/*/pod-identity-associations/*": s.deleteAssociation,
		"GET clusters/*/pod-identity-associations": s.listAssociations,
	}
}

func (s *Server) createEntry(r *request) (*answer, *failure) {
	if _, failed := s.cluster(r.path[0]); failed != nil {
		return nil, failed
	}
	principal, _ := r.json["principalArn"].(string)
	if _, failed := s.part("access-entries", "access-entry", r.path[0], principal); failed == nil {
		return nil, refuse(http.StatusConflict, "ResourceInUseException", "the principal %s has an entry", principal)
	}
	arn := s.arn("eks", "access-entry/"+r.path[0]+"/"+principal)
	now := float64(s.config.Now().Unix())
	t := s.make("access-entries", arn, tree{
		"clusterName": r.path[0], "principalArn": principal, "accessEntryArn": arn, "type": or(r.json["type"], "STANDARD"), "username": or(r.json["username"], principal),
		"kubernetesGroups": or(r.json["kubernetesGroups"], []any{}), "policies": []any{}, "createdAt": now, "modifiedAt": now,
	}, tagsIn(r.json))
	return &answer{tree: tree{"accessEntry": s.entryView(t)}}, nil
}

func (s *Server) entryView(t *thing) tree {
	view := s.eksView(t)
	delete(view, "status")
	delete(view, "policies")
	return view
}

func (s *Server) entry(r *request) (*thing, *failure) {
	return s.part("access-entries", "access-entry", r.path[0], r.path[1])
}

func (s *Server) describeEntry(r *request) (*answer, *failure) {
	t, failed := s.entry(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"accessEntry": s.entryView(t)}}, nil
}

func (s *Server) deleteEntry(r *request) (*answer, *failure) {
	t, failed := s.entry(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return nil, nil
}

func (s *Server) associatePolicy(r *request) (*answer, *failure) {
	t, failed := s.entry(r)
	if failed != nil {
		return nil, failed
	}
	now := float64(s.config.Now().Unix())
	policy := tree{"policyArn": r.json["policyArn"], "accessScope": r.json["accessScope"], "associatedAt": now, "modifiedAt": now}
	t.data["policies"] = append(without(t.data["policies"], "policyArn", plain(r.json["policyArn"])), policy)
	return &answer{tree: tree{"clusterName": r.path[0], "principalArn": r.path[1], "associatedAccessPolicy": policy}}, nil
}

func (s *Server) listPolicies(r *request) (*answer, *failure) {
	t, failed := s.entry(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"clusterName": r.path[0], "principalArn": r.path[1], "associatedAccessPolicies": t.data["policies"]}}, nil
}

func (s *Server) disassociatePolicy(r *request) (*answer, *failure) {
	t, failed := s.entry(r)
	if failed != nil {
		return nil, failed
	}
	t.data["policies"] = without(t.data["policies"], "policyArn", r.path[2])
	return nil, nil
}

// associate gives the pods of a service account a role.
func (s *Server) associate(cluster, namespace string, body tree, tags map[string]string) *thing {
	id := s.next("a")
	arn := s.arn("eks", "podidentityassociation/"+cluster+"/"+id)
	now := float64(s.config.Now().Unix())
	return s.make("pod-identity-associations", arn, tree{
		"associationId": id, "associationArn": arn, "clusterName": cluster, "namespace": or(body["namespace"], namespace), "serviceAccount": body["serviceAccount"],
		"roleArn": body["roleArn"], "disableSessionTags": false, "createdAt": now, "modifiedAt": now,
	}, tags)
}

func (s *Server) createAssociation(r *request) (*answer, *failure) {
	if _, failed := s.cluster(r.path[0]); failed != nil {
		return nil, failed
	}
	same := func(t *thing) bool {
		return t.data["clusterName"] == r.path[0] && t.data["namespace"] == r.json["namespace"] && t.data["serviceAccount"] == r.json["serviceAccount"]
	}
	if len(s.all("pod-identity-associations", same)) > 0 {
		return nil, refuse(http.StatusConflict, "ResourceInUseException", "Association already exists: %s", r.json["serviceAccount"])
	}
	t := s.associate(r.path[0], "", r.json, tagsIn(r.json))
	return &answer{tree: tree{"association": s.associationView(t)}}, nil
}

func (s *Server) associationView(t *thing) tree {
	view := s.eksView(t)
	delete(view, "status")
	return view
}

func (s *Server) association(r *request) (*thing, *failure) {
	return s.part("pod-identity-associations", "podidentityassociation", r.path[0], r.path[1])
}

func (s *Server) describeAssociation(r *request) (*answer, *failure) {
	t, failed := s.association(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"association": s.associationView(t)}}, nil
}

func (s *Server) updateAssociation(r *request) (*answer, *failure) {
	t, failed := s.association(r)
	if failed != nil {
		return nil, failed
	}
	t.data["roleArn"] = or(r.json["roleArn"], t.data["roleArn"])
	return &answer{tree: tree{"association": s.associationView(t)}}, nil
}

func (s *Server) deleteAssociation(r *request) (*answer, *failure) {
	t, failed := s.association(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return &answer{tree: tree{"association": s.associationView(t)}}, nil
}

func (s *Server) listAssociations(r *request) (*answer, *failure) {
	found := []any{}
	for _, t := range s.all("pod-identity-associations", func(t *thing) bool { return t.data["clusterName"] == r.path[0] }) {
		found = append(found, s.associationView(t))
	}
	return &answer{tree: tree{"associations": found}}, nil
}
