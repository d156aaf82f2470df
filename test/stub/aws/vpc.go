package aws

import (
	"net/http"
	"slices"
)

// vpcActions are those on networks, subnets and routes.
func (s *Server) vpcActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateVpc": s.createVPC, "DeleteVpc": s.deleteVPC, "ModifyVpcAttribute": s.modifyVPC, "DescribeVpcAttribute": s.describeVPCAttribute,
		"CreateSubnet": s.createSubnet, "DeleteSubnet": s.deleteSubnet, "ModifySubnetAttribute": s.modifySubnet,
		"CreateRouteTable": s.createRouteTable, "DeleteRouteTable": s.deleteRouteTable,
		"CreateRoute": s.createRoute, "ReplaceRoute": s.createRoute, "DeleteRoute": s.deleteRoute,
		"AssociateRouteTable": s.associateRouteTable, "DisassociateRouteTable": s.disassociateRouteTable,
	}
}

func (s *Server) createVPC(r *request) (*answer, *failure) {
	cidr := r.text("CidrBlock")
	vpc := s.newThing("Vpcs", r, tree{
		"state": "available", "cidrBlock": cidr, "dhcpOptionsId": "dopt-1", "instanceTenancy": "default", "isDefault": false, "ownerId": s.config.Account,
		"cidrBlockAssociationSet": []any{tree{"associationId": s.next("vpc-cidr-assoc"), "cidrBlock": cidr, "cidrBlockState": tree{"state": "associated"}}},
		"attributes":              tree{"enableDnsSupport": true, "enableDnsHostnames": false, "enableNetworkAddressUsageMetrics": false},
	})
	// What AWS makes along with it.
	empty := &request{form: tree{}}
	table := s.newThing("RouteTables", empty, tree{"vpcId": vpc.id, "ownerId": s.config.Account, "isDefault": true, "propagatingVgwSet": []any{}, "routeSet": []any{localRoute(cidr)}})
	table.data["associationSet"] = []any{tree{"routeTableAssociationId": s.next("rtbassoc"), "routeTableId": table.id, "main": true, "associationState": tree{"state": "associated"}}}
	s.newThing("NetworkAcls", empty, tree{"vpcId": vpc.id, "default": true, "ownerId": s.config.Account, "associationSet": []any{}, "entrySet": defaultEntries()})
	group := s.newThing("SecurityGroups", empty, tree{"vpcId": vpc.id, "groupName": "default", "groupDescription": "default VPC security group", "ownerId": s.config.Account, "isDefault": true})
	group.data["ipPermissions"] = []any{tree{"ipProtocol": "-1", "groups": []any{tree{"groupId": group.id, "userId": s.config.Account}}}}
	group.data["ipPermissionsEgress"] = []any{tree{"ipProtocol": "-1", "ipRanges": []any{tree{"cidrIp": "0.0.0.0/0"}}}}
	return &answer{tree: tree{"vpc": s.view(vpc)}}, nil
}

func localRoute(cidr string) tree {
	return tree{"destinationCidrBlock": cidr, "gatewayId": "local", "state": "active", "origin": "CreateRouteTable"}
}

func defaultEntries() []any {
	var entries []any
	for _, egress := range []bool{false, true} {
		entries = append(entries, tree{"ruleNumber": 32767, "protocol": "-1", "ruleAction": "deny", "egress": egress, "cidrBlock": "0.0.0.0/0"})
	}
	return entries
}

func (s *Server) deleteVPC(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	chosen := func(t *thing) bool { return !byDefault(t.data) }
	for _, plural := range []string{"Subnets", "RouteTables", "SecurityGroups", "NetworkAcls", "VpcEndpoints", "NatGateways"} {
		if failed := s.inUse(plural, "vpcId", vpc.id, chosen); failed != nil {
			return nil, failed
		}
	}
	for _, gateway := range s.all("InternetGateways", nil) {
		if slices.Contains(each("attachmentSet", "vpcId")(gateway), vpc.id) {
			return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is attached to %s", gateway.id, vpc.id)
		}
	}
	for _, plural := range []string{"RouteTables", "SecurityGroups", "NetworkAcls"} {
		for _, t := range s.all(plural, func(t *thing) bool { return t.data["vpcId"] == vpc.id }) {
			s.remove(t.id)
		}
	}
	s.remove(vpc.id)
	return done, nil
}

