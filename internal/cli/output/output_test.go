package output

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var view = View{
	Value: map[string]any{"name": "a<b"},
	Names: []string{"a", "b"},
	Table: []Section{
		{Table: Table{Header: []string{"NAME", "STATUS", "WHAT"}, Rows: [][]string{{"a", "RUNNING", "x"}, {"länger", "FAILED", ""}, {"c", "-", "two\nlines \x1b[2Jgone"}}}},
		{Heading: "More:", Table: Table{Indent: "  ", Rows: [][]string{{"Status:", "PROVISIONING"}, {"Name:", "x"}}}},
	},
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		FormatJSON: "{\n  \"name\": \"a<b\"\n}\n",
		FormatYAML: "name: a<b\n",
		FormatName: "a\nb\n",
		FormatTable: "NAME    STATUS   WHAT\n" +
			"a       RUNNING  x\n" +
			"länger  FAILED\n" +
			"c       -        two lines [2Jgone\n" +
			"\nMore:\n" +
			"  Status:  PROVISIONING\n" +
			"  Name:    x\n",
	} {
		var out strings.Builder
		if err := (&Printer{Out: &out, Format: format}).Print(view); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
	}
}

func TestColoursDoNotMoveColumns(t *testing.T) {
	var out strings.Builder
	if err := (&Printer{Out: &out, Color: true}).Print(view); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		Bold + "NAME" + Reset + "    " + Bold + "STATUS" + Reset + "   ",
		"a       " + Green + "RUNNING" + Reset + "  x",
		"länger  " + Red + "FAILED" + Reset,
		Bold + "Status:" + Reset + "  " + Yellow + "PROVISIONING" + Reset,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%q", want, out.String())
		}
	}
}

func TestTimes(t *testing.T) {
	now := time.Now()
	later, before := metav1.NewTime(now.Add(90*time.Minute)), metav1.NewTime(now.Add(-time.Second))
	for want, have := range map[string]string{
		"90m": Age(now, metav1.NewTime(now.Add(-90*time.Minute))), "-": Age(now, metav1.Time{}),
		"never": Until(now, nil), "expired": Until(now, &before), "in 90m": Until(now, &later),
	} {
		if have != want {
			t.Errorf("%q, not %q", have, want)
		}
	}
}
