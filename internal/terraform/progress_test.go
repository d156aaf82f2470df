package terraform

import (
	"strings"
	"testing"
)

const sampleStream = `{"@level":"info","@message":"OpenTofu 1.12.6","@module":"tofu.ui","type":"version"}
{"type":"apply_start","hook":{"resource":{"addr":"aws_eks_cluster.this"},"action":"create"}}
{"type":"apply_progress","hook":{"resource":{"addr":"aws_eks_cluster.this"},"action":"create","elapsed_seconds":190}}
this is no JSON
{"type":"apply_complete","hook":{"resource":{"addr":"aws_vpc.this"},"action":"create","elapsed_seconds":2}}
{"type":"apply_complete","hook":{"resource":{"addr":"data.aws_partition.this"},"action":"read","elapsed_seconds":0}}
{"type":"apply_errored","hook":{"resource":{"addr":"aws_eks_cluster.this"},"action":"create","elapsed_seconds":191}}
{"type":"diagnostic","diagnostic":{"severity":"error","summary":"creating EKS Cluster","detail":"AccessDenied: key hunter2hunter2\n  is not allowed","address":"aws_eks_cluster.this"}}
`

func TestProgressIsFollowedLineByLine(t *testing.T) {
	var lines []string
	s := &stream{total: 36, progress: func(e Event) { lines = append(lines, e.String()) }, redact: NewRedactor("hunter2hunter2")}
	for _, piece := range strings.SplitAfter(sampleStream, "e") { // in whatever pieces it comes
		if n, err := s.Write([]byte(piece)); err != nil || n != len(piece) {
			t.Fatal(n, err)
		}
	}
	want := []string{
		"0/36 aws_eks_cluster.this creating", "0/36 aws_eks_cluster.this creating 3m10s", "1/36 aws_vpc.this created 2s",
		"1/36 data.aws_partition.this read", "1/36 aws_eks_cluster.this failed 3m11s",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
	if len(s.diagnostics) != 1 || s.diagnostics[0].String() != "aws_eks_cluster.this: creating EKS Cluster: AccessDenied: key (redacted) is not allowed" {
		t.Errorf("%v", s.diagnostics)
	}
}

func TestALongLineIsNoProblem(t *testing.T) {
	s := &stream{redact: NewRedactor()}
	line := `{"type":"diagnostic","diagnostic":{"severity":"error","summary":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n"
	if _, err := s.Write([]byte(line)); err != nil || len(s.diagnostics) != 1 {
		t.Errorf("%d, %v", len(s.diagnostics), err)
	}
}

func TestSecretsAreTakenOut(t *testing.T) {
	keyFile := `{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nMIIabcdefgh\n-----END PRIVATE KEY-----\n","client_email":"me@example.com"}`
	r := NewRedactor("wJalrXUtnFEMI/K7MDENG+bPx", "short", keyFile, "postgres://states:correct%20horse@db/states")
	for text, want := range map[string]string{
		"key wJalrXUtnFEMI/K7MDENG+bPx is bad":                    "key (redacted) is bad",
		"url ?k=wJalrXUtnFEMI%2FK7MDENG%2BbPx&b":                  "url ?k=(redacted)&b",
		"d0phbHJYVXRuRkVNSS9LN01ERU5HK2JQeA==":                    "(redacted)",
		"short words stay":                                        "short words stay",
		"AKIAIOSFODNN7EXAMPLE was refused":                        "(redacted) was refused",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2ln.": "token (redacted).",
		"Authorization: Bearer abcdefghijklmnop1234":              "Authorization: (redacted)",
		"me@example.com":                                          "me@example.com",
		"-----BEGIN RSA PRIVATE KEY-----\nabc":                    "(redacted)",
		"https://x/?X-Amz-Signature=abc&y=1":                      "https://x/?(redacted)&y=1",
		"correct horse is not the password of states":             "(redacted) is not the password of states",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := r.Text(strings.Split(keyFile, `"private_key":"`)[1][:60]); strings.Contains(got, "MIIabcdefgh") {
		t.Errorf("a part of the key file: %q", got)
	}
}

func TestADiagnosticIsOneLine(t *testing.T) {
	told := Diagnostic{Address: "azurerm_kubernetes_cluster.this", Summary: "parsing \"x\":\n\nExpected:\n > y", Detail: "  see\n\tabove. "}
	if got, want := told.String(), `azurerm_kubernetes_cluster.this: parsing "x": Expected: > y: see above`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
