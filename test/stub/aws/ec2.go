package aws

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// shape is how EC2 describes a kind of thing: Describe<plural> takes <id>.N and puts out <set>.
type shape struct {
	prefix, id, set, notFound string
	// filters besides tag:<key>: the field that a filter looks at, or a function that finds its values.
	filters map[string]string
	values  map[string]func(*thing) []string
}

// first lowers the first letter: of VpcId it makes vpcId.
func first(name string) string { return strings.ToLower(name[:1]) + name[1:] }

var shapes = map[string]shape{
	"Vpcs":             {prefix: "vpc", id: "VpcId", set: "vpcSet", notFound: "InvalidVpcID.NotFound", filters: map[string]string{"vpc-id": "vpcId", "cidr": "cidrBlock"}},
	"Subnets":          {prefix: "subnet", id: "SubnetId", set: "subnetSet", notFound: "InvalidSubnetID.NotFound", filters: map[string]string{"vpc-id": "vpcId", "subnet-id": "subnetId"}},
	"InternetGateways": {prefix: "igw", id: "InternetGatewayId", set: "internetGatewaySet", notFound: "InvalidInternetGatewayID.NotFound", values: map[string]func(*thing) []string{"attachment.vpc-id": each("attachmentSet", "vpcId")}},
	"NatGateways":      {prefix: "nat", id: "NatGatewayId", set: "natGatewaySet", notFound: "NatGatewayNotFound", filters: map[string]string{"vpc-id": "vpcId", "subnet-id": "subnetId", "state": "state"}},
	"Addresses":        {prefix: "eipalloc", id: "AllocationId", set: "addressesSet", notFound: "InvalidAllocationID.NotFound", filters: map[string]string{"allocation-id": "allocationId", "association-id": "associationId", "domain": "domain"}},
	"RouteTables": {
		prefix: "rtb", id: "RouteTableId", set: "routeTableSet", notFound: "InvalidRouteTableID.NotFound", filters: map[string]string{"vpc-id": "vpcId", "route-table-id": "routeTableId"},
		values: map[string]func(*thing) []string{
			"association.main": each("associationSet", "main"), "association.route-table-association-id": each("associationSet", "routeTableAssociationId"),
			"association.subnet-id": each("associationSet", "subnetId"), "route.nat-gateway-id": each("routeSet", "natGatewayId"),
		},
	},
	"SecurityGroups":     {prefix: "sg", id: "GroupId", set: "securityGroupInfo", notFound: "InvalidGroup.NotFound", filters: map[string]string{"vpc-id": "vpcId", "group-name": "groupName", "group-id": "groupId"}},
	"SecurityGroupRules": {prefix: "sgr", id: "SecurityGroupRuleId", set: "securityGroupRuleSet", notFound: "InvalidSecurityGroupRuleId.NotFound", filters: map[string]string{"group-id": "groupId", "security-group-rule-id": "securityGroupRuleId"}},
	"NetworkAcls": {
		prefix: "acl", id: "NetworkAclId", set: "networkAclSet", notFound: "InvalidNetworkAclID.NotFound", filters: map[string]string{"vpc-id": "vpcId", "default": "default"},
		values: map[string]func(*thing) []string{"association.subnet-id": each("associationSet", "subnetId"), "association.association-id": each("associationSet", "networkAclAssociationId"), "entry.egress": each("entrySet", "egress"), "entry.rule-number": each("entrySet", "ruleNumber")},
	},
	"VpcEndpoints":      {prefix: "vpce", id: "VpcEndpointId", set: "vpcEndpointSet", notFound: "InvalidVpcEndpointId.NotFound", filters: map[string]string{"vpc-id": "vpcId", "service-name": "serviceName", "vpc-endpoint-id": "vpcEndpointId"}},
	"FlowLogs":          {prefix: "fl", id: "FlowLogId", set: "flowLogSet", filters: map[string]string{"resource-id": "resourceId"}},
	"LaunchTemplates":   {prefix: "lt", id: "LaunchTemplateId", set: "launchTemplates", notFound: "InvalidLaunchTemplateId.NotFound", filters: map[string]string{"launch-template-name": "launchTemplateName"}},
	"NetworkInterfaces": {prefix: "eni", id: "NetworkInterfaceId", set: "networkInterfaceSet", notFound: "InvalidNetworkInterfaceID.NotFound", filters: map[string]string{"vpc-id": "vpcId", "subnet-id": "subnetId", "group-id": "groupId", "attachment.instance-owner-id": "owner", "description": "description", "attachment.instance-id": "instance"}},
}

// each are the values of a field in all members of a list.
func each(listName, name string) func(*thing) []string {
	return func(t *thing) []string {
		var found []string
		members, _ := t.data[listName].([]any)
		for _, member := range members {
			if inner, ok := member.(tree); ok && inner[name] != nil {
				found = append(found, plain(inner[name]))
			}
		}
		return found
	}
}

func plain(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool:
		if value {
			return "true"
		}
		return "false"
	case int:
		return strconv.Itoa(value)
	}
	return ""
}

