package gcp

import (
	"maps"
	"net/http"
	"strings"

	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// container answers for GKE: clusters, their node pools, and operations.
func (s *Server) container(r *request) (document, *failure) {
	parts := strings.Split(r.path, "/") // projects/p/locations/l/clusters/c/nodePools/n
	if len(parts) < 5 {
		return nil, nil
	}
	switch {
	case parts[4] == "operations" && r.Method == http.MethodGet && len(parts) == 6:
		return s.containerOperation(r, parts[5])
	case parts[4] == "serverConfig":
		return document{"defaultClusterVersion": "1.35.2-gke.1000000", "validMasterVersions": []any{"1.36.1-gke.1000000", "1.35.2-gke.1000000"}}, nil
	case parts[4] != "clusters":
		return nil, nil
	case len(parts) == 5 && r.Method == http.MethodPost:
		return s.createCluster(r)
	case len(parts) == 6:
		return s.cluster(r)
	case len(parts) == 7 && parts[6] == "nodePools" && r.Method == http.MethodPost:
		return s.createPool(r)
	case len(parts) == 7 && parts[6] == "nodePools" && r.Method == http.MethodGet:
		return document{"nodePools": s.poolsOf(strings.Join(parts[:6], "/"))}, nil
	case len(parts) == 8:
		return s.pool(r)
	}
	return nil, nil
}

func (s *Server) containerAnswer(r *request, target string, done func()) document {
	return s.describeContainerOperation(r, s.Begin(target, done))
}

func (s *Server) describeContainerOperation(r *request, o *ledger.Operation) document {
	parts := strings.Split(o.Target, "/")
	return document{"name": o.Name, "status": status(o), "operationType": "STUB", "zone": parts[3], "selfLink": "http://" + r.Host + "/container/v1/" + strings.Join(parts[:4], "/") + "/operations/" + o.Name, "targetLink": o.Target}
}

func (s *Server) containerOperation(r *request, name string) (document, *failure) {
	o := s.Operation(name)
	if o == nil {
		return nil, notFound(r.path)
	}
	return s.describeContainerOperation(r, o), nil
}

func (s *Server) createCluster(r *request) (document, *failure) {
	given, _ := r.body["cluster"].(document)
	name, _ := given["name"].(string)
	path := r.path + "/" + name
	if s.Resources[path] != nil {
		return nil, refuse(http.StatusConflict, "Already exists: %s.", path)
	}
	subnetwork, _ := given["subnetwork"].(string)
	if s.Resources[trimmed(subnetwork)] == nil {
		return nil, refuse(http.StatusBadRequest, "there is no subnetwork %s", subnetwork)
	}
	parts := strings.Split(r.path, "/")
	version, _ := given["initialClusterVersion"].(string)
	if strings.Count(version, ".") < 2 {
		version += ".2-gke.1000000"
	}
	cluster := maps.Clone(given)
	maps.Copy(cluster, document{
		"location": parts[3], "status": "PROVISIONING", "endpoint": s.config.Endpoint, "currentMasterVersion": version, "currentNodeVersion": version,
		"selfLink": "https://container.googleapis.com/v1/" + path, "id": "stub-" + name, "etag": "1", "locations": []any{parts[3] + "-b", parts[3] + "-c", parts[3] + "-d"},
		"clusterIpv4Cidr": "172.16.0.0/14", "servicesIpv4Cidr": "172.20.0.0/20", "loggingService": "logging.googleapis.com/kubernetes", "monitoringService": "monitoring.googleapis.com/kubernetes",
		"labelFingerprint": "c3R1Yg==",
	})
	network, _ := cluster["networkConfig"].(document)
	network = maps.Clone(network)
	if network == nil {
		network = document{}
	}
	network["network"], network["subnetwork"] = cluster["network"], subnetwork
	cluster["networkConfig"] = network
	auth, _ := cluster["masterAuth"].(document)
	auth = maps.Clone(auth)
	if auth == nil {
		auth = document{}
	}
	auth["clusterCaCertificate"] = s.config.CA
	cluster["masterAuth"] = auth
	if endpoints, ok := cluster["controlPlaneEndpointsConfig"].(document); ok {
		if dns, ok := endpoints["dnsEndpointConfig"].(document); ok {
			dns["endpoint"] = "gke-stub." + parts[3] + ".gke.goog"
		}
	}
	s.Make(path, cluster)
	pools, _ := cluster["nodePools"].([]any)
	for _, member := range pools {
		if pool, ok := member.(document); ok {
			s.addPool(path, pool, version)
		}
	}
	autopilot, _ := cluster["autopilot"].(document)
	if len(pools) == 0 && autopilot["enabled"] != true {
		s.addPool(path, document{"name": "default-pool", "initialNodeCount": cluster["initialNodeCount"], "config": cluster["nodeConfig"]}, version)
	}
	return s.containerAnswer(r, path, func() { cluster["status"] = "RUNNING" }), nil
}

func (s *Server) addPool(cluster string, pool document, version string) document {
	name, _ := pool["name"].(string)
	parts := strings.Split(cluster, "/")
	maps.Copy(pool, document{
		"status": "RUNNING", "selfLink": "https://container.googleapis.com/v1/" + cluster + "/nodePools/" + name, "version": version,
		"instanceGroupUrls": []any{}, "locations": []any{parts[3] + "-b", parts[3] + "-c", parts[3] + "-d"},
	})
	s.Resources[cluster+"/nodePools/"+name] = pool // only those that are asked for count as made, in createPool
	return pool
}

func (s *Server) poolsOf(cluster string) []any {
	pools := []any{}
	for path, resource := range s.Resources {
		if strings.HasPrefix(path, cluster+"/nodePools/") {
			pools = append(pools, resource)
		}
	}
	return pools
}

func (s *Server) cluster(r *request) (document, *failure) {
	cluster := s.Resources[r.path]
	if cluster == nil {
		return nil, notFound(r.path)
	}
	switch {
	case r.Method == http.MethodGet:
		view := maps.Clone(cluster)
		view["nodePools"] = s.poolsOf(r.path)
		return view, nil
	case r.Method == http.MethodDelete:
		return s.containerAnswer(r, r.path, func() {
			for path := range s.Resources {
				if path == r.path || strings.HasPrefix(path, r.path+"/nodePools/") {
					delete(s.Resources, path)
				}
			}
		}), nil
	case r.Method == http.MethodPut:
		update, _ := r.body["update"].(document)
		if name, _ := update["desiredNodePoolId"].(string); name != "" {
			pool := s.Resources[r.path+"/nodePools/"+name]
			if pool == nil {
				return nil, notFound(r.path + "/nodePools/" + name)
			}
			return s.containerAnswer(r, r.path, func() { pool["autoscaling"] = update["desiredNodePoolAutoscaling"] }), nil
		}
		return s.containerAnswer(r, r.path, func() { applyUpdate(cluster, update) }), nil
	case r.Method == http.MethodPost && r.verb == "setResourceLabels":
		return s.containerAnswer(r, r.path, func() { cluster["resourceLabels"] = r.body["resourceLabels"] }), nil
	}
	return nil, nil
}

// applyUpdate takes over what is desired: desiredReleaseChannel becomes releaseChannel.
func applyUpdate(cluster, update document) {
	for name, value := range update {
		field, desired := strings.CutPrefix(name, "desired")
		if !desired {
			continue
		}
		field = strings.ToLower(field[:1]) + field[1:]
		if field != "masterVersion" {
			cluster[field] = value
			continue
		}
		version, _ := value.(string)
		if strings.Count(version, ".") < 2 {
			version += ".1-gke.1000000"
		}
		cluster["currentMasterVersion"] = version
	}
}

func (s *Server) createPool(r *request) (document, *failure) {
	cluster := strings.TrimSuffix(r.path, "/nodePools")
	owner := s.Resources[cluster]
	if owner == nil {
		return nil, notFound(cluster)
	}
	pool, _ := r.body["nodePool"].(document)
	name, _ := pool["name"].(string)
	if s.Resources[r.path+"/"+name] != nil {
		return nil, refuse(http.StatusConflict, "Already exists: %s.", r.path+"/"+name)
	}
	version, _ := owner["currentMasterVersion"].(string)
	s.addPool(cluster, pool, version)
	s.CountMade("nodePools")
	pool["status"] = "PROVISIONING"
	return s.containerAnswer(r, r.path+"/"+name, func() { pool["status"] = "RUNNING" }), nil
}

func (s *Server) pool(r *request) (document, *failure) {
	pool := s.Resources[r.path]
	if pool == nil {
		return nil, notFound(r.path)
	}
	switch {
	case r.Method == http.MethodGet:
		return pool, nil
	case r.Method == http.MethodDelete:
		return s.containerAnswer(r, r.path, func() { delete(s.Resources, r.path) }), nil
	case r.Method == http.MethodPost && r.verb == "setAutoscaling":
		return s.containerAnswer(r, r.path, func() { pool["autoscaling"] = r.body["autoscaling"] }), nil
	case r.Method == http.MethodPost && r.verb == "setManagement":
		return s.containerAnswer(r, r.path, func() { pool["management"] = r.body["management"] }), nil
	case r.Method == http.MethodPut:
		return s.containerAnswer(r, r.path, func() {
			config, _ := pool["config"].(document)
			for name, value := range r.body {
				switch name {
				case "nodeVersion":
				case "upgradeSettings", "locations":
					pool[name] = value
				default:
					config[name] = value
				}
			}
		}), nil
	}
	return nil, nil
}
