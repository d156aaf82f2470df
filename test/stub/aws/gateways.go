package aws

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// gatewayActions are those on what leads out of a network, and on what watches it.
func (s *Server) gatewayActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateInternetGateway": s.createGateway, "AttachInternetGateway": s.attachGateway, "DetachInternetGateway": s.detachGateway, "DeleteInternetGateway": s.deleteGateway,
		"AllocateAddress": s.allocate, "ReleaseAddress": s.release, "DisassociateAddress": s.disassociate, "CreateNatGateway": s.createNAT, "DeleteNatGateway": s.deleteNAT,
		"CreateVpcEndpoint": s.createEndpoint, "ModifyVpcEndpoint": s.modifyEndpoint, "DeleteVpcEndpoints": s.deleteEndpoints,
		"CreateFlowLogs": s.createFlowLogs, "DeleteFlowLogs": s.deleteFlowLogs,
	}
}

func (s *Server) createGateway(r *request) (*answer, *failure) {
	gateway := s.newThing("InternetGateways", r, tree{"attachmentSet": []any{}, "ownerId": s.config.Account})
	return &answer{tree: tree{"internetGateway": s.view(gateway)}}, nil
}

func (s *Server) attachGateway(r *request) (*answer, *failure) {
	gateway, failed := s.find("InternetGateways", r.text("InternetGatewayId"))
	if failed != nil {
		return nil, failed
	}
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	gateway.data["attachmentSet"] = []any{tree{"vpcId": vpc.id, "state": "available"}}
	return done, nil
}

func (s *Server) detachGateway(r *request) (*answer, *failure) {
	gateway, failed := s.find("InternetGateways", r.text("InternetGatewayId"))
	if failed != nil {
		return nil, failed
	}
	if failed := s.inUse("NatGateways", "vpcId", r.text("VpcId"), nil); failed != nil {
		return nil, failed
	}
	gateway.data["attachmentSet"] = []any{}
	return done, nil
}

func (s *Server) deleteGateway(r *request) (*answer, *failure) {
	gateway, failed := s.find("InternetGateways", r.text("InternetGatewayId"))
	if failed != nil {
		return nil, failed
	}
	if attachments, _ := gateway.data["attachmentSet"].([]any); len(attachments) > 0 {
		return nil, refuse(http.StatusBadRequest, "DependencyViolation", "%s is attached", gateway.id)
	}
	s.remove(gateway.id)
	return done, nil
}

func (s *Server) allocate(r *request) (*answer, *failure) {
	address := s.newThing("Addresses", r, tree{"domain": "vpc", "publicIpv4Pool": "amazon", "networkBorderGroup": s.config.Region})
	address.data["publicIp"] = fmt.Sprintf("203.0.113.%d", s.serial%250+1)
	return &answer{tree: s.view(address)}, nil
}

func (s *Server) release(r *request) (*answer, *failure) {
	address, failed := s.find("Addresses", r.text("AllocationId"))
	if failed != nil {
		return nil, failed
	}
	if address.data["associationId"] != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidIPAddress.InUse", "%s is in use", address.id)
	}
	s.remove(address.id)
	return done, nil
}

