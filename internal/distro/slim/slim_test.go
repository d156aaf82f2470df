package slim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// provider is the source of a provider with three services, in small.
func provider(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":            "module example.com/provider\n",
		"main.go":           "package main\n\nimport \"example.com/provider/list\"\n\nfunc main() { list.All() }\n",
		"list/list.go":      "package list\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/provider/service/eks\"\n\t\"example.com/provider/service/lambda\"\n\ts3x \"example.com/provider/service/s3\"\n)\n\nfunc All() {\n\tfmt.Println([]any{\n\t\teks.Package(), // the clusters\n\t\tlambda.Package(),\n\t\ts3x.Package{},\n\t})\n}\n",
		"list/register.go":  "package list\n\nimport (\n\t_ \"example.com/provider/service/eks\"\n\t_ \"example.com/provider/service/sqs\"\n)\n",
		"service/eks/a.go":  "package eks\n\nimport \"example.com/provider/conns\"\n\nfunc Package() any { return new(conns.Client).EKS() }\n",
		"service/s3/a.go":   "package s3\n",
		"conns/clients.go":  "package conns\n\nimport (\n\t\"example.com/sdk/eks\"\n\t\"example.com/sdk/lambda\"\n\t\"example.com/sdk/wrap/v2\"\n)\n\ntype Client struct{}\n\nfunc (c *Client) EKS() any { return wrap.Must(eks.New()) }\n\nfunc (c *Client) Lambda() any { return wrap.Must(lambda.New()) }\n\nfunc plain() {}\n",
		"list/list_test.go": "package list\n",
		"website/index.md":  "words",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o444); err != nil { // as in the module cache
			t.Fatal(err)
		}
	}
	return dir
}

func copied(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	if err := Copy(provider(t), target); err != nil {
		t.Fatal(err)
	}
	return target
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOnlyWhatIsCompiledIsCopied(t *testing.T) {
	dir := copied(t)
	for name, want := range map[string]bool{"main.go": true, "go.mod": true, "list/list_test.go": false, "website/index.md": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServicesAreTrimmed(t *testing.T) {
	dir := copied(t)
	services := Services{Files: []string{"list/list.go", "list/register.go"}, Prefix: "example.com/provider/service/", Keep: []string{"eks", "s3"}}
	if err := services.Trim(dir); err != nil {
		t.Fatal(err)
	}
	list := read(t, dir, "list/list.go")
	for text, want := range map[string]bool{"service/eks": true, "s3x.Package{}": true, "lambda": false, "fmt.Println": true} {
		if strings.Contains(list, text) != want {
			t.Errorf("%q: want %v in\n%s", text, want, list)
		}
	}
	if register := read(t, dir, "list/register.go"); strings.Contains(register, "sqs") || !strings.Contains(register, "eks") {
		t.Errorf("register is\n%s", register)
	}
}

func TestAServiceThatIsNotThereIsAnError(t *testing.T) {
	services := Services{Files: []string{"list/list.go"}, Prefix: "example.com/provider/service/", Keep: []string{"eks", "renamed"}}
	if err := services.Trim(copied(t)); err == nil || !strings.Contains(err.Error(), `"renamed"`) {
		t.Errorf("Trim = %v", err)
	}
	methods := Methods{File: "conns/clients.go", Module: "example.com/provider", Roots: []string{"nowhere"}}
	if err := methods.Trim(copied(t)); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("Trim = %v", err)
	}
}

func TestMethodsThatNobodyAsksForAreTrimmed(t *testing.T) {
	dir := copied(t)
	services := Services{Files: []string{"list/list.go", "list/register.go"}, Prefix: "example.com/provider/service/", Keep: []string{"eks"}}
	methods := Methods{File: "conns/clients.go", Module: "example.com/provider", Roots: []string{"."}}
	if err := services.Trim(dir); err != nil {
		t.Fatal(err)
	}
	if err := methods.Trim(dir); err != nil {
		t.Fatal(err)
	}
	clients := read(t, dir, "conns/clients.go")
	for text, want := range map[string]bool{"EKS()": true, "sdk/eks": true, "wrap/v2": true, "ambda": false, "func plain": true} {
		if strings.Contains(clients, text) != want {
			t.Errorf("%q: want %v in\n%s", text, want, clients)
		}
	}
}
