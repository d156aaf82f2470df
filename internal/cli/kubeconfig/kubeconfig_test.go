package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

func sample(server string) *api.Config {
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: server}
	config.AuthInfos["u"] = &api.AuthInfo{Token: "secret"}
	config.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u", Namespace: "n"}
	config.CurrentContext = "x"
	return config
}

func TestPath(t *testing.T) {
	for want, set := range map[string]map[string]string{
		"/a":                   {"KUBECONFIG": ":/a:/b", "HOME": "/home/x"},
		"/home/x/.kube/config": {"HOME": "/home/x"},
	} {
		if have, err := Path(func(name string) string { return set[name] }); err != nil || have != want {
			t.Errorf("%s %v", have, err)
		}
	}
	if _, err := Path(func(string) string { return "" }); err == nil {
		t.Error("a path came from nowhere")
	}
}

func TestRename(t *testing.T) {
	renamed, err := Rename(sample("https://a"), "dev@web")
	if err != nil {
		t.Fatal(err)
	}
	if place := renamed.Contexts["dev@web"]; place.Cluster != "dev@web" || place.AuthInfo != "dev@web" || place.Namespace != "n" || renamed.Clusters["dev@web"].Server != "https://a" {
		t.Errorf("%+v", renamed)
	}
	if _, err := Rename(api.NewConfig(), "x"); err == nil {
		t.Error("an empty kubeconfig was renamed")
	}
}

func TestMergeKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "config")
	for _, server := range []string{"https://a", "https://b"} {
		renamed, err := Rename(sample(server), "dev")
		if err != nil {
			t.Fatal(err)
		}
		if err := Merge(path, renamed); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	other, err := Rename(sample("https://c"), "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := Merge(path, other); err != nil {
		t.Fatal(err)
	}
	have, err := clientcmd.LoadFromFile(path)
	if err != nil || len(have.Contexts) != 2 || have.Clusters["dev"].Server != "https://b" || have.CurrentContext != "other" {
		t.Errorf("%+v %v", have, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Merge(path, other); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file was replaced: %v", err)
	}
}
