package aws

import (
	"net/http"
	"slices"
	"strconv"
)

// securityActions are those on security groups and network ACLs.
func (s *Server) securityActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateSecurityGroup": s.createGroup, "DeleteSecurityGroup": s.deleteGroup,
		"AuthorizeSecurityGroupIngress": s.authorize, "AuthorizeSecurityGroupEgress": s.authorize,
		"RevokeSecurityGroupIngress": s.revoke, "RevokeSecurityGroupEgress": s.revoke,
		"CreateNetworkAcl": s.createACL, "DeleteNetworkAcl": s.deleteACL, "CreateNetworkAclEntry": s.createACLEntry, "DeleteNetworkAclEntry": s.deleteACLEntry,
		"ReplaceNetworkAclAssociation": s.replaceACLAssociation,
	}
}

func (s *Server) createGroup(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	same := func(t *thing) bool { return t.data["vpcId"] == vpc.id }
	if s.inUse("SecurityGroups", "groupName", r.text("GroupName"), same) != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidGroup.Duplicate", "there is a group %s", r.text("GroupName"))
	}
	group := s.newThing("SecurityGroups", r, tree{
		"vpcId": vpc.id, "groupName": r.text("GroupName"), "groupDescription": r.text("GroupDescription"), "ownerId": s.config.Account,
		"ipPermissions": []any{}, "ipPermissionsEgress": []any{tree{"ipProtocol": "-1", "ipRanges": []any{tree{"cidrIp": "0.0.0.0/0"}}}},
	})
	return &answer{tree: tree{"return": true, "groupId": group.id}}, nil
}

func (s *Server) deleteGroup(r *request) (*answer, *failure) {
	group, failed := s.find("SecurityGroups", r.text("GroupId"))
	if failed != nil {
		return nil, failed
	}
	if group.data["isDefault"] == true {
		return nil, refuse(http.StatusBadRequest, "CannotDelete", "the default group cannot be deleted")
	}
	for _, endpoint := range s.all("VpcEndpoints", nil) {
		if slices.Contains(each("groupSet", "groupId")(endpoint), group.id) {
			return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is used by %s", group.id, endpoint.id)
		}
	}
	for _, rule := range s.all("SecurityGroupRules", func(t *thing) bool { return t.data["groupId"] == group.id }) {
		s.remove(rule.id)
	}
	s.remove(group.id)
	return &answer{tree: tree{"return": true, "groupId": group.id}}, nil
}

// authorize makes a rule for each range.
func (s *Server) authorize(r *request) (*answer, *failure) {
	group, failed := s.find("SecurityGroups", r.text("GroupId"))
	if failed != nil {
		return nil, failed
	}
	rules := []any{}
	for _, member := range list(r.form, "IpPermissions") {
		permission, _ := member.(tree)
		for _, one := range list(permission, "IpRanges") {
			ranges, _ := one.(tree)
			same := func(t *thing) bool {
				return t.data["groupId"] == group.id && t.data["fromPort"] == permission["FromPort"]
			}
			if cidr, _ := ranges["CidrIp"].(string); s.inUse("SecurityGroupRules", "cidrIpv4", cidr, same) != nil {
				return nil, refuse(http.StatusBadRequest, "InvalidPermission.Duplicate", "there is a rule for %s", cidr)
			}
			rule := s.newThing("SecurityGroupRules", r, tree{
				"groupId": group.id, "groupOwnerId": s.config.Account, "isEgress": r.action == "AuthorizeSecurityGroupEgress", "ipProtocol": permission["IpProtocol"],
				"fromPort": permission["FromPort"], "toPort": permission["ToPort"], "cidrIpv4": ranges["CidrIp"], "description": ranges["Description"],
			})
			rule.data["securityGroupRuleArn"] = s.arn("ec2", "security-group-rule/"+rule.id)
			rules = append(rules, s.view(rule))
		}
	}
	return &answer{tree: tree{"return": true, "securityGroupRuleSet": rules}}, nil
}

