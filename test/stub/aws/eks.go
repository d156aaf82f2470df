package aws

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// eksActions are those of EKS, by method and path.
func (s *Server) eksActions() map[string]func(*request) (*answer, *failure) {
	actions := map[string]func(*request) (*answer, *failure){
		"POST clusters": s.createCluster, "GET clusters/*": s.describeCluster, "DELETE clusters/*": s.deleteCluster, "GET clusters": s.listClusters,
		"POST clusters/*/update-config": s.updateCluster, "POST clusters/*/updates": s.upgradeCluster, "GET clusters/*/updates/*": s.describeUpdate,
		"POST tags/*": s.tagEKS, "GET tags/*": s.listEKSTags, "DELETE tags/*": s.untagEKS,
	}
	maps.Copy(actions, s.nodeActions())
	maps.Copy(actions, s.accessActions())
	return actions
}

func notFound(format string, args ...any) *failure {
	return refuse(http.StatusNotFound, "ResourceNotFoundException", format, args...)
}

func (s *Server) cluster(name string) (*thing, *failure) {
	if t := s.things[s.arn("eks", "cluster/"+name)]; t != nil {
		return t, nil
	}
	return nil, notFound("No cluster found for name: %s.", name)
}

func tagsIn(body tree) map[string]string {
	tags := map[string]string{}
	given, _ := body["tags"].(tree)
	for key, value := range given {
		tags[key], _ = value.(string)
	}
	return tags
}

// status is how far a thing of EKS has come.
func (s *Server) status(t *thing) string {
	switch {
	case !t.gone.IsZero():
		return "DELETING"
	case !s.ready(t):
		return "CREATING"
	}
	return "ACTIVE"
}

func (s *Server) eksView(t *thing) tree {
	view := maps.Clone(t.data)
	view["status"] = s.status(t)
	view["tags"] = t.tags
	delete(view, "updates")
	return view
}

func (s *Server) createCluster(r *request) (*answer, *failure) {
	name, _ := r.json["name"].(string)
	if _, failed := s.cluster(name); failed == nil {
		return nil, refuse(http.StatusConflict, "ResourceInUseException", "Cluster already exists with name: %s", name)
	}
	if role, _ := r.json["roleArn"].(string); s.things[role] == nil {
		return nil, refuse(http.StatusBadRequest, "InvalidParameterException", "there is no role %s", role)
	}
	network, _ := r.json["resourcesVpcConfig"].(tree)
	vpc := ""
	for _, id := range subnetsIn(r.json) {
		subnet := s.things[id]
		if subnet == nil {
			return nil, refuse(http.StatusBadRequest, "InvalidParameterException", "there is no subnet %s", id)
		}
		vpc, _ = subnet.data["vpcId"].(string)
	}
	group := s.next("sg")
	settings := tree{
		"subnetIds": network["subnetIds"], "securityGroupIds": or(network["securityGroupIds"], []any{}), "vpcId": vpc, "clusterSecurityGroupId": group,
		"endpointPublicAccess": or(network["endpointPublicAccess"], true), "endpointPrivateAccess": or(network["endpointPrivateAccess"], false),
		"publicAccessCidrs": or(network["publicAccessCidrs"], []any{"0.0.0.0/0"}),
	}
	kubernetes, _ := r.json["kubernetesNetworkConfig"].(tree)
	kubernetes = maps.Clone(kubernetes)
	if kubernetes == nil {
		kubernetes = tree{}
	}
	kubernetes["ipFamily"] = or(kubernetes["ipFamily"], "ipv4")
	kubernetes["serviceIpv4Cidr"] = or(kubernetes["serviceIpv4Cidr"], "172.20.0.0/16")
	access, _ := r.json["accessConfig"].(tree)
	id := s.next("oidc")
	arn := s.arn("eks", "cluster/"+name)
	ca := s.config.CA
	if ca == "" {
		ca = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	}
	endpoint := s.config.Endpoint
	if endpoint == "" {
		endpoint = "https://" + strings.ToUpper(id) + ".gr7." + s.config.Region + ".eks.amazonaws.com"
	}
	t := s.make("clusters", arn, tree{
		"name": name, "arn": arn, "version": r.json["version"], "roleArn": r.json["roleArn"], "resourcesVpcConfig": settings, "kubernetesNetworkConfig": kubernetes,
		"logging": or(r.json["logging"], tree{"clusterLogging": []any{}}), "encryptionConfig": r.json["encryptionConfig"], "endpoint": endpoint, "platformVersion": "eks.1",
		"identity": tree{"oidc": tree{"issuer": "https://oidc.eks." + s.config.Region + ".amazonaws.com/id/" + strings.ToUpper(id)}}, "certificateAuthority": tree{"data": ca},
		"createdAt": float64(s.config.Now().Unix()), "accessConfig": tree{"authenticationMode": or(access["authenticationMode"], "CONFIG_MAP"), "bootstrapClusterCreatorAdminPermissions": access["bootstrapClusterCreatorAdminPermissions"]},
		"computeConfig": r.json["computeConfig"], "storageConfig": r.json["storageConfig"], "upgradePolicy": or(r.json["upgradePolicy"], tree{"supportType": "EXTENDED"}),
		"zonalShiftConfig": r.json["zonalShiftConfig"], "deletionProtection": or(r.json["deletionProtection"], false), "updates": tree{},
	}, tagsIn(r.json))
	return &answer{tree: tree{"cluster": s.eksView(t)}}, nil
}

