package aws

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// absent is what S3 says of a setting that a bucket does not have; what is empty has an answer of its own.
var absent = map[string]string{
	"policy": "NoSuchBucketPolicy", "cors": "NoSuchCORSConfiguration", "website": "NoSuchWebsiteConfiguration", "lifecycle": "NoSuchLifecycleConfiguration",
	"replication": "ReplicationConfigurationNotFoundError", "encryption": "ServerSideEncryptionConfigurationNotFoundError", "object-lock": "ObjectLockConfigurationNotFoundError",
	"tagging": "NoSuchTagSet", "publicAccessBlock": "NoSuchPublicAccessBlockConfiguration", "ownershipControls": "OwnershipControlsNotFoundError",
}

// plainAnswers are the settings that every bucket has.
var plainAnswers = map[string]string{
	"versioning": "VersioningConfiguration", "accelerate": "AccelerateConfiguration", "logging": "BucketLoggingStatus", "requestPayment": "RequestPaymentConfiguration", "location": "LocationConstraint", "acl": "AccessControlPolicy",
}

// s3Actions are those of S3: a bucket, and its settings, which are kept as they come.
func (s *Server) s3Actions() map[string]func(*request) (*answer, *failure) {
	actions := map[string]func(*request) (*answer, *failure){
		"GET control/tags": s.bucketTags, "POST control/tags": s.tagBucket, "DELETE control/tags": s.untagBucket,
		"PUT bucket": s.createBucket, "HEAD bucket": s.headBucket, "DELETE bucket": s.deleteBucket, "GET bucket": s.listObjects,
	}
	for setting := range absent {
		s.settingActions(actions, setting)
	}
	for setting := range plainAnswers {
		s.settingActions(actions, setting)
	}
	return actions
}

func (s *Server) settingActions(actions map[string]func(*request) (*answer, *failure), setting string) {
	actions["GET bucket?"+setting] = func(r *request) (*answer, *failure) { return s.getSetting(r, setting) }
	actions["PUT bucket?"+setting] = func(r *request) (*answer, *failure) { return s.putSetting(r, setting) }
	actions["DELETE bucket?"+setting] = func(r *request) (*answer, *failure) { return s.deleteSetting(r, setting) }
}

func (s *Server) bucket(r *request) (*thing, *failure) {
	if t := s.things["arn:aws:s3:::"+r.path[0]]; t != nil {
		return t, nil
	}
	return nil, refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
}

func (s *Server) createBucket(r *request) (*answer, *failure) {
	if _, failed := s.bucket(r); failed == nil {
		return nil, refuse(http.StatusConflict, "BucketAlreadyOwnedByYou", "you own it already")
	}
	s.make("buckets", "arn:aws:s3:::"+r.path[0], tree{"name": r.path[0], "settings": map[string]string{}}, tagsInXML(r.body))
	return &answer{header: map[string]string{"Location": "/" + r.path[0]}}, nil
}

func (s *Server) headBucket(r *request) (*answer, *failure) {
	_, failed := s.bucket(r)
	return &answer{header: map[string]string{"X-Amz-Bucket-Region": s.config.Region}}, failed
}

func (s *Server) listObjects(r *request) (*answer, *failure) {
	_, failed := s.bucket(r)
	return &answer{root: "ListBucketResult", tree: tree{"Name": r.path[0], "KeyCount": 0, "MaxKeys": 1000, "IsTruncated": false}}, failed
}

func (s *Server) deleteBucket(r *request) (*answer, *failure) {
	t, failed := s.bucket(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(t.id)
	return &answer{status: http.StatusNoContent}, nil
}

func (s *Server) getSetting(r *request, setting string) (*answer, *failure) {
	t, failed := s.bucket(r)
	if failed != nil {
		return nil, failed
	}
	if kept, ok := t.data["settings"].(map[string]string)[setting]; ok {
		return raw(kept), nil
	}
	if code := absent[setting]; code != "" {
		return nil, refuse(http.StatusNotFound, code, "there is none")
	}
	reply := &answer{root: plainAnswers[setting], tree: tree{}}
	switch setting {
	case "requestPayment":
		reply.tree["Payer"] = "BucketOwner"
	case "acl":
		reply.tree["Owner"] = tree{"ID": "stub"}
		reply.tree["AccessControlList"] = tree{}
	case "location":
		return raw("<LocationConstraint>" + s.config.Region + "</LocationConstraint>"), nil
	}
	return reply, nil
}

// raw is a document as it was put.
func raw(document string) *answer { return &answer{raw: document} }

func (s *Server) putSetting(r *request, setting string) (*answer, *failure) {
	t, failed := s.bucket(r)
	if failed != nil {
		return nil, failed
	}
	t.data["settings"].(map[string]string)[setting] = strings.TrimSpace(string(r.body))
	return nil, nil
}

func (s *Server) deleteSetting(r *request, setting string) (*answer, *failure) {
	t, failed := s.bucket(r)
	if failed != nil {
		return nil, failed
	}
	delete(t.data["settings"].(map[string]string), setting)
	return &answer{status: http.StatusNoContent}, nil
}

// tagsInXML are the tags in a document of S3.
func tagsInXML(document []byte) map[string]string {
	var body struct {
		Tags []struct{ Key, Value string } `xml:"Tags>Tag"`
	}
	tags := map[string]string{}
	if len(document) == 0 || xml.Unmarshal(document, &body) != nil {
		return tags // of a document that has none
	}
	for _, tag := range body.Tags {
		tags[tag.Key] = tag.Value
	}
	return tags
}

func (s *Server) taggedBucket(r *request) (*thing, *failure) {
	if t := s.things[r.path[0]]; t != nil && t.kind == "buckets" {
		return t, nil
	}
	return nil, refuse(http.StatusNotFound, "NoSuchResource", "The specified resource does not exist.")
}

func (s *Server) bucketTags(r *request) (*answer, *failure) {
	t, failed := s.taggedBucket(r)
	if failed != nil {
		return nil, failed
	}
	tags := []any{}
	for _, key := range slices.Sorted(maps.Keys(t.tags)) {
		tags = append(tags, tree{"Key": key, "Value": t.tags[key]})
	}
	return &answer{root: "ListTagsForResourceResult", tree: tree{"Tags": tree{"Tag": tags}}}, nil
}

func (s *Server) tagBucket(r *request) (*answer, *failure) {
	t, failed := s.taggedBucket(r)
	if failed != nil {
		return nil, failed
	}
	maps.Copy(t.tags, tagsInXML(r.body))
	return &answer{status: http.StatusNoContent}, nil
}

func (s *Server) untagBucket(r *request) (*answer, *failure) {
	t, failed := s.taggedBucket(r)
	if failed != nil {
		return nil, failed
	}
	for _, key := range r.URL.Query()["tagKeys"] {
		delete(t.tags, key)
	}
	return &answer{status: http.StatusNoContent}, nil
}
