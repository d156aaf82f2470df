// Package aws is a stub of AWS: as much of EC2, EKS, IAM, STS, KMS, CloudWatch Logs, S3, SQS and EventBridge as the
// configurations below /terraform/aws use, in memory. It keeps what it is told, takes its time to make what takes time
// there, refuses what AWS refuses (deleting what is in use, above all), and counts. A request that it does not know is
// an error, and remembered, so that a test cannot pass by way of one. It is no emulator: nothing works but the records.
package aws

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// Config is how the stub behaves.
type Config struct {
	Account  string        // 123456789012 if empty
	Region   string        // eu-west-1 if empty
	Delay    time.Duration // that clusters, node groups, add-ons and NAT gateways take to be made and unmade
	Endpoint string        // of all clusters' APIs
	CA       string        // of the endpoint, PEM in base64
	Secret   string        // that signatures of presigned requests are checked with; they are not if empty
	Now      func() time.Time
}

// Server is the stub. It is an http.Handler for all services at once: requests say which one they are for.
type Server struct {
	ledger.Journal
	config Config
	serial int
	things map[string]*thing // by ID or ARN
	order  []string
}

// thing is anything that exists.
type thing struct {
	kind string
	id   string
	data tree
	tags map[string]string
	born time.Time // and ready a delay later
	gone time.Time // when its deletion began
}

// tree is a document: of texts, numbers, truths, lists and further trees.
type tree = map[string]any