// disassociate finds nothing that could be: the addresses here are those of NAT gateways, which give them back themselves.
func (s *Server) disassociate(r *request) (*answer, *failure) {
	id := r.text("AssociationId")
	if len(s.all("Addresses", func(t *thing) bool { return t.data["associationId"] == id })) > 0 {
		return nil, refuse(http.StatusBadRequest, "AuthFailure", "You do not have permission to access the specified resource.")
	}
	return nil, refuse(http.StatusBadRequest, "InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

func (s *Server) createNAT(r *request) (*answer, *failure) {
	subnet, failed := s.find("Subnets", r.text("SubnetId"))
	if failed != nil {
		return nil, failed
	}
	address, failed := s.find("Addresses", r.text("AllocationId"))
	if failed != nil {
		return nil, failed
	}
	if address.data["associationId"] != nil {
		return nil, refuse(http.StatusBadRequest, "Resource.AlreadyAssociated", "%s is in use", address.id)
	}
	association, enis := s.next("eipassoc"), s.next("eni")
	address.data["associationId"], address.data["networkInterfaceId"] = association, enis
	nat := s.newThing("NatGateways", r, tree{
		"state": "pending", "vpcId": subnet.data["vpcId"], "subnetId": subnet.id, "connectivityType": "public", "availabilityMode": "zonal", "createTime": s.stamp(),
		"natGatewayAddressSet": []any{tree{
			"allocationId": address.id, "publicIp": address.data["publicIp"], "privateIp": "10.0.0.5", "networkInterfaceId": enis, "associationId": association, "isPrimary": true, "status": "succeeded",
		}},
	})
	return &answer{tree: tree{"natGateway": s.view(nat)}}, nil
}

func (s *Server) stamp() string { return s.config.Now().UTC().Format(time.RFC3339) }

func (s *Server) deleteNAT(r *request) (*answer, *failure) {
	nat, failed := s.find("NatGateways", r.text("NatGatewayId"))
	if failed != nil {
		return nil, failed
	}
	nat.gone = s.config.Now()
	for _, id := range each("natGatewayAddressSet", "allocationId")(nat) {
		if address := s.things[id]; address != nil {
			delete(address.data, "associationId")
			delete(address.data, "networkInterfaceId")
		}
	}
	return &answer{tree: tree{"natGatewayId": nat.id}}, nil
}

func (s *Server) createEndpoint(r *request) (*answer, *failure) {
	vpc, failed := s.find("Vpcs", r.text("VpcId"))
	if failed != nil {
		return nil, failed
	}
	groups := []any{}
	for _, id := range texts(r.form, "SecurityGroupId") {
		groups = append(groups, tree{"groupId": id, "groupName": id})
	}
	policy := r.text("PolicyDocument")
	if policy == "" {
		policy = `{"Statement":[{"Action":"*","Effect":"Allow","Principal":"*","Resource":"*"}]}`
	}
	endpoint := s.newThing("VpcEndpoints", r, tree{
		"vpcId": vpc.id, "serviceName": r.text("ServiceName"), "vpcEndpointType": r.text("VpcEndpointType"), "state": "available", "policyDocument": policy,
		"routeTableIdSet": texts(r.form, "RouteTableId"), "subnetIdSet": texts(r.form, "SubnetId"), "groupSet": groups, "privateDnsEnabled": r.text("PrivateDnsEnabled") == "true",
		"requesterManaged": false, "networkInterfaceIdSet": []any{}, "dnsEntrySet": []any{}, "creationTimestamp": s.stamp(), "ownerId": s.config.Account, "ipAddressType": "ipv4",
	})
	return &answer{tree: tree{"vpcEndpoint": s.view(endpoint)}}, nil
}

func (s *Server) modifyEndpoint(r *request) (*answer, *failure) {
	endpoint, failed := s.find("VpcEndpoints", r.text("VpcEndpointId"))
	if failed != nil {
		return nil, failed
	}
	for kind, set := range map[string]string{"RouteTableId": "routeTableIdSet", "SubnetId": "subnetIdSet"} {
		ids, _ := endpoint.data[set].([]string)
		removed := texts(r.form, "Remove"+kind)
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(removed, id) })
		endpoint.data[set] = append(ids, texts(r.form, "Add"+kind)...)
	}
	return done, nil
}

func (s *Server) deleteEndpoints(r *request) (*answer, *failure) {
	for _, id := range texts(r.form, "VpcEndpointId") {
		if _, failed := s.find("VpcEndpoints", id); failed != nil {
			return nil, failed
		}
		s.remove(id)
	}
	return &answer{tree: tree{"unsuccessful": []any{}}}, nil
}

func (s *Server) createFlowLogs(r *request) (*answer, *failure) {
	var ids []string
	for _, id := range texts(r.form, "ResourceId") {
		interval := r.text("MaxAggregationInterval")
		flow := s.newThing("FlowLogs", r, tree{
			"flowLogStatus": "ACTIVE", "deliverLogsStatus": "SUCCESS", "resourceId": id, "trafficType": r.text("TrafficType"), "logDestinationType": "cloud-watch-logs",
			"logDestination": r.text("LogDestination"), "deliverLogsPermissionArn": r.text("DeliverLogsPermissionArn"), "maxAggregationInterval": interval, "creationTime": s.stamp(),
			"logFormat": "${version} ${account-id} ${interface-id} ${srcaddr} ${dstaddr} ${srcport} ${dstport} ${protocol} ${packets} ${bytes} ${start} ${end} ${action} ${log-status}",
		})
		ids = append(ids, flow.id)
	}
	return &answer{tree: tree{"flowLogIdSet": ids, "unsuccessful": []any{}}}, nil
}

func (s *Server) deleteFlowLogs(r *request) (*answer, *failure) {
	for _, id := range texts(r.form, "FlowLogId") {
		s.remove(id)
	}
	return &answer{tree: tree{"unsuccessful": []any{}}}, nil
}
