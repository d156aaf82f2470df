// Package config keeps what the command line remembers: the installations that the user works with (contexts), in
// config.yaml, and their sessions, in tokens.yaml beside it. Both are the user's alone (mode 0600), and may be read and
// written by many commands at once.
package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// Context is an installation, and who the user is there.
type Context struct {
	Name string `json:"name"`
	// Server is the URL of the management API.
	Server string `json:"server,omitempty"`
	// CA is the certificates, in PEM, that Server and IAM are known by; those of the system where it is empty.
	CA string `json:"ca,omitempty"`
	// IAM is the URL of the service that logs users in.
	IAM string `json:"iam,omitempty"`
	// Kubeconfig is a file with the server and with credentials to use there instead of a login: an administrator's.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Project that commands work in.
	Project string `json:"project,omitempty"`
	// User who logged in last.
	User string `json:"user,omitempty"`
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Validate tells what is wrong with a context.
func (c *Context) Validate() error {
	var broken []error
	if !contextName.MatchString(c.Name) {
		broken = append(broken, fmt.Errorf("name: %q is no name; use up to 63 letters, digits, '.', '_' and '-'", c.Name))
	}
	switch {
	case c.Kubeconfig != "" && c.Server != "":
		broken = append(broken, errors.New("kubeconfig: it says which server; give it, or the server"))
	case c.Kubeconfig == "" && c.Server == "":
		broken = append(broken, errors.New("server: it is missing; it looks like https://cloud.example.com:6443"))
	case c.Server != "":
		broken = append(broken, checkURL("server", c.Server))
	}
	if c.IAM != "" {
		broken = append(broken, checkURL("iam", c.IAM))
	}
	if c.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CA)) {
		broken = append(broken, errors.New("ca: there is no certificate in PEM in it"))
	}
	return errors.Join(broken...)
}

// checkURL insists on HTTPS: tokens and passwords go there.
func checkURL(field, text string) error {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "" || parsed.User != nil:
		return fmt.Errorf("%s: %q is no URL; it looks like https://cloud.example.com:6443", field, text)
	case parsed.Scheme != "https":
		return fmt.Errorf("%s: %q is not https, and would show tokens and passwords to the network", field, text)
	}
	return nil
}

// File is config.yaml.
type File struct {
	CurrentContext string    `json:"currentContext,omitempty"`
	Contexts       []Context `json:"contexts,omitempty"`
}

// Names of all contexts.
func (f *File) Names() []string {
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the context of this name, to look at or to change, or nil.
func (f *File) Find(name string) *Context {
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Contexts[i]
}

// Put adds a context, or replaces the one of its name.
func (f *File) Put(c Context) {
	if old := f.Find(c.Name); old != nil {
		*old = c
		return
	}
	f.Contexts = append(f.Contexts, c)
}

// Remove forgets a context, and tells whether there was one.
func (f *File) Remove(name string) bool {
	before := len(f.Contexts)
	f.Contexts = slices.DeleteFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if f.CurrentContext == name {
		f.CurrentContext = ""
	}
	return len(f.Contexts) < before
}

func (f *File) validate() error {
	seen := map[string]bool{}
	for i := range f.Contexts {
		c := &f.Contexts[i]
		if err := c.Validate(); err != nil {
			return fmt.Errorf("context %q: %w", c.Name, err)
		}
		if seen[c.Name] {
			return fmt.Errorf("context %q is there twice", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// Token is a session: what a login returned.
type Token struct {
	AccessToken  string    `json:"accessToken"`
	ExpiresAt    time.Time `json:"expiresAt,omitzero"`
	RefreshToken string    `json:"refreshToken,omitempty"`
}

// Expires tells whether the access token is no good any more in a moment.
func (t Token) Expires(now time.Time) bool {
	const moment = 30 * time.Second
	return !t.ExpiresAt.IsZero() && now.Add(moment).After(t.ExpiresAt)
}
