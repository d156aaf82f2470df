package gcp

import (
	"maps"
	"net/http"
	"strings"
)

// iam answers for service accounts.
func (s *Server) iam(r *request) (document, *failure) {
	if strings.HasSuffix(r.path, "/serviceAccounts") && r.Method == http.MethodPost {
		id, _ := r.body["accountId"].(string)
		email := id + "@" + s.config.Project + ".iam.gserviceaccount.com"
		path := r.path + "/" + email
		if s.Resources[path] != nil {
			return nil, refuse(http.StatusConflict, "Service account %s already exists within project", id)
		}
		given, _ := r.body["serviceAccount"].(document)
		account := maps.Clone(given)
		if account == nil {
			account = document{}
		}
		maps.Copy(account, document{"name": path, "email": email, "projectId": s.config.Project, "uniqueId": "100000000000000000001", "oauth2ClientId": "1", "etag": "1"})
		s.Make(path, account)
		return account, nil
	}
	account := s.Resources[strings.Replace(r.path, "projects/-/", "projects/"+s.config.Project+"/", 1)]
	if !strings.Contains(r.path, "/serviceAccounts/") || r.verb != "" {
		return nil, nil
	}
	if account == nil {
		return nil, notFound(r.path)
	}
	switch r.Method {
	case http.MethodGet:
		return account, nil
	case http.MethodDelete:
		delete(s.Resources, r.path)
		return document{}, nil
	case http.MethodPatch:
		given, _ := r.body["serviceAccount"].(document)
		maps.Copy(account, given)
		return account, nil
	}
	return nil, nil
}

// resourceManager answers for projects and their policies.
func (s *Server) resourceManager(r *request) (document, *failure) {
	switch {
	case r.verb == "getIamPolicy":
		return s.policy("project"), nil
	case r.verb == "setIamPolicy":
		policy, _ := r.body["policy"].(document)
		s.policies["project"] = policy
		return policy, nil
	case r.verb == "testIamPermissions":
		granted := []any{}
		asked, _ := r.body["permissions"].([]any)
		for _, permission := range asked {
			if name, _ := permission.(string); !s.Denied(name) {
				granted = append(granted, permission)
			}
		}
		return document{"permissions": granted}, nil
	case r.verb == "" && r.Method == http.MethodGet:
		return document{"projectId": s.config.Project, "projectNumber": "42", "name": "projects/42", "lifecycleState": "ACTIVE", "state": "ACTIVE"}, nil
	}
	return nil, nil
}

func (s *Server) policy(of string) document {
	if policy := s.policies[of]; policy != nil {
		return policy
	}
	return document{"version": 1, "etag": "BwX=", "bindings": []any{}}
}

// storage answers for buckets.
func (s *Server) storage(r *request) (document, *failure) {
	if r.path == "b" && r.Method == http.MethodPost {
		name, _ := r.body["name"].(string)
		path := "b/" + name
		if s.Resources[path] != nil {
			return nil, refuse(http.StatusConflict, "Your previous request to create the named bucket succeeded and you already own it.")
		}
		bucket := maps.Clone(r.body)
		maps.Copy(bucket, document{
			"kind": "storage#bucket", "id": name, "selfLink": "https://www.googleapis.com/storage/v1/" + path, "projectNumber": "42", "timeCreated": s.config.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"updated": s.config.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "metageneration": "1", "etag": "CAE=",
		})
		if bucket["storageClass"] == nil {
			bucket["storageClass"] = "STANDARD"
		}
		s.Make(path, bucket)
		return bucket, nil
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.path, "b/"), "/")
	bucket := s.Resources["b/"+name]
	if bucket == nil {
		return nil, notFound(r.path)
	}
	switch {
	case rest == "iam" && r.Method == http.MethodGet:
		return s.policy("b/" + name), nil
	case rest == "iam" && r.Method == http.MethodPut:
		s.policies["b/"+name] = r.body
		return r.body, nil
	case (rest == "o" || rest == "anywhereCaches") && r.Method == http.MethodGet:
		return document{"kind": "storage#objects", "items": []any{}}, nil
	case rest == "" && r.Method == http.MethodGet:
		return bucket, nil
	case rest == "" && (r.Method == http.MethodPatch || r.Method == http.MethodPut):
		maps.Copy(bucket, r.body)
		return bucket, nil
	case rest == "" && r.Method == http.MethodDelete:
		delete(s.Resources, "b/"+name)
		delete(s.policies, "b/"+name)
		return document{}, nil
	}
	return nil, nil
}