func (s *Server) modifyVPC(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	attributes, _ := vpc.data["attributes"].(tree)
	for name := range attributes {
		wanted := string(name[0]-'a'+'A') + name[1:]
		if change, ok := r.form[wanted].(tree); ok {
			attributes[name] = change["Value"] == "true"
		}
	}
	return done, nil
}

func (s *Server) describeVPCAttribute(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	attributes, _ := vpc.data["attributes"].(tree)
	name := r.text("Attribute")
	return &answer{tree: tree{"vpcId": vpc.id, name: tree{"value": attributes[name]}}}, nil
}

func (s *Server) createSubnet(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	if failed := s.inUse("Subnets", "cidrBlock", r.text("CidrBlock"), func(t *thing) bool { return t.data["vpcId"] == vpc.id }); failed != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidSubnet.Conflict", "the CIDR conflicts with another subnet")
	}
	zone := r.text("AvailabilityZone")
	subnet := s.newThing("Subnets", r, tree{
		"state": "available", "vpcId": vpc.id, "cidrBlock": r.text("CidrBlock"), "availabilityZone": zone, "availabilityZoneId": "euw1-az" + zone[len(zone)-1:],
		"availableIpAddressCount": 8187, "defaultForAz": false, "mapPublicIpOnLaunch": false, "assignIpv6AddressOnCreation": false, "enableDns64": false, "ipv6Native": false,
		"mapCustomerOwnedIpOnLaunch": false, "ipv6CidrBlockAssociationSet": []any{}, "ownerId": s.config.Account,
		"privateDnsNameOptionsOnLaunch": tree{"hostnameType": "ip-name", "enableResourceNameDnsARecord": false, "enableResourceNameDnsAAAARecord": false},
	})
	subnet.data["subnetArn"] = s.arn("ec2", "subnet/"+subnet.id)
	for _, acl := range s.all("NetworkAcls", func(t *thing) bool { return t.data["vpcId"] == vpc.id && t.data["default"] == true }) {
		associations, _ := acl.data["associationSet"].([]any)
		acl.data["associationSet"] = append(associations, tree{"networkAclAssociationId": s.next("aclassoc"), "networkAclId": acl.id, "subnetId": subnet.id})
	}
	return &answer{tree: tree{"subnet": s.view(subnet)}}, nil
}

func (s *Server) modifySubnet(r *request) (*answer, *failure) {
	subnet, failed := s.find("Subnets", r.text("SubnetId"))
	if failed != nil {
		return nil, failed
	}
	if change, ok := r.form["MapPublicIpOnLaunch"].(tree); ok {
		subnet.data["mapPublicIpOnLaunch"] = change["Value"] == "true"
	}
	return done, nil
}

func (s *Server) deleteSubnet(r *request) (*answer, *failure) {
	subnet, failed := s.find("Subnets", r.text("SubnetId"))
	if failed != nil {
		return nil, failed
	}
	if failed := s.inUse("NatGateways", "subnetId", subnet.id, nil); failed != nil {
		return nil, failed
	}
	for _, plural := range []string{"clusters", "nodegroups"} {
		for _, t := range s.all(plural, nil) {
			if slices.Contains(subnetsIn(t.data), subnet.id) {
				return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is used by %s", subnet.id, t.id)
			}
		}
	}
	for _, endpoint := range s.all("VpcEndpoints", nil) {
		ids, _ := endpoint.data["subnetIdSet"].([]string)
		if slices.Contains(ids, subnet.id) {
			return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is used by %s", subnet.id, endpoint.id)
		}
	}
	for _, acl := range s.all("NetworkAcls", nil) {
		acl.data["associationSet"] = without(acl.data["associationSet"], "subnetId", subnet.id)
	}
	s.remove(subnet.id)
	return done, nil
}

