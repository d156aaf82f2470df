package aws

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// iamActions are those of IAM.
func (s *Server) iamActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateRole": s.createRole, "GetRole": s.getRole, "DeleteRole": s.deleteRole, "UpdateAssumeRolePolicy": s.updateTrust, "UpdateRole": s.updateRole, "TagRole": s.tagIAM, "UntagRole": s.untagIAM, "ListRoleTags": s.listRoleTags,
		"AttachRolePolicy": s.attachPolicy, "DetachRolePolicy": s.detachPolicy, "ListAttachedRolePolicies": s.listAttached,
		"PutRolePolicy": s.putRolePolicy, "GetRolePolicy": s.getRolePolicy, "DeleteRolePolicy": s.deleteRolePolicy, "ListRolePolicies": s.listRolePolicies,
		"ListInstanceProfilesForRole": func(*request) (*answer, *failure) {
			return &answer{tree: tree{"InstanceProfiles": []any{}, "IsTruncated": false}}, nil
		},
		"CreateOpenIDConnectProvider": s.createOIDC, "GetOpenIDConnectProvider": s.getOIDC, "DeleteOpenIDConnectProvider": s.deleteOIDC,
		"SimulatePrincipalPolicy":  s.simulate,
		"TagOpenIDConnectProvider": s.tagIAM, "UntagOpenIDConnectProvider": s.untagIAM,
	}
}

// simulate allows everything that was not taken away.
func (s *Server) simulate(r *request) (*answer, *failure) {
	results := []any{}
	for _, action := range list(r.form, "ActionNames") {
		decision := "allowed"
		if name, _ := action.(string); s.Denied(name) {
			decision = "implicitDeny"
		}
		results = append(results, tree{"EvalActionName": action, "EvalDecision": decision, "EvalResourceName": "*"})
	}
	return &answer{tree: tree{"EvaluationResults": results, "IsTruncated": false}}, nil
}

func noEntity(format string, args ...any) *failure {
	return refuse(http.StatusNotFound, "NoSuchEntity", format, args...)
}

// role is the one that a request is about.
func (s *Server) role(r *request) (*thing, *failure) {
	if t := s.things[s.arn("iam", "role/"+r.text("RoleName"))]; t != nil {
		return t, nil
	}
	return nil, noEntity("The role with name %s cannot be found.", r.text("RoleName"))
}

func iamTags(tags map[string]string) []any {
	set := []any{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		set = append(set, tree{"Key": key, "Value": tags[key]})
	}
	return set
}

func (s *Server) createRole(r *request) (*answer, *failure) {
	if _, failed := s.role(r); failed == nil {
		return nil, refuse(http.StatusConflict, "EntityAlreadyExists", "Role with name %s already exists.", r.text("RoleName"))
	}
	arn := s.arn("iam", "role/"+r.text("RoleName"))
	t := s.make("roles", arn, tree{
		"RoleName": r.text("RoleName"), "RoleId": strings.ToUpper(s.next("AROA")), "Arn": arn, "Path": "/", "CreateDate": s.stamp(), "MaxSessionDuration": 3600,
		"AssumeRolePolicyDocument": url.QueryEscape(r.text("AssumeRolePolicyDocument")), "attached": []string{}, "inline": map[string]string{},
	}, tagsOf(r.form, "Tags"))
	return &answer{tree: tree{"Role": roleView(t)}}, nil
}

func roleView(t *thing) tree {
	view := maps.Clone(t.data)
	delete(view, "attached")
	delete(view, "inline")
	view["Tags"] = iamTags(t.tags)
	return view
}

func (s *Server) getRole(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"Role": roleView(t)}}, nil
}

func (s *Server) deleteRole(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	if attached, _ := t.data["attached"].([]string); len(attached) > 0 {
		return nil, refuse(http.StatusConflict, "DeleteConflict", "Cannot delete entity, must detach all policies first.")
	}
	if inline, _ := t.data["inline"].(map[string]string); len(inline) > 0 {
		return nil, refuse(http.StatusConflict, "DeleteConflict", "Cannot delete entity, must delete policies first.")
	}
	s.remove(t.id)
	return &answer{}, nil
}

func (s *Server) updateTrust(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	t.data["AssumeRolePolicyDocument"] = url.QueryEscape(r.text("PolicyDocument"))
	return &answer{}, nil
}

func (s *Server) updateRole(r *request) (*answer, *failure) {
	_, failed := s.role(r)
	return &answer{}, failed
}