// New makes an empty account.
func New(config Config) *Server {
	if config.Account == "" {
		config.Account = "123456789012"
	}
	if config.Region == "" {
		config.Region = "eu-west-1"
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Server{config: config, things: map[string]*thing{}}
}

// Inventory counts what exists, by kind, without what AWS makes along with a VPC.
func (s *Server) Inventory() map[string]int {
	s.Lock()
	defer s.Unlock()
	s.sweep()
	counts := map[string]int{}
	for _, t := range s.things {
		if !byDefault(t.data) {
			counts[t.kind]++
		}
	}
	return counts
}

// byDefault tells whether AWS makes a thing along with a VPC.
func byDefault(data tree) bool { return data["default"] == true || data["isDefault"] == true }

// Names of all things of a kind that has some, the oldest first.
func (s *Server) Names(kind string) []string {
	s.Lock()
	defer s.Unlock()
	var names []string
	for _, t := range s.all(kind, nil) {
		if name, ok := t.data["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// Change alters something behind everybody's back: drift.
func (s *Server) Change(kind string, change func(data map[string]any, tags map[string]string)) int {
	s.Lock()
	defer s.Unlock()
	changed := 0
	for _, id := range s.order {
		if t := s.things[id]; t != nil && t.kind == kind && t.gone.IsZero() {
			change(t.data, t.tags)
			changed++
		}
	}
	return changed
}

// failure is an answer of AWS that says no.
type failure struct {
	status  int
	code    string
	message string
}

func (f *failure) Error() string { return f.code + ": " + f.message }

func refuse(status int, code, format string, args ...any) *failure {
	return &failure{status, code, fmt.Sprintf(format, args...)}
}

// request is one for an action of a service.
type request struct {
	*http.Request
	service, action string
	body            []byte
	form            tree // of the query protocol
	json            tree // of the others
	path            []string
}

// answer is what goes back: a tree for XML and JSON, or raw bytes.
type answer struct {
	status int
	tree   tree
	root   string // the XML document's, where it is not the action's usual one
	raw    string // instead of a tree
	header map[string]string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	req, err := parse(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.Count(req.service + ":" + req.action)
	s.sweep()
	reply, failed := s.answer(req)
	if failed != nil {
		s.writeFailure(w, req, failed)
		return
	}
	s.write(w, req, reply)
}

// answer looks for faults, and for who knows the action.
func (s *Server) answer(r *request) (*answer, *failure) {
	if s.Revoked() {
		return nil, refuse(http.StatusForbidden, map[string]string{"ec2": "AuthFailure", "iam": "InvalidClientTokenId", "sts": "InvalidClientTokenId", "s3": "InvalidAccessKeyId"}[r.service], "the security token is invalid")
	}
	name := r.service + ":" + r.action
	if fault := s.Spoilt(name); fault != nil { // 429 and 503 are answered as throttling
		return nil, refuse(fault.Status, fault.Code, "spoilt")
	}
	services := map[string]map[string]func(*request) (*answer, *failure){
		"ec2": s.ec2Actions(), "eks": s.eksActions(), "iam": s.iamActions(), "sts": s.stsActions(), "kms": s.kmsActions(),
		"logs": s.logsActions(), "s3": s.s3Actions(), "sqs": s.sqsActions(), "events": s.eventsActions(), "tagging": s.taggingActions(),
	}
	do := services[r.service][r.action]
	if do == nil {
		s.Missing(name)
		return nil, refuse(http.StatusBadRequest, "StubUnknownAction", "the stub does not know %s %s %s", name, r.Method, r.URL.Path)
	}
	return do(r)
}

func (s *Server) write(w http.ResponseWriter, r *request, reply *answer) {
	if reply == nil {
		reply = &answer{}
	}
	for name, value := range reply.header {
		w.Header().Set(name, value)
	}
	status := reply.status
	if status == 0 {
		status = http.StatusOK
	}
	switch r.service {
	case "ec2", "iam", "sts", "s3":
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		switch {
		case reply.raw != "":
			_, _ = w.Write([]byte(reply.raw)) // to a client that may be gone
		case r.service != "s3" || reply.root != "":
			writeDocument(w, r, reply)
		}
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		body := reply.tree
		if body == nil {
			body = tree{}
		}
		_ = json.NewEncoder(w).Encode(body) // to a client that may be gone
	}
}

func (s *Server) writeFailure(w http.ResponseWriter, r *request, failed *failure) {
	switch r.service {
	case "ec2":
		w.WriteHeader(failed.status)
		fmt.Fprintf(w, "<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>1</RequestID></Response>", failed.code, escape(failed.message))
	case "iam", "sts":
		w.WriteHeader(failed.status)
		fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>", failed.code, escape(failed.message))
	case "s3":
		w.WriteHeader(failed.status)
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", failed.code, escape(failed.message))
		}
	default:
		w.Header().Set("X-Amzn-Errortype", failed.code)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(failed.status)
		_ = json.NewEncoder(w).Encode(tree{"__type": failed.code, "message": failed.message}) // as above
	}
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a builder does not fail
	return out.String()
}

// make puts a new thing into the account.
func (s *Server) make(kind, id string, data tree, tags map[string]string) *thing {
	t := &thing{kind: kind, id: id, data: data, tags: tags, born: s.config.Now()}
	if t.tags == nil {
		t.tags = map[string]string{}
	}
	s.things[id] = t
	s.order = append(s.order, id)
	if !byDefault(data) {
		s.CountMade(kind)
	}
	return t
}

func (s *Server) remove(id string) {
	delete(s.things, id)
	s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == id })
}

// next is an ID that nobody has yet.
func (s *Server) next(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s-%017x", prefix, s.serial)
}

func (s *Server) arn(service, rest string) string {
	region := s.config.Region
	if service == "iam" {
		region = ""
	}
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, region, s.config.Account, rest)
}

// all are the things of a kind, the oldest first, that a condition holds for.
func (s *Server) all(kind string, condition func(*thing) bool) []*thing {
	var found []*thing
	for _, id := range s.order {
		if t := s.things[id]; t.kind == kind && (condition == nil || condition(t)) {
			found = append(found, t)
		}
	}
	return found
}

// ready tells whether a thing's making has come to its end.
func (s *Server) ready(t *thing) bool { return !s.config.Now().Before(t.born.Add(s.config.Delay)) }

// sweep removes what has been on its way out for long enough.
func (s *Server) sweep() {
	for id, t := range s.things {
		if !t.gone.IsZero() && !s.config.Now().Before(t.gone.Add(s.config.Delay)) {
			s.remove(id)
		}
	}
}

// arnKinds is how EC2's ARNs call what its actions call otherwise.
var arnKinds = map[string]string{
	"Vpcs": "vpc", "Subnets": "subnet", "InternetGateways": "internet-gateway", "Addresses": "elastic-ip", "NatGateways": "natgateway", "RouteTables": "route-table",
	"SecurityGroups": "security-group", "SecurityGroupRules": "security-group-rule", "NetworkAcls": "network-acl", "VpcEndpoints": "vpc-endpoint", "FlowLogs": "vpc-flow-log", "LaunchTemplates": "launch-template",
}

// Tagged lists what has a tag, by ARN, as the tagging API does.
func (s *Server) Tagged(key, value string) map[string]map[string]string {
	s.Lock()
	defer s.Unlock()
	return s.tagged(key, value)
}

func (s *Server) tagged(key, value string) map[string]map[string]string {
	found := map[string]map[string]string{}
	for id, t := range s.things {
		if t.tags[key] != value || !t.gone.IsZero() {
			continue
		}
		if kind := arnKinds[t.kind]; kind != "" {
			id = s.arn("ec2", kind+"/"+id)
		}
		found[id] = maps.Clone(t.tags)
	}
	return found
}

// taggingActions are those of the tagging API.
func (s *Server) taggingActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){"GetResources": func(r *request) (*answer, *failure) {
		filters, _ := r.json["TagFilters"].([]any)
		if len(filters) != 1 {
			return nil, refuse(http.StatusBadRequest, "InvalidParameterException", "the stub takes one filter")
		}
		filter, _ := filters[0].(tree)
		key, _ := filter["Key"].(string)
		values, _ := filter["Values"].([]any)
		list := []any{}
		for _, value := range values {
			wanted, _ := value.(string)
			for arn, tags := range s.tagged(key, wanted) {
				pairs := []any{}
				for name, content := range tags {
					pairs = append(pairs, tree{"Key": name, "Value": content})
				}
				list = append(list, tree{"ResourceARN": arn, "Tags": pairs})
			}
		}
		return &answer{tree: tree{"ResourceTagMappingList": list, "PaginationToken": ""}}, nil
	}}
}
