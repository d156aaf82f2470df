package debian

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is one archive that packages come from.
type Source struct {
	URI, Suite string
	Components []string
	SignedBy   string
}

// Line writes the source as a line of sources.list.
func (s Source) Line() string {
	options := ""
	if s.SignedBy != "" {
		options = "[signed-by=" + s.SignedBy + "] "
	}
	return fmt.Sprintf("deb %s%s %s %s\n", options, s.URI, s.Suite, strings.Join(s.Components, " "))
}

// Sources reads from a package configuration (usually /etc/apt) where the packages of a suite come from: the suite
// itself first, then its updates and security updates. Archives of others than the distribution are left out.
func Sources(configDir, suite string) ([]Source, error) {
	files, err := filepath.Glob(filepath.Join(configDir, "sources.list.d", "*"))
	if err != nil {
		return nil, fmt.Errorf("read package sources: %w", err)
	}
	var all []Source
	for _, file := range append([]string{filepath.Join(configDir, "sources.list")}, files...) {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		switch filepath.Ext(file) {
		case ".list":
			all = append(all, parseLines(data)...)
		case ".sources":
			all = append(all, parseStanzas(data)...)
		}
	}
	var found []Source
	for _, wanted := range []string{suite, suite + "-updates", suite + "-security"} {
		at := slices.IndexFunc(all, func(s Source) bool { return s.Suite == wanted && slices.Contains(s.Components, "main") })
		if at >= 0 {
			found = append(found, all[at])
		}
	}
	return found, nil
}

// parseLines reads the one-line format: deb [options] URI suite component…
func parseLines(data []byte) []Source {
	var sources []Source
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		var source Source
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && strings.HasPrefix(rest, "[") {
			for option := range strings.FieldsSeq(options) {
				if value, ok := strings.CutPrefix(option, "signed-by="); ok {
					source.SignedBy = value
				}
			}
			rest = after
		}
		if fields := strings.Fields(rest); len(fields) >= 3 {
			source.URI, source.Suite, source.Components = fields[0], fields[1], fields[2:]
			sources = append(sources, source)
		}
	}
	return sources
}

// parseStanzas reads the format of .sources files: fields, stanzas separated by empty lines.
func parseStanzas(data []byte) []Source {
	var sources []Source
	for stanza := range bytes.SplitSeq(data, []byte("\n\n")) {
		fields := make(map[string]string)
		scanner := bufio.NewScanner(bytes.NewReader(stanza))
		for scanner.Scan() {
			if name, value, ok := strings.Cut(scanner.Text(), ":"); ok && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, " ") {
				fields[strings.ToLower(name)] = strings.TrimSpace(value)
			}
		}
		uris := strings.Fields(fields["uris"])
		if !slices.Contains(strings.Fields(fields["types"]), "deb") || len(uris) == 0 || fields["enabled"] == "no" {
			continue
		}
		for suite := range strings.FieldsSeq(fields["suites"]) {
			sources = append(sources, Source{
				URI: uris[0], Suite: suite, Components: strings.Fields(fields["components"]), SignedBy: fields["signed-by"],
			})
		}
	}
	return sources
}
