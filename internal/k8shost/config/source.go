package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Load sets the flags that the command line did not from the environment (given as
// os.Environ gives it), and those that are still not set from the file that --config names.
// Its error names everything that is wrong, each with the variable or the file's line.
func Load(fs *pflag.FlagSet, environ []string) error {
	var p problems
	loadEnvironment(fs, environ, &p)
	loadFile(fs, &p)
	return p.join()
}

func loadEnvironment(fs *pflag.FlagSet, environ []string, p *problems) {
	variables := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && value != "" {
			variables[name] = value
		}
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !isSetting(f) {
			return
		}
		var from, value string
		for _, name := range f.Annotations[AnnotationEnvironment] {
			v, ok := variables[name]
			switch {
			case !ok:
			case from != "" && v != value:
				p.add("environment %s and %s say different things about --%s: unset one of them", from, name, f.Name)
			default:
				from, value = name, v
			}
		}
		if from == "" {
			return
		}
		values := []string{value}
		if f.Value.Type() == "stringArray" {
			values = slices.DeleteFunc(strings.Split(value, "\n"), func(line string) bool { return line == "" })
		}
		if err := set(fs, f, values); err != nil {
			p.add("environment %s: %w", from, err)
		}
	})
}

func set(fs *pflag.FlagSet, f *pflag.Flag, values []string) error {
	for _, value := range values {
		if err := fs.Set(f.Name, value); err != nil {
			return explain(f, value, err)
		}
	}
	return nil
}

func loadFile(fs *pflag.FlagSet, p *problems) {
	flag := fs.Lookup("config")
	path := flag.Value.String()
	if path == "" {
		return
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) && !flag.Changed {
		return
	}
	if err != nil {
		p.add("read --config: %w", err)
		return
	}
	settings, err := parseFile(content)
	if err != nil {
		p.add("parse --config %s: %w", path, err)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(settings); i += 2 {
		key, value := settings[i], settings[i+1]
		if err := loadSetting(fs, key, value, seen); err != nil {
			p.add("%s:%d: %w", path, key.Line, err)
		}
	}
}

// parseFile gives the keys and values of the file, one after the other. They stay nodes
// because a node has its line, and its text as it was written: a mode of 0644 is no number.
func parseFile(content []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("only one YAML document is allowed")
	}
	top := document.Content[0]
	switch {
	case isNull(top):
		return nil, nil
	case top.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("line %d: settings are written as `flag-name: value`", top.Line)
	default:
		return top.Content, nil
	}
}

func loadSetting(fs *pflag.FlagSet, key, value *yaml.Node, seen map[string]int) error {
	f := fs.Lookup(key.Value)
	if f == nil || !isSetting(f) {
		return fmt.Errorf("unknown key %q%s", key.Value, didYouMean(key.Value, flagNames(fs, true), ""))
	}
	if f.Name == "config" {
		return errors.New("key \"config\" has no place in the configuration file itself")
	}
	if line, ok := seen[f.Name]; ok {
		return fmt.Errorf("key %q is in line %d already", f.Name, line)
	}
	seen[f.Name] = key.Line
	values, err := texts(f, value)
	if err != nil {
		return fmt.Errorf("key %q %w", f.Name, err)
	}
	if f.Changed {
		return nil
	}
	if err := set(fs, f, values); err != nil {
		return fmt.Errorf("key %q: %w", f.Name, err)
	}
	return nil
}

// texts gives the values of a node as they were written.
func texts(f *pflag.Flag, node *yaml.Node) ([]string, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	_, repeatable := f.Value.(pflag.SliceValue)
	switch {
	case isNull(node):
		return nil, errors.New("has no value: give it one or leave it out")
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, nil
	case node.Kind == yaml.SequenceNode && repeatable:
		var all []string
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode || isNull(item) {
				return nil, errors.New("takes a list of plain values")
			}
			all = append(all, item.Value)
		}
		return all, nil
	case repeatable:
		return nil, errors.New("takes a value or a list of values")
	default:
		return nil, errors.New("takes a single value")
	}
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }
