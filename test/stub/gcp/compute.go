package gcp

import (
	"maps"
	"net/http"
	"strings"

	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// collections of Compute Engine that the stub has.
var collections = map[string]string{"networks": "compute#network", "subnetworks": "compute#subnetwork", "routers": "compute#router", "firewalls": "compute#firewall"}

// compute answers for Compute Engine: collections of resources, all alike, and operations.
func (s *Server) compute(r *request) (document, *failure) {
	parts := strings.Split(r.path, "/")
	last := parts[len(parts)-1]
	switch {
	case len(parts) == 2 && parts[0] == "projects" && r.Method == http.MethodGet:
		return document{"kind": "compute#project", "id": "42", "name": s.config.Project}, nil
	case len(parts) > 1 && parts[len(parts)-2] == "operations" && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		return s.computeOperation(r, last)
	case len(parts) > 2 && parts[len(parts)-3] == "operations" && last == "wait":
		return s.computeOperation(r, parts[len(parts)-2])
	case collections[last] != "" && r.Method == http.MethodPost:
		return s.insert(r, last)
	case collections[last] != "" && r.Method == http.MethodGet:
		return s.listResources(r), nil
	case len(parts) > 1 && collections[parts[len(parts)-2]] != "":
		return s.computeResource(r)
	case len(parts) > 2 && collections[parts[len(parts)-3]] != "" && r.Method == http.MethodPost: // an action such as setPrivateIpGoogleAccess
		path := strings.TrimSuffix(r.path, "/"+last)
		resource := s.Resources[path]
		if resource == nil {
			return nil, notFound(path)
		}
		return s.computeAnswer(r, path, func() { maps.Copy(resource, r.body) }), nil
	}
	return nil, nil
}

func (s *Server) link(r *request, path string) string {
	return "http://" + r.Host + "/compute/v1/" + path
}

func (s *Server) computeAnswer(r *request, target string, done func()) document {
	begun := s.Begin(target, done)
	at := strings.Join(strings.Split(target, "/")[:3], "/") // projects/p/global
	if strings.Contains(target, "/regions/") {
		at = strings.Join(strings.Split(target, "/")[:4], "/")
	}
	return s.describeOperation(r, at, begun)
}

func (s *Server) describeOperation(r *request, at string, o *ledger.Operation) document {
	return document{
		"kind": "compute#operation", "id": o.Name, "name": o.Name, "status": status(o), "progress": 100, "targetLink": s.link(r, o.Target),
		"selfLink": s.link(r, at+"/operations/"+o.Name), "operationType": "stub",
	}
}

// status is how far an operation has come, in Google's words.
func status(o *ledger.Operation) string {
	if o.Done() {
		return "DONE"
	}
	return "RUNNING"
}

func (s *Server) computeOperation(r *request, name string) (document, *failure) {
	o := s.Operation(name)
	if o == nil {
		return nil, notFound(r.path)
	}
	at, _, _ := strings.Cut(r.path, "/operations/")
	return s.describeOperation(r, at, o), nil
}

func (s *Server) insert(r *request, collection string) (document, *failure) {
	name, _ := r.body["name"].(string)
	path := r.path + "/" + name
	if s.Resources[path] != nil {
		return nil, refuse(http.StatusConflict, "The resource '%s' already exists", path)
	}
	if network, _ := r.body["network"].(string); network != "" {
		if s.Resources[trimmed(network)] == nil {
			return nil, refuse(http.StatusBadRequest, "The resource '%s' was not found", network)
		}
		r.body["network"] = s.link(r, trimmed(network))
	}
	resource := maps.Clone(r.body)
	maps.Copy(resource, document{"kind": collections[collection], "id": "1", "selfLink": s.link(r, path), "creationTimestamp": s.config.Now().UTC().Format("2006-01-02T15:04:05.000-07:00"), "fingerprint": "c3R1Yg=="})
	switch collection {
	case "subnetworks":
		resource["gatewayAddress"] = "10.0.0.1"
		resource["purpose"] = "PRIVATE"
		resource["stackType"] = "IPV4_ONLY"
		resource["region"] = s.link(r, strings.TrimSuffix(r.path, "/subnetworks"))
	case "routers":
		resource["region"] = s.link(r, strings.TrimSuffix(r.path, "/routers"))
	}
	return s.computeAnswer(r, path, func() { s.Make(path, resource) }), nil
}

// trimmed is the path in a link.
func trimmed(link string) string {
	if at := strings.Index(link, "projects/"); at >= 0 {
		return link[at:]
	}
	return link
}

func (s *Server) listResources(r *request) document {
	items := []any{}
	for path, resource := range s.Resources {
		if strings.HasPrefix(path, r.path+"/") {
			items = append(items, resource)
		}
	}
	return document{"items": items}
}

func (s *Server) computeResource(r *request) (document, *failure) {
	resource := s.Resources[r.path]
	if resource == nil {
		return nil, notFound(r.path)
	}
	switch r.Method {
	case http.MethodGet:
		return resource, nil
	case http.MethodPatch, http.MethodPut:
		return s.computeAnswer(r, r.path, func() { maps.Copy(resource, r.body) }), nil
	case http.MethodDelete:
		for kind, field := range map[string]string{"subnetworks": "network", "routers": "network", "firewalls": "network", "clusters": ledger.KindOf(r.path)[:len(ledger.KindOf(r.path))-1]} {
			if users := s.users(kind, field, r.path); len(users) > 0 {
				return nil, refuse(http.StatusBadRequest, "The %s resource is already being used by '%s'", r.path, users[0])
			}
		}
		return s.computeAnswer(r, r.path, func() { delete(s.Resources, r.path) }), nil
	}
	return nil, nil
}