func or(value, fallback any) any {
	if value == nil {
		return fallback
	}
	return value
}

// subnetsIn are the subnets that a cluster or node group names.
func subnetsIn(data tree) []string {
	settings := data
	if network, ok := data["resourcesVpcConfig"].(tree); ok {
		settings = network
	}
	key := "subnetIds"
	if settings[key] == nil {
		key = "subnets"
	}
	members, _ := settings[key].([]any)
	var ids []string
	for _, member := range members {
		if id, ok := member.(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *Server) describeCluster(r *request) (*answer, *failure) {
	t, failed := s.cluster(r.path[0])
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"cluster": s.eksView(t)}}, nil
}

func (s *Server) listClusters(*request) (*answer, *failure) {
	names := []any{}
	for _, t := range s.all("clusters", nil) {
		names = append(names, t.data["name"])
	}
	return &answer{tree: tree{"clusters": names}}, nil
}

func (s *Server) deleteCluster(r *request) (*answer, *failure) {
	t, failed := s.cluster(r.path[0])
	if failed != nil {
		return nil, failed
	}
	if t.data["deletionProtection"] == true {
		return nil, refuse(http.StatusBadRequest, "InvalidRequestException", "Cluster %s has deletion protection", r.path[0])
	}
	if groups := s.all("nodegroups", func(g *thing) bool { return g.data["clusterName"] == r.path[0] }); len(groups) > 0 {
		return nil, refuse(http.StatusConflict, "ResourceInUseException", "Cluster has nodegroups attached")
	}
	t.gone = s.config.Now()
	for _, kind := range []string{"addons", "access-entries", "pod-identity-associations"} { // which go with it
		for _, child := range s.all(kind, func(c *thing) bool { return c.data["clusterName"] == r.path[0] }) {
			s.remove(child.id)
		}
	}
	return &answer{tree: tree{"cluster": s.eksView(t)}}, nil
}

// updated notes an update, which has come to its end at once.
func (s *Server) updated(t *thing, kind string) tree {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", s.serial)
	s.serial++
	update := tree{"id": id, "status": "Successful", "type": kind, "params": []any{}, "errors": []any{}, "createdAt": float64(s.config.Now().Unix())}
	updates, _ := t.data["updates"].(tree)
	if updates == nil {
		updates = tree{}
		t.data["updates"] = updates
	}
	updates[id] = update
	return update
}

func (s *Server) updateCluster(r *request) (*answer, *failure) {
	t, failed := s.cluster(r.path[0])
	if failed != nil {
		return nil, failed
	}
	for _, name := range []string{"logging", "computeConfig", "storageConfig", "upgradePolicy", "zonalShiftConfig", "deletionProtection"} {
		if r.json[name] != nil {
			t.data[name] = r.json[name]
		}
	}
	for _, name := range []string{"resourcesVpcConfig", "kubernetesNetworkConfig", "accessConfig"} {
		if change, ok := r.json[name].(tree); ok {
			settings, _ := t.data[name].(tree)
			maps.Copy(settings, change)
		}
	}
	return &answer{tree: tree{"update": s.updated(t, "ConfigUpdate")}}, nil
}

func (s *Server) upgradeCluster(r *request) (*answer, *failure) {
	t, failed := s.cluster(r.path[0])
	if failed != nil {
		return nil, failed
	}
	t.data["version"] = r.json["version"]
	return &answer{tree: tree{"update": s.updated(t, "VersionUpdate")}}, nil
}

// describeUpdate finds an update of a cluster, or of one of its node groups or add-ons.
func (s *Server) describeUpdate(r *request) (*answer, *failure) {
	for _, t := range s.things {
		if updates, ok := t.data["updates"].(tree); ok && updates[r.path[1]] != nil {
			return &answer{tree: tree{"update": updates[r.path[1]]}}, nil
		}
	}
	return nil, notFound("there is no update %s", r.path[1])
}

func (s *Server) named(r *request) (*thing, *failure) {
	if t := s.things[r.path[0]]; t != nil {
		return t, nil
	}
	return nil, notFound("there is no %s", r.path[0])
}

func (s *Server) tagEKS(r *request) (*answer, *failure) {
	t, failed := s.named(r)
	if failed != nil {
		return nil, failed
	}
	maps.Copy(t.tags, tagsIn(r.json))
	return nil, nil
}

func (s *Server) untagEKS(r *request) (*answer, *failure) {
	t, failed := s.named(r)
	if failed != nil {
		return nil, failed
	}
	for _, key := range r.URL.Query()["tagKeys"] {
		delete(t.tags, key)
	}
	return nil, nil
}

func (s *Server) listEKSTags(r *request) (*answer, *failure) {
	t, failed := s.named(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"tags": t.tags}}, nil
}
