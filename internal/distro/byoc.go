package distro

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"golang.org/x/mod/sumdb/dirhash"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/compile"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/slim"
	"plasmacloud.io/plasmacloud/internal/release"
)

// tofuModule builds OpenTofu, which applies the configurations for clouds.
var tofuModule = runtimeModule{
	name: "tofu", upstream: "github.com/opentofu/opentofu",
	programs: []compile.Program{{Name: "tofu", Package: "github.com/opentofu/opentofu/cmd/tofu"}},
	stamps: func(string) map[string]string {
		return map[string]string{"github.com/opentofu/opentofu/version.dev": "no"}
	},
}

// provider is a cloud's Terraform provider: a folder below distro/byoc whose go.mod pins it. Of its services, those are
// compiled that the configurations below terraform/ use.
type provider struct {
	name     string // as in hashicorp/<name>
	upstream string // its module
	trim     []trimmer
	version  string // the import path and name of the variable that holds its version
}

// trimmer cuts something out of a provider's source.
type trimmer interface {
	Trim(dir string) error
}

// providers in the order of how long they take, the longest last.
var providers = []provider{
	{
		name: "google", upstream: "github.com/hashicorp/terraform-provider-google",
		version: "github.com/hashicorp/terraform-provider-google/version.ProviderVersion",
		trim: []trimmer{slim.Services{
			Files:  []string{"google/provider/provider_register_services.go"},
			Prefix: "github.com/hashicorp/terraform-provider-google/google/services/",
			Keep:   []string{"compute", "container", "iambeta", "kms", "resourcemanager", "storage"},
		}},
	},
	{
		name: "aws", upstream: "github.com/hashicorp/terraform-provider-aws",
		version: "github.com/hashicorp/terraform-provider-aws/version.ProviderVersion",
		trim: []trimmer{
			slim.Services{
				Files:  []string{"internal/provider/sdkv2/service_packages_gen.go"},
				Prefix: "github.com/hashicorp/terraform-provider-aws/internal/service/",
				// ec2 asks organizations, and s3 asks s3control, for clients that only a service on the list has.
				Keep: []string{"ec2", "eks", "events", "iam", "kms", "logs", "meta", "organizations", "s3", "s3control", "sqs", "sts"},
			},
			slim.Methods{File: "internal/conns/awsclient_gen.go", Module: "github.com/hashicorp/terraform-provider-aws", Roots: []string{"."}},
		},
	},
	{
		name: "azurerm", upstream: "github.com/hashicorp/terraform-provider-azurerm",
		version: "github.com/hashicorp/terraform-provider-azurerm/version.ProviderVersion",
		trim: []trimmer{slim.Services{
			Files:  []string{"internal/provider/services.go", "internal/provider/services_gen.go"},
			Prefix: "github.com/hashicorp/terraform-provider-azurerm/internal/services/",
			Keep:   []string{"authorization", "containers", "managedidentity", "network", "resource", "storage"},
		}},
	},
}

// byoc plans what clusters in clouds need: OpenTofu and its providers, in a release of their own.
func (p *planner) byoc(ctx context.Context) error {
	if err := p.runtime(tofuModule); err != nil {
		return err
	}
	for _, one := range providers {
		if err := p.provider(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// provider plans one provider, in the layout of a mirror that tofu installs from, and the lock file that makes tofu
// refuse any other.
func (p *planner) provider(ctx context.Context, one provider) error {
	dir := filepath.Join(p.runtimeDir, one.name)
	source, err := module.FetchPinned(ctx, dir, one.upstream)
	if err != nil {
		return err
	}
	version, err := changelogVersion(source.Dir)
	if err != nil {
		return err
	}
	program := "terraform-provider-" + one.name + "_v" + version
	lock := one.name + release.LockSuffix
	build := compile.Go{Programs: []compile.Program{{Name: program, Package: "."}}, Stamps: map[string]string{one.version: version}}
	p.add(&step{
		name: "provider-" + one.name, title: "provider " + one.name + " " + version, lane: laneCompile,
		recipe: func(k *cache.Key) {
			k.Add("slim", slim.Format, fmt.Sprintf("%+v", one.trim)).Add("upstream", one.upstream, source.Version, version)
			pinned := build
			pinned.Dir = dir
			pinned.Recipe(k, p.toolchain)
		},
		build: func(ctx context.Context, _ inputs, dir string) error {
			return buildProvider(ctx, one, source.Dir, build, dir, lock, version)
		},
		artifacts: func(e *cache.Entry) ([]placed, error) {
			artifact := release.Artifact{Name: "terraform-provider-" + one.name, Kind: release.KindBinary, Version: "v" + version}
			artifact.Path = filepath.Join(release.MirrorDir, providerAddress(one.name), version, runtime.GOOS+"_"+runtime.GOARCH, program)
			binary, err := place(e, program, artifact)
			if err != nil {
				return nil, err
			}
			locked, err := place(e, lock, release.Artifact{
				Name: one.name + "-lock", Kind: release.KindLock, Version: "v" + version, Path: filepath.Join(release.LocksDir, lock),
			})
			return append(binary, locked...), err
		},
	})
	return nil
}

// buildProvider compiles what is left of the source after trimming.
func buildProvider(ctx context.Context, one provider, source string, build compile.Go, dir, lock, version string) error {
	work := filepath.Join(dir, "work")
	if err := slim.Copy(source, work); err != nil {
		return err
	}
	for _, cut := range one.trim {
		if err := cut.Trim(work); err != nil {
			return err
		}
	}
	build.Dir = work
	out := filepath.Join(dir, "package")
	if err := os.Mkdir(out, 0o755); err != nil { //nolint:gosec // a release is public
		return err
	}
	if err := build.Run(ctx, out); err != nil {
		return err
	}
	hash, err := dirhash.HashDir(out, "", dirhash.Hash1) // as tofu does it
	if err != nil {
		return fmt.Errorf("lock provider %s: %w", one.name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, lock), lockFile(one.name, version, hash), 0o644); err != nil { //nolint:gosec // public
		return err
	}
	program := build.Programs[0].Name
	if err := os.Rename(filepath.Join(out, program), filepath.Join(dir, program)); err != nil {
		return err
	}
	for _, scratch := range []string{out, work} {
		if err := os.RemoveAll(scratch); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}

// providerAddress is what tofu makes of hashicorp/<name> in a configuration.
func providerAddress(name string) string { return "registry.opentofu.org/hashicorp/" + name }

func lockFile(name, version, hash string) []byte {
	return fmt.Appendf(nil, "provider %q {\n  version = %q\n  hashes = [\n    %q,\n  ]\n}\n", providerAddress(name), version, hash)
}

var changelogHeading = regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)\b`)

// changelogVersion is the version that a provider's source is, or is about to become. The module proxy knows it only by
// its commit: the providers' tags do not follow the rules for Go modules of such a major version.
func changelogVersion(dir string) (string, error) {
	changes, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("find provider's version: %w", err)
	}
	heading := changelogHeading.FindSubmatch(changes)
	if heading == nil {
		return "", fmt.Errorf("find provider's version: no heading with one in %s", filepath.Join(dir, "CHANGELOG.md"))
	}
	return string(heading[1]), nil
}
