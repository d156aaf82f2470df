package aws

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// kmsActions are those of KMS.
func (s *Server) kmsActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateKey": s.createKey, "DescribeKey": s.describeKey, "ScheduleKeyDeletion": s.deleteKey, "GetKeyPolicy": s.keyPolicy,
		"GetKeyRotationStatus": s.keyRotation, "EnableKeyRotation": s.rotateKey, "ListResourceTags": s.keyTags, "TagResource": s.tagKey, "UntagResource": s.untagKey,
		"CreateAlias": s.createAlias, "ListAliases": s.listAliases, "DeleteAlias": s.deleteAlias,
	}
}

func (s *Server) key(r *request) (*thing, *failure) {
	id, _ := r.json["KeyId"].(string)
	id = id[strings.LastIndex(id, "/")+1:]
	if t := s.things[s.arn("kms", "key/"+id)]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusBadRequest, "NotFoundException", "Key '%s' does not exist", id)
}

// keyTags reads tags as KMS writes them.
func tagList(body tree, name, key, value string) map[string]string {
	tags := map[string]string{}
	members, _ := body[name].([]any)
	for _, member := range members {
		tag, _ := member.(tree)
		k, _ := tag[key].(string)
		tags[k], _ = tag[value].(string)
	}
	return tags
}

func (s *Server) createKey(r *request) (*answer, *failure) {
	s.serial++
	id := fmt.Sprintf("00000000-0000-4000-9000-%012d", s.serial)
	arn := s.arn("kms", "key/"+id)
	t := s.make("keys", arn, tree{
		"KeyId": id, "Arn": arn, "AWSAccountId": s.config.Account, "Description": or(r.json["Description"], ""), "Enabled": true, "KeyState": "Enabled", "KeyManager": "CUSTOMER", "Origin": "AWS_KMS",
		"KeyUsage": "ENCRYPT_DECRYPT", "CustomerMasterKeySpec": "SYMMETRIC_DEFAULT", "KeySpec": "SYMMETRIC_DEFAULT", "EncryptionAlgorithms": []any{"SYMMETRIC_DEFAULT"}, "MultiRegion": false,
		"CreationDate": float64(s.config.Now().Unix()), "rotation": false,
		"policy": or(r.json["Policy"], `{"Version":"2012-10-17","Id":"key-default-1","Statement":[{"Sid":"Enable IAM User Permissions","Effect":"Allow","Principal":{"AWS":"`+s.arn("iam", "root")+`"},"Action":"kms:*","Resource":"*"}]}`),
	}, tagList(r.json, "Tags", "TagKey", "TagValue"))
	return &answer{tree: tree{"KeyMetadata": keyView(t)}}, nil
}

func keyView(t *thing) tree {
	view := maps.Clone(t.data)
	delete(view, "rotation")
	delete(view, "policy")
	return view
}

func (s *Server) describeKey(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"KeyMetadata": keyView(t)}}, nil
}

// deleteKey takes the key away at once; AWS keeps it for some weeks, in which nobody can use it.
func (s *Server) deleteKey(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return &answer{tree: tree{"KeyId": t.data["KeyId"], "KeyState": "PendingDeletion"}}, nil
}

func (s *Server) keyPolicy(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"Policy": t.data["policy"], "PolicyName": "default"}}, nil
}

func (s *Server) keyRotation(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	return &answer{tree: tree{"KeyRotationEnabled": t.data["rotation"], "RotationPeriodInDays": 365}}, nil
}

func (s *Server) rotateKey(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	t.data["rotation"] = true
	return nil, nil
}

func (s *Server) keyTags(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	set := []any{}
	for _, key := range slices.Sorted(maps.Keys(t.tags)) {
		set = append(set, tree{"TagKey": key, "TagValue": t.tags[key]})
	}
	return &answer{tree: tree{"Tags": set, "Truncated": false}}, nil
}

func (s *Server) tagKey(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	maps.Copy(t.tags, tagList(r.json, "Tags", "TagKey", "TagValue"))
	return nil, nil
}

func (s *Server) untagKey(r *request) (*answer, *failure) {
	t, failed := s.key(r)
	if failed != nil {
		return nil, failed
	}
	keys, _ := r.json["TagKeys"].([]any)
	for _, key := range keys {
		name, _ := key.(string)
		delete(t.tags, name)
	}
	return nil, nil
}

func (s *Server) createAlias(r *request) (*answer, *failure) {
	name, _ := r.json["AliasName"].(string)
	target, _ := r.json["TargetKeyId"].(string)
	arn := s.arn("kms", name)
	if s.things[arn] != nil {
		return nil, refuse(http.StatusBadRequest, "AlreadyExistsException", "An alias with the name %s already exists", name)
	}
	s.make("aliases", arn, tree{"AliasName": name, "AliasArn": arn, "TargetKeyId": target[strings.LastIndex(target, "/")+1:]}, nil)
	return nil, nil
}

func (s *Server) listAliases(*request) (*answer, *failure) {
	found := []any{}
	for _, t := range s.all("aliases", nil) {
		found = append(found, t.data)
	}
	return &answer{tree: tree{"Aliases": found, "Truncated": false}}, nil
}

func (s *Server) deleteAlias(r *request) (*answer, *failure) {
	name, _ := r.json["AliasName"].(string)
	if s.things[s.arn("kms", name)] == nil {
		return nil, refuse(http.StatusBadRequest, "NotFoundException", "Alias %s is not found", name)
	}
	s.remove(s.arn("kms", name))
	return nil, nil
}