// ec2Actions are those of EC2: of each kind its Describe, and the others by name.
func (s *Server) ec2Actions() map[string]func(*request) (*answer, *failure) {
	actions := map[string]func(*request) (*answer, *failure){
		"CreateTags": s.createTags, "DeleteTags": s.deleteTags,
		"DescribeAccountAttributes": func(*request) (*answer, *failure) {
			return &answer{tree: tree{"accountAttributeSet": []any{tree{"attributeName": "supported-platforms", "attributeValueSet": []any{tree{"attributeValue": "VPC"}}}}}}, nil
		},
		"DescribeAddressesAttribute": func(*request) (*answer, *failure) { return &answer{tree: tree{"addressSet": []any{}}}, nil },
		"DescribePrefixLists":        s.describePrefixLists,
	}
	for plural := range shapes {
		actions["Describe"+plural] = func(r *request) (*answer, *failure) { return s.describe(plural, r) }
	}
	maps.Copy(actions, s.vpcActions())
	maps.Copy(actions, s.gatewayActions())
	maps.Copy(actions, s.securityActions())
	maps.Copy(actions, s.templateActions())
	return actions
}

// describe answers Describe<plural> with the things that have one of the IDs and pass all filters.
func (s *Server) describe(plural string, r *request) (*answer, *failure) {
	shape := shapes[plural]
	ids := texts(r.form, shape.id)
	for _, id := range ids {
		if s.things[id] == nil && shape.notFound != "" {
			return nil, refuse(http.StatusBadRequest, shape.notFound, "The ID '%s' does not exist", id)
		}
	}
	found := []any{}
	for _, t := range s.all(plural, nil) {
		if len(ids) > 0 && !slices.Contains(ids, t.id) {
			continue
		}
		passes, failed := s.passes(t, shape, r)
		if failed != nil {
			return nil, failed
		}
		if passes {
			found = append(found, s.view(t))
		}
	}
	return &answer{tree: tree{shape.set: found}}, nil
}

// view is a thing as it is described: with its tags, and the state that it has reached.
func (s *Server) view(t *thing) tree {
	data := maps.Clone(t.data)
	if _, ok := data["state"]; ok && t.kind == "NatGateways" {
		data["state"] = "available"
		if !s.ready(t) {
			data["state"] = "pending"
		}
		if !t.gone.IsZero() {
			data["state"] = "deleting"
		}
	}
	data["tagSet"] = tagSet(t.tags)
	delete(data, "attributes") // asked for by an action of their own
	delete(data, "versions")
	return data
}

// passes tells whether a thing passes the request's filters.
func (s *Server) passes(t *thing, shape shape, r *request) (bool, *failure) {
	filters := append(list(r.form, "Filter"), list(r.form, "Filters")...)
	for _, member := range filters {
		filter, _ := member.(tree)
		name, _ := filter["Name"].(string)
		wanted := texts(filter, "Value")
		var values []string
		switch {
		case strings.HasPrefix(name, "tag:"):
			if value, ok := t.tags[strings.TrimPrefix(name, "tag:")]; ok {
				values = []string{value}
			}
		case name == "tag-key":
			values = slices.Collect(maps.Keys(t.tags))
		case shape.values[name] != nil:
			values = shape.values[name](t)
		case shape.filters[name] != "":
			values = []string{plain(t.data[shape.filters[name]])}
		default:
			s.Missing("ec2:" + r.action + " filter " + name)
			return false, refuse(http.StatusBadRequest, "StubUnknownFilter", "the stub does not know the filter %s of %s", name, r.action)
		}
		if !slices.ContainsFunc(values, func(value string) bool { return slices.Contains(wanted, value) }) {
			return false, nil
		}
	}
	return true, nil
}

// find is a thing by its ID.
func (s *Server) find(plural, id string) (*thing, *failure) {
	if t := s.things[id]; t != nil && t.kind == plural {
		return t, nil
	}
	return nil, refuse(http.StatusBadRequest, shapes[plural].notFound, "The ID '%s' does not exist", id)
}

// inUse finds things that refer to another one.
func (s *Server) inUse(plural, name, id string, condition func(*thing) bool) *failure {
	for _, t := range s.all(plural, condition) {
		if t.data[name] == id {
			return refuse(http.StatusBadRequest, "DependencyViolation", "%s is used by %s", id, t.id)
		}
	}
	return nil
}

// newThing makes one of EC2's, with the tags that the request brings along.
func (s *Server) newThing(plural string, r *request, data tree) *thing {
	shape := shapes[plural]
	id := s.next(shape.prefix)
	tags := map[string]string{}
	for _, member := range list(r.form, "TagSpecification") {
		if specification, ok := member.(tree); ok {
			maps.Copy(tags, tagsOf(specification, "Tag"))
		}
	}
	data[first(shape.id)] = id
	return s.make(plural, id, data, tags)
}

func (s *Server) createTags(r *request) (*answer, *failure) {
	for _, id := range texts(r.form, "ResourceId") {
		t := s.things[id]
		if t == nil {
			return nil, refuse(http.StatusBadRequest, "InvalidID", "The ID '%s' is not valid", id)
		}
		maps.Copy(t.tags, tagsOf(r.form, "Tag"))
	}
	return &answer{tree: tree{"return": true}}, nil
}

func (s *Server) deleteTags(r *request) (*answer, *failure) {
	for _, id := range texts(r.form, "ResourceId") {
		if t := s.things[id]; t != nil {
			for key := range tagsOf(r.form, "Tag") {
				delete(t.tags, key)
			}
		}
	}
	return &answer{tree: tree{"return": true}}, nil
}

func (s *Server) describePrefixLists(r *request) (*answer, *failure) {
	return &answer{tree: tree{"prefixListSet": []any{
		tree{"prefixListId": "pl-6da54004", "prefixListName": "com.amazonaws." + s.config.Region + ".s3", "cidrSet": []any{"3.5.0.0/19"}},
	}}}, nil
}

var done = &answer{tree: tree{"return": true}}