func (s *Server) listRoleTags(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"Tags": iamTags(t.tags), "IsTruncated": false}}, nil
}

// entity is the role or identity provider that a request is about.
func (s *Server) entity(r *request) (*thing, *failure) {
	if arn := r.text("OpenIDConnectProviderArn"); arn != "" {
		if t := s.things[arn]; t != nil {
			return t, nil
		}
		return nil, noEntity("OpenIDConnect Provider not found for arn %s", arn)
	}
	return s.role(r)
}

func (s *Server) tagIAM(r *request) (*answer, *failure) {
	t, failed := s.entity(r)
	if failed != nil {
		return nil, failed
	}
	maps.Copy(t.tags, tagsOf(r.form, "Tags"))
	return &answer{}, nil
}

func (s *Server) untagIAM(r *request) (*answer, *failure) {
	t, failed := s.entity(r)
	if failed != nil {
		return nil, failed
	}
	for _, key := range texts(r.form, "TagKeys") {
		delete(t.tags, key)
	}
	return &answer{}, nil
}

func (s *Server) attachPolicy(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	attached, _ := t.data["attached"].([]string)
	if !slices.Contains(attached, r.text("PolicyArn")) {
		t.data["attached"] = append(attached, r.text("PolicyArn"))
	}
	return &answer{}, nil
}

func (s *Server) detachPolicy(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	attached, _ := t.data["attached"].([]string)
	if !slices.Contains(attached, r.text("PolicyArn")) {
		return nil, noEntity("Policy %s was not found.", r.text("PolicyArn"))
	}
	t.data["attached"] = slices.DeleteFunc(slices.Clone(attached), func(arn string) bool { return arn == r.text("PolicyArn") })
	return &answer{}, nil
}

func (s *Server) listAttached(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	attached, _ := t.data["attached"].([]string)
	found := []any{}
	for _, arn := range attached {
		found = append(found, tree{"PolicyArn": arn, "PolicyName": arn[strings.LastIndex(arn, "/")+1:]})
	}
	return &answer{tree: tree{"AttachedPolicies": found, "IsTruncated": false}}, nil
}

func (s *Server) putRolePolicy(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	t.data["inline"].(map[string]string)[r.text("PolicyName")] = r.text("PolicyDocument")
	return &answer{}, nil
}

func (s *Server) getRolePolicy(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	document, ok := t.data["inline"].(map[string]string)[r.text("PolicyName")]
	if !ok {
		return nil, noEntity("The role policy with name %s cannot be found.", r.text("PolicyName"))
	}
	return &answer{tree: tree{"RoleName": r.text("RoleName"), "PolicyName": r.text("PolicyName"), "PolicyDocument": url.QueryEscape(document)}}, nil
}

func (s *Server) deleteRolePolicy(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	delete(t.data["inline"].(map[string]string), r.text("PolicyName"))
	return &answer{}, nil
}

func (s *Server) listRolePolicies(r *request) (*answer, *failure) {
	t, failed := s.role(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"PolicyNames": slices.Sorted(maps.Keys(t.data["inline"].(map[string]string))), "IsTruncated": false}}, nil
}

func (s *Server) createOIDC(r *request) (*answer, *failure) {
	arn := s.arn("iam", "oidc-provider/"+strings.TrimPrefix(r.text("Url"), "https://"))
	if s.things[arn] != nil {
		return nil, refuse(http.StatusConflict, "EntityAlreadyExists", "Provider with url %s already exists.", r.text("Url"))
	}
	thumbprints := texts(r.form, "ThumbprintList")
	if len(thumbprints) == 0 {
		thumbprints = []string{"9e99a48a9960b14926bb7f3b02e22da2b0ab7280"}
	}
	s.make("oidc-providers", arn, tree{"Url": strings.TrimPrefix(r.text("Url"), "https://"), "ClientIDList": texts(r.form, "ClientIDList"), "ThumbprintList": thumbprints, "CreateDate": s.stamp()}, tagsOf(r.form, "Tags"))
	return &answer{tree: tree{"OpenIDConnectProviderArn": arn}}, nil
}

func (s *Server) getOIDC(r *request) (*answer, *failure) {
	t, failed := s.entity(r)
	if failed != nil {
		return nil, failed
	}
	view := maps.Clone(t.data)
	view["Tags"] = iamTags(t.tags)
	return &answer{tree: view}, nil
}

func (s *Server) deleteOIDC(r *request) (*answer, *failure) {
	t, failed := s.entity(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return &answer{}, nil
}
