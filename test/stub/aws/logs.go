package aws

import (
	"maps"
	"net/http"
	"strings"
)

// logsActions are those of CloudWatch Logs.
func (s *Server) logsActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateLogGroup": s.createLogGroup, "DescribeLogGroups": s.describeLogGroups, "PutRetentionPolicy": s.retainLogs, "DeleteRetentionPolicy": s.retainLogs, "DeleteLogGroup": s.deleteLogGroup,
		"ListTagsForResource": s.logTags, "TagResource": s.tagLogs, "UntagResource": s.untagLogs,
	}
}

func (s *Server) logGroup(name string) (*thing, *failure) {
	if t := s.things[s.arn("logs", "log-group:"+name)]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusBadRequest, "ResourceNotFoundException", "The specified log group does not exist.")
}

func (s *Server) createLogGroup(r *request) (*answer, *failure) {
	name, _ := r.json["logGroupName"].(string)
	arn := s.arn("logs", "log-group:"+name)
	if s.things[arn] != nil {
		return nil, refuse(http.StatusBadRequest, "ResourceAlreadyExistsException", "The specified log group already exists")
	}
	s.make("log-groups", arn, tree{"logGroupName": name, "arn": arn + ":*", "logGroupArn": arn, "creationTime": s.config.Now().UnixMilli(), "storedBytes": 0, "metricFilterCount": 0, "logGroupClass": "STANDARD"}, tagsIn(r.json))
	return nil, nil
}

func (s *Server) describeLogGroups(r *request) (*answer, *failure) {
	prefix, _ := r.json["logGroupNamePrefix"].(string)
	found := []any{}
	for _, t := range s.all("log-groups", func(t *thing) bool { return strings.HasPrefix(plain(t.data["logGroupName"]), prefix) }) {
		found = append(found, t.data)
	}
	return &answer{tree: tree{"logGroups": found}}, nil
}

func (s *Server) retainLogs(r *request) (*answer, *failure) {
	t, failed := s.logGroup(plain(r.json["logGroupName"]))
	if failed != nil {
		return nil, failed
	}
	t.data["retentionInDays"] = r.json["retentionInDays"]
	return nil, nil
}

func (s *Server) deleteLogGroup(r *request) (*answer, *failure) {
	t, failed := s.logGroup(plain(r.json["logGroupName"]))
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return nil, nil
}

func (s *Server) loggedResource(r *request) (*thing, *failure) {
	arn := strings.TrimSuffix(plain(r.json["resourceArn"]), ":*")
	if t := s.things[arn]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusBadRequest, "ResourceNotFoundException", "there is no %s", arn)
}

func (s *Server) logTags(r *request) (*answer, *failure) {
	t, failed := s.loggedResource(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"tags": t.tags}}, nil
}

func (s *Server) tagLogs(r *request) (*answer, *failure) {
	t, failed := s.loggedResource(r)
	if failed != nil {
		return nil, failed
	}
	maps.Copy(t.tags, tagsIn(r.json))
	return nil, nil
}

func (s *Server) untagLogs(r *request) (*answer, *failure) {
	t, failed := s.loggedResource(r)
	if failed != nil {
		return nil, failed
	}
	keys, _ := r.json["tagKeys"].([]any)
	for _, key := range keys {
		delete(t.tags, plain(key))
	}
	return nil, nil
}
