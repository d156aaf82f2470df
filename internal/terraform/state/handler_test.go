package state

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// client asks the handler as tofu does.
type client struct {
	t        *testing.T
	url      string
	password string
}

func (c client) do(method, path, body string, headers ...string) (int, string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.password != "" {
		request.SetBasicAuth(TokenUser, c.password)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

func serve(t *testing.T) (client, *Tokens, *bytes.Buffer) {
	t.Helper()
	now := time.Unix(1700000000, 0)
	tokens, err := NewTokens(key(9), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	server := httptest.NewServer(NewHandler(newBackend(t, 0).Backend, tokens, slog.New(slog.NewTextHandler(&logged, nil))))
	t.Cleanup(server.Close)
	return client{t, server.URL, tokens.Issue("stack", time.Hour)}, tokens, &logged
}

func TestTheProtocolOfTheHTTPBackend(t *testing.T) {
	c, _, logged := serve(t)
	steps := []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/stack", "", 404, ""},
		{"LOCK", "/stack", `{"ID":"one","Who":"me"}`, 200, ""},
		{"LOCK", "/stack", `{"ID":"two","Who":"you"}`, 423, `"ID":"one"`},
		{"POST", "/stack?ID=one", string(document(1, `{}`)), 200, ""},
		{"POST", "/stack?ID=two", string(document(2, "")), 423, `"Who":"me"`},
		{"POST", "/stack?ID=one", "nonsense", 400, "no state"},
		{"POST", "/stack?ID=one", string(document(1, "")), 409, "serial"},
		{"GET", "/stack", "", 200, "hunter2"},
		{"UNLOCK", "/stack", `{"ID":"two"}`, 423, `"one"`},
		{"UNLOCK", "/stack", "", 400, ""},
		{"UNLOCK", "/stack", `{"ID":"one"}`, 200, ""},
		{"DELETE", "/stack", "", 409, "destroy them first"},
		{"PUT", "/stack", "", 405, ""},
		{"GET", "/Stack", "", 400, ""},
		{"GET", "/..%2fstack", "", 400, ""},
	}
	for _, step := range steps {
		status, answer := c.do(step.method, step.path, step.body)
		if status != step.status || !strings.Contains(answer, step.answer) {
			t.Errorf("%s %s = %d %q, want %d %q", step.method, step.path, status, answer, step.status, step.answer)
		}
	}
	if status, _ := c.do("POST", "/stack?ID=one", string(document(3, "")), "Content-MD5", "bm9uZQ=="); status != 400 {
		t.Errorf("a damaged body: %d", status)
	}
	if strings.Contains(logged.String(), "hunter2") || strings.Contains(logged.String(), c.password) {
		t.Errorf("the log tells secrets:\n%s", logged)
	}
}

func TestTokensAreForOneStackAndSomeTime(t *testing.T) {
	c, tokens, _ := serve(t)
	for name, test := range map[string]struct {
		password string
		status   int
	}{
		"none":            {"", 401},
		"another stack's": {tokens.Issue("other", time.Hour), 403},
		"expired":         {tokens.Issue("stack", -time.Minute), 403},
		"prolonged":       {strings.Replace(tokens.Issue("stack", -time.Minute), "s1.1", "s1.2", 1), 403},
		"garbage":         {"garbage", 403},
		"good":            {c.password, 404},
	} {
		c.password = test.password
		if status, answer := c.do("GET", "/stack", ""); status != test.status {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	if _, err := NewTokens([]byte("short"), time.Now); err == nil {
		t.Error("a short secret: want an error")
	}
}

func TestALockIsDescribedAsTofuReadsIt(t *testing.T) {
	c, _, _ := serve(t)
	c.do("LOCK", "/stack", `{"ID":"one","Operation":"OperationTypeApply","Who":"root@pod","Version":"1.12.6","Created":"2026-01-02T03:04:05Z"}`)
	_, answer := c.do("LOCK", "/stack", `{"ID":"two"}`)
	var holder map[string]any
	if err := json.Unmarshal([]byte(answer), &holder); err != nil || holder["ID"] != "one" || holder["Created"] != "2026-01-02T03:04:05Z" {
		t.Errorf("%s, %v", answer, err)
	}
}
