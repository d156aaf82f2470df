package aws

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// sqsActions are those of SQS.
func (s *Server) sqsActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateQueue": s.createQueue, "GetQueueAttributes": s.queueAttributes, "SetQueueAttributes": s.setQueueAttributes, "DeleteQueue": s.deleteQueue,
		"ListQueueTags": s.queueTags, "TagQueue": s.tagQueue,
	}
}

func (s *Server) queue(r *request) (*thing, *failure) {
	url := plain(r.json["QueueUrl"])
	if t := s.things[s.arn("sqs", url[strings.LastIndex(url, "/")+1:])]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusBadRequest, "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
}

func (s *Server) createQueue(r *request) (*answer, *failure) {
	name := plain(r.json["QueueName"])
	arn := s.arn("sqs", name)
	attributes := tree{
		"QueueArn": arn, "VisibilityTimeout": "30", "MaximumMessageSize": "262144", "MessageRetentionPeriod": "345600", "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0",
		"SqsManagedSseEnabled": "true", "CreatedTimestamp": "1700000000", "LastModifiedTimestamp": "1700000000",
	}
	given, _ := r.json["Attributes"].(tree)
	maps.Copy(attributes, given)
	if s.things[arn] == nil { // the same queue is made once, however often
		s.make("queues", arn, tree{"attributes": attributes}, tagsIn(r.json))
	}
	return &answer{tree: tree{"QueueUrl": "https://sqs." + s.config.Region + ".amazonaws.com/" + s.config.Account + "/" + name}}, nil
}

func (s *Server) queueAttributes(r *request) (*answer, *failure) {
	t, failed := s.queue(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"Attributes": t.data["attributes"]}}, nil
}

func (s *Server) setQueueAttributes(r *request) (*answer, *failure) {
	t, failed := s.queue(r)
	if failed != nil {
		return nil, failed
	}
	given, _ := r.json["Attributes"].(tree)
	attributes, _ := t.data["attributes"].(tree)
	maps.Copy(attributes, given)
	if attributes["Policy"] == "" {
		delete(attributes, "Policy")
	}
	return nil, nil
}

func (s *Server) deleteQueue(r *request) (*answer, *failure) {
	t, failed := s.queue(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return nil, nil
}

func (s *Server) queueTags(r *request) (*answer, *failure) {
	t, failed := s.queue(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"Tags": t.tags}}, nil
}

func (s *Server) tagQueue(r *request) (*answer, *failure) {
	t, failed := s.queue(r)
	if failed != nil {
		return nil, failed
	}
	given, _ := r.json["Tags"].(tree)
	for key, value := range given {
		t.tags[key] = plain(value)
	}
	return nil, nil
}

// eventsActions are those of EventBridge.
func (s *Server) eventsActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"PutRule": s.putRule, "DescribeRule": s.describeRule, "DeleteRule": s.deleteRule, "ListTagsForResource": s.ruleTags, "TagResource": s.tagRule,
		"PutTargets": s.putTargets, "ListTargetsByRule": s.listTargets, "RemoveTargets": s.removeTargets,
	}
}

func (s *Server) rule(name string) (*thing, *failure) {
	if t := s.things[s.arn("events", "rule/"+name)]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusBadRequest, "ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

func (s *Server) putRule(r *request) (*answer, *failure) {
	name := plain(r.json["Name"])
	t, failed := s.rule(name)
	if failed != nil {
		t = s.make("rules", s.arn("events", "rule/"+name), tree{"targets": []any{}}, tagList(r.json, "Tags", "Key", "Value"))
	}
	maps.Copy(t.data, tree{"Name": name, "Arn": t.id, "EventPattern": r.json["EventPattern"], "State": or(r.json["State"], "ENABLED"), "EventBusName": "default"})
	return &answer{tree: tree{"RuleArn": t.id}}, nil
}

func (s *Server) describeRule(r *request) (*answer, *failure) {
	t, failed := s.rule(plain(r.json["Name"]))
	if failed != nil {
		return nil, failed
	}
	view := maps.Clone(t.data)
	delete(view, "targets")
	return &answer{tree: view}, nil
}

func (s *Server) deleteRule(r *request) (*answer, *failure) {
	t, failed := s.rule(plain(r.json["Name"]))
	if failed != nil {
		return nil, failed
	}
	if targets, _ := t.data["targets"].([]any); len(targets) > 0 {
		return nil, refuse(http.StatusBadRequest, "ValidationException", "Rule can't be deleted since it has targets.")
	}
	s.remove(t.id)
	return nil, nil
}

func (s *Server) ruleTags(r *request) (*answer, *failure) {
	t := s.things[plain(r.json["ResourceARN"])]
	if t == nil {
		return nil, refuse(http.StatusBadRequest, "ResourceNotFoundException", "there is no such rule")
	}
	return &answer{tree: tree{"Tags": iamTags(t.tags)}}, nil
}

func (s *Server) tagRule(r *request) (*answer, *failure) {
	if t := s.things[plain(r.json["ResourceARN"])]; t != nil {
		maps.Copy(t.tags, tagList(r.json, "Tags", "Key", "Value"))
	}
	return nil, nil
}

func (s *Server) putTargets(r *request) (*answer, *failure) {
	t, failed := s.rule(plain(r.json["Rule"]))
	if failed != nil {
		return nil, failed
	}
	targets, _ := r.json["Targets"].([]any)
	kept := t.data["targets"]
	for _, target := range targets {
		one, _ := target.(tree)
		kept = append(without(kept, "Id", plain(one["Id"])), target)
	}
	t.data["targets"] = kept
	return &answer{tree: tree{"FailedEntryCount": 0, "FailedEntries": []any{}}}, nil
}

func (s *Server) listTargets(r *request) (*answer, *failure) {
	t, failed := s.rule(plain(r.json["Rule"]))
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"Targets": t.data["targets"]}}, nil
}

func (s *Server) removeTargets(r *request) (*answer, *failure) {
	t, failed := s.rule(plain(r.json["Rule"]))
	if failed != nil {
		return nil, failed
	}
	ids, _ := r.json["Ids"].([]any)
	targets, _ := t.data["targets"].([]any)
	t.data["targets"] = slices.DeleteFunc(slices.Clone(targets), func(target any) bool {
		one, _ := target.(tree)
		return slices.Contains(ids, one["Id"])
	})
	return &answer{tree: tree{"FailedEntryCount": 0, "FailedEntries": []any{}}}, nil
}