// revoke removes rules by ID, or, where permissions are named instead, all of the group: so a default group is emptied.
func (s *Server) revoke(r *request) (*answer, *failure) {
	group, failed := s.find("SecurityGroups", r.text("GroupId"))
	if failed != nil {
		return nil, failed
	}
	if ids := texts(r.form, "SecurityGroupRuleId"); len(ids) > 0 {
		for _, id := range ids {
			if _, failed := s.find("SecurityGroupRules", id); failed != nil {
				return nil, failed
			}
			s.remove(id)
		}
		return done, nil
	}
	if r.action == "RevokeSecurityGroupEgress" {
		group.data["ipPermissionsEgress"] = []any{}
	} else {
		group.data["ipPermissions"] = []any{}
	}
	return done, nil
}

func (s *Server) createACL(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	acl := s.newThing("NetworkAcls", r, tree{"vpcId": vpc.id, "default": false, "ownerId": s.config.Account, "associationSet": []any{}, "entrySet": defaultEntries()})
	return &answer{tree: tree{"networkAcl": s.view(acl)}}, nil
}

func (s *Server) deleteACL(r *request) (*answer, *failure) {
	acl, failed := s.find("NetworkAcls", r.text("NetworkAclId"))
	if failed != nil {
		return nil, failed
	}
	if associations, _ := acl.data["associationSet"].([]any); len(associations) > 0 {
		return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is associated", acl.id)
	}
	s.remove(acl.id)
	return done, nil
}

// entryAt tells whether an entry has a number and a direction.
func entryAt(entry any, number int, egress bool) bool {
	inner, _ := entry.(tree)
	return inner["ruleNumber"] == number && inner["egress"] == egress
}

func (s *Server) createACLEntry(r *request) (*answer, *failure) {
	acl, failed := s.find("NetworkAcls", r.text("NetworkAclId"))
	if failed != nil {
		return nil, failed
	}
	number, err := strconv.Atoi(r.text("RuleNumber"))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidParameterValue", "a rule needs a number")
	}
	egress := r.text("Egress") == "true"
	entries, _ := acl.data["entrySet"].([]any)
	if slices.ContainsFunc(entries, func(entry any) bool { return entryAt(entry, number, egress) }) {
		return nil, refuse(http.StatusBadRequest, "NetworkAclEntryAlreadyExists", "there is a rule %d", number)
	}
	acl.data["entrySet"] = append(entries, tree{"ruleNumber": number, "protocol": r.text("Protocol"), "ruleAction": r.text("RuleAction"), "egress": egress, "cidrBlock": r.text("CidrBlock")})
	return done, nil
}

func (s *Server) deleteACLEntry(r *request) (*answer, *failure) {
	acl, failed := s.find("NetworkAcls", r.text("NetworkAclId"))
	if failed != nil {
		return nil, failed
	}
	number, _ := strconv.Atoi(r.text("RuleNumber")) // 0 is no rule's number
	entries, _ := acl.data["entrySet"].([]any)
	acl.data["entrySet"] = slices.DeleteFunc(slices.Clone(entries), func(entry any) bool { return entryAt(entry, number, r.text("Egress") == "true") })
	return done, nil
}

func (s *Server) replaceACLAssociation(r *request) (*answer, *failure) {
	to, failed := s.find("NetworkAcls", r.text("NetworkAclId"))
	if failed != nil {
		return nil, failed
	}
	id := r.text("AssociationId")
	for _, from := range s.all("NetworkAcls", nil) {
		associations, _ := from.data["associationSet"].([]any)
		for _, member := range associations {
			association, _ := member.(tree)
			if association["networkAclAssociationId"] != id {
				continue
			}
			from.data["associationSet"] = without(from.data["associationSet"], "networkAclAssociationId", id)
			fresh := s.next("aclassoc")
			there, _ := to.data["associationSet"].([]any)
			to.data["associationSet"] = append(there, tree{"networkAclAssociationId": fresh, "networkAclId": to.id, "subnetId": association["subnetId"]})
			return &answer{tree: tree{"newAssociationId": fresh}}, nil
		}
	}
	return nil, refuse(http.StatusBadRequest, "InvalidAssociationID.NotFound", "there is no association %s", id)
}
