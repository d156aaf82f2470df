package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The part of a release that clusters in clouds need is a release of its own, in a folder of the release, because it is
// large and most do without. Besides its manifest and bin/tofu it holds a mirror that tofu installs providers from, and
// for each provider a lock file that makes tofu refuse any other.
const (
	CloudDir   = "byoc"
	MirrorDir  = "mirror"
	LocksDir   = "locks"
	LockSuffix = ".lock.hcl"
)

// Cloud is the part of a release that clusters in clouds need.
type Cloud struct{ *Catalogue }

// OpenCloud reads that part of the release in dir.
func OpenCloud(dir string) (*Cloud, error) {
	if _, err := os.Stat(filepath.Join(dir, CloudDir, ManifestName)); err != nil {
		return nil, fmt.Errorf("the release at %s has nothing for clusters in clouds: build it with `make distro-byoc`", dir)
	}
	catalogue, err := Open(filepath.Join(dir, CloudDir))
	if err != nil {
		return nil, err
	}
	return &Cloud{catalogue}, nil
}

// Tofu is the path of OpenTofu.
func (c *Cloud) Tofu() (string, error) { return c.Binary("tofu") }

// Mirror is the folder that tofu installs providers from.
func (c *Cloud) Mirror() string { return filepath.Join(c.dir, MirrorDir) }

// Has tells whether there is a provider, such as aws.
func (c *Cloud) Has(provider string) bool {
	_, err := c.Lock(provider)
	return err == nil
}

// Lock is the lock file of a provider, such as aws.
func (c *Cloud) Lock(provider string) (string, error) {
	var have []string
	for _, a := range c.manifest.Artifacts {
		if a.Kind != KindLock {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(a.Path), LockSuffix)
		if name == provider {
			return filepath.Join(c.dir, a.Path), nil
		}
		have = append(have, name)
	}
	slices.Sort(have)
	return "", fmt.Errorf("no provider %q in the release at %s: have %s", provider, c.dir, strings.Join(have, ", "))
}