// without is a list without the members whose field has a value.
func without(members any, name, value string) []any {
	old, _ := members.([]any)
	kept := []any{}
	for _, member := range old {
		if inner, ok := member.(tree); !ok || inner[name] != value {
			kept = append(kept, member)
		}
	}
	return kept
}

func (s *Server) createRouteTable(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	table := s.newThing("RouteTables", r, tree{
		"vpcId": vpc.id, "ownerId": s.config.Account, "associationSet": []any{}, "propagatingVgwSet": []any{}, "routeSet": []any{localRoute(plain(vpc.data["cidrBlock"]))},
	})
	return &answer{tree: tree{"routeTable": s.view(table)}}, nil
}

func (s *Server) deleteRouteTable(r *request) (*answer, *failure) {
	table, failed := s.find("RouteTables", r.text("RouteTableId"))
	if failed != nil {
		return nil, failed
	}
	if associations, _ := table.data["associationSet"].([]any); len(associations) > 0 {
		return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is associated", table.id)
	}
	s.remove(table.id)
	return done, nil
}

func (s *Server) createRoute(r *request) (*answer, *failure) {
	table, failed := s.find("RouteTables", r.text("RouteTableId"))
	if failed != nil {
		return nil, failed
	}
	destination := r.text("DestinationCidrBlock")
	route := tree{"destinationCidrBlock": destination, "state": "active", "origin": "CreateRoute"}
	for parameter, plural := range map[string]string{"GatewayId": "InternetGateways", "NatGatewayId": "NatGateways"} {
		id := r.text(parameter)
		if id == "" {
			continue
		}
		if _, failed := s.find(plural, id); failed != nil {
			return nil, failed
		}
		route[first(parameter)] = id
	}
	routes := without(table.data["routeSet"], "destinationCidrBlock", destination)
	if old, _ := table.data["routeSet"].([]any); len(old) != len(routes) && r.action == "CreateRoute" {
		return nil, refuse(http.StatusBadRequest, "RouteAlreadyExists", "there is a route to %s", destination)
	}
	table.data["routeSet"] = append(routes, route)
	return done, nil
}

func (s *Server) deleteRoute(r *request) (*answer, *failure) {
	table, failed := s.find("RouteTables", r.text("RouteTableId"))
	if failed != nil {
		return nil, failed
	}
	table.data["routeSet"] = without(table.data["routeSet"], "destinationCidrBlock", r.text("DestinationCidrBlock"))
	return done, nil
}

func (s *Server) associateRouteTable(r *request) (*answer, *failure) {
	table, failed := s.find("RouteTables", r.text("RouteTableId"))
	if failed != nil {
		return nil, failed
	}
	subnet, failed := s.find("Subnets", r.text("SubnetId"))
	if failed != nil {
		return nil, failed
	}
	for _, other := range s.all("RouteTables", nil) {
		if slices.Contains(each("associationSet", "subnetId")(other), subnet.id) {
			return nil, refuse(http.StatusBadRequest, "Resource.AlreadyAssociated", "%s is associated with %s", subnet.id, other.id)
		}
	}
	id := s.next("rtbassoc")
	associations, _ := table.data["associationSet"].([]any)
	table.data["associationSet"] = append(associations, tree{
		"routeTableAssociationId": id, "routeTableId": table.id, "subnetId": subnet.id, "main": false, "associationState": tree{"state": "associated"},
	})
	return &answer{tree: tree{"associationId": id, "associationState": tree{"state": "associated"}}}, nil
}

func (s *Server) disassociateRouteTable(r *request) (*answer, *failure) {
	id := r.text("AssociationId")
	for _, table := range s.all("RouteTables", nil) {
		if slices.Contains(each("associationSet", "routeTableAssociationId")(table), id) {
			table.data["associationSet"] = without(table.data["associationSet"], "routeTableAssociationId", id)
			return done, nil
		}
	}
	return nil, refuse(http.StatusBadRequest, "InvalidAssociationID.NotFound", "there is no association %s", id)
}
