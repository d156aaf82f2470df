// Package output writes data for people (tables, in colour on a terminal) and for programs (JSON, YAML, names). It goes
// to standard output; progress and messages go elsewhere.
package output

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// The formats of -o.
const (
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatName  = "name"
)

// Formats lists them.
func Formats() []string { return []string{FormatTable, FormatJSON, FormatYAML, FormatName} }

// Printer writes in one format.
type Printer struct {
	Out    io.Writer
	Format string
	Color  bool
}

// View is one thing to print, in all the ways it can be asked for.
type View struct {
	Value any      // for JSON and YAML
	Names []string // one a line, fit to be arguments of other commands
	Table []Section
}

// Section is a part of what people see: a table, with a heading where there are several.
type Section struct {
	Heading string
	Table   Table
}

// Print writes the view.
func (p *Printer) Print(view View) error {
	switch p.Format {
	case FormatJSON:
		encoder := json.NewEncoder(p.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(view.Value)
	case FormatYAML:
		content, err := yaml.Marshal(view.Value)
		if err != nil {
			return err
		}
		_, err = p.Out.Write(content)
		return err
	case FormatName:
		for _, name := range view.Names {
			if _, err := fmt.Fprintln(p.Out, name); err != nil {
				return err
			}
		}
		return nil
	default:
		return p.sections(view.Table)
	}
}

func (p *Printer) sections(sections []Section) error {
	for i, section := range sections {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		if section.Heading != "" {
			fmt.Fprintln(p.Out, section.Heading)
		}
		if err := section.Table.write(p.Out, p.Color); err != nil {
			return err
		}
	}
	return nil
}
