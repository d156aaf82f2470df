package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// scope is what a signature is for: Credential=<key>/<date>/<region>/<service>/aws4_request.
var scope = regexp.MustCompile(`Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request`)

// parse finds out which service and action a request is for.
func parse(r *http.Request) (*request, error) {
	match := scope.FindStringSubmatch(r.Header.Get("Authorization") + "Credential=" + r.URL.Query().Get("X-Amz-Credential"))
	if match == nil {
		return nil, fmt.Errorf("the request is not signed")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	req := &request{Request: r, service: match[1], body: body}
	switch req.service {
	case "ec2", "iam", "sts":
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, err
		}
		if len(body) == 0 { // it was signed for somebody else to send
			values = r.URL.Query()
		}
		req.form, req.action = nest(values), values.Get("Action")
	case "eks", "s3":
		if err := req.parsePath(); err != nil {
			return nil, err
		}
	default:
		_, req.action, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	}
	if req.service != "s3" && len(body) > 0 && body[0] == '{' {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := decoder.Decode(&req.json); err != nil {
			return nil, err
		}
	}
	if req.json == nil {
		req.json = tree{}
	}
	return req, nil
}

// parsePath names the action of a REST request by its method and the fixed parts of its path, such as
// "POST clusters/*/node-groups"; what the stars stand for is in path.
func (r *request) parsePath() error {
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	if r.service == "s3" && parts[0] == "v20180820" { // S3's control plane: /v20180820/tags/<ARN>
		arn, err := url.PathUnescape(strings.Join(parts[2:], "/"))
		r.path, r.action = []string{arn}, r.Method+" control/"+parts[1]
		return err
	}
	if r.service == "s3" {
		r.path = parts
		kind := "bucket"
		if len(parts) > 1 {
			kind = "object"
		}
		if parts[0] == "" {
			kind = "service"
		}
		r.action = r.Method + " " + kind
		for key := range r.URL.Query() {
			if key != "x-id" && key != "list-type" && key != "max-buckets" && key != "continuation-token" && key != "prefix" {
				r.action += "?" + key
			}
		}
		return nil
	}
	if parts[0] == "tags" { // followed by an ARN, whose slashes need not be escaped
		value, err := url.PathUnescape(strings.Join(parts[1:], "/"))
		r.path, r.action = []string{value}, r.Method+" tags/*"
		return err
	}
	for i, part := range parts {
		if i%2 == 1 {
			value, err := url.PathUnescape(part)
			if err != nil {
				return err
			}
			r.path = append(r.path, value)
			parts[i] = "*"
		}
	}
	r.action = r.Method + " " + strings.Join(parts, "/")
	return nil
}

// nest turns A.1.B=c into trees.
func nest(values url.Values) tree {
	root := tree{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := root
		steps := strings.Split(name, ".")
		for _, step := range steps[:len(steps)-1] {
			inner, ok := at[step].(tree)
			if !ok {
				inner = tree{}
				at[step] = inner
			}
			at = inner
		}
		at[steps[len(steps)-1]] = values.Get(name)
	}
	return root
}

// text is a parameter of the query protocol.
func (r *request) text(name string) string {
	text, _ := r.form[name].(string)
	return text
}

// list is a numbered parameter: its members, in order.
func list(at tree, name string) []any {
	numbered, _ := at[name].(tree)
	if member, ok := numbered["member"].(tree); ok { // as IAM numbers them
		numbered = member
	}
	var numbers []int
	for key := range numbered {
		if n, err := strconv.Atoi(key); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	members := make([]any, 0, len(numbers))
	for _, n := range numbers {
		members = append(members, numbered[strconv.Itoa(n)])
	}
	return members
}

func texts(at tree, name string) []string {
	var found []string
	for _, member := range list(at, name) {
		if text, ok := member.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

// tagsOf reads tags as the query protocol numbers them.
func tagsOf(at tree, name string) map[string]string {
	tags := map[string]string{}
	for _, member := range list(at, name) {
		tag, _ := member.(tree)
		key, _ := tag["Key"].(string)
		value, _ := tag["Value"].(string)
		tags[key] = value
	}
	return tags
}

// writeDocument writes XML: EC2's lists are of <item>, the others' of <member>.
func writeDocument(w io.Writer, r *request, reply *answer) {
	var out bytes.Buffer
	switch {
	case reply.root != "":
		fmt.Fprintf(&out, "<%s>", reply.root)
		writeTree(&out, reply.tree, "")
		fmt.Fprintf(&out, "</%s>", reply.root)
	case r.service == "ec2":
		fmt.Fprintf(&out, `<%sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>`, r.action)
		writeTree(&out, reply.tree, "item")
		fmt.Fprintf(&out, "</%sResponse>", r.action)
	default:
		fmt.Fprintf(&out, "<%sResponse><%sResult>", r.action, r.action)
		writeTree(&out, reply.tree, "member")
		fmt.Fprintf(&out, "</%sResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></%sResponse>", r.action, r.action)
	}
	_, _ = w.Write(out.Bytes()) // to a client that may be gone
}

func writeTree(out *bytes.Buffer, at tree, member string) {
	for _, name := range slices.Sorted(maps.Keys(at)) {
		value := at[name]
		if value == nil {
			continue
		}
		if items, ok := value.([]any); ok && member == "" { // lists without a wrapper
			for _, item := range items {
				writeValue(out, name, item, member)
			}
			continue
		}
		writeValue(out, name, value, member)
	}
}

func writeValue(out *bytes.Buffer, name string, value any, member string) {
	fmt.Fprintf(out, "<%s>", name)
	switch value := value.(type) {
	case tree:
		writeTree(out, value, member)
	case []any:
		for _, item := range value {
			writeValue(out, member, item, member)
		}
	case []string:
		for _, item := range value {
			writeValue(out, member, item, member)
		}
	default:
		out.WriteString(escape(fmt.Sprint(value)))
	}
	fmt.Fprintf(out, "</%s>", name)
}

// tagSet is tags as EC2 writes them.
func tagSet(tags map[string]string) []any {
	set := make([]any, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		set = append(set, tree{"key": key, "value": tags[key]})
	}
	return set
}
