package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// Secret is a string that does not show itself: not printed, not logged, not in JSON.
type Secret string

const redacted = "[redacted]"

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String stands in for the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps the secret out of %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON keeps the secret out of JSON and YAML.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Set is pflag's.
func (s *Secret) Set(value string) error {
	*s = Secret(value)
	return nil
}

// Type is pflag's.
func (s *Secret) Type() string { return "string" }

// FileMode is the permissions of a file, written in octal.
type FileMode fs.FileMode

// MarshalText writes it as chmod reads it.
func (m FileMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

// UnmarshalText reads it as chmod does, also with Go's and YAML's 0o before it.
func (m *FileMode) UnmarshalText(text []byte) error {
	mode, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0o"), 8, 32)
	if err != nil || mode > 0o777 {
		return errors.New("not an octal mode such as 0600")
	}
	*m = FileMode(mode)
	return nil
}

// choice is a flag that takes one of a few words.
type choice struct {
	target  *string
	allowed []string
}

func (c choice) String() string {
	if c.target == nil {
		return ""
	}
	return *c.target
}

func (c choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("must be one of %s%s", strings.Join(c.allowed, ", "), didYouMean(value, c.allowed, ""))
	}
	*c.target = value
	return nil
}

func (choice) Type() string { return "string" }
