package output

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Table is rows of cells, aligned in columns. Without a header it is a list of properties.
type Table struct {
	Header []string
	Rows   [][]string
	Indent string
}

// Columns with these headings, and properties of these names, hold states, which have colours.
var states = map[string]bool{"STATUS": true, "PHASE": true, "READY": true, "Status:": true, "Phase:": true}

// The colours of states; what is in none of them goes on.
var (
	good = map[string]bool{"RUNNING": true, "Running": true, "Succeeded": true, "True": true, "Ready": true, "yes": true, "ok": true}
	bad  = map[string]bool{"FAILED": true, "Failed": true, "False": true, "no": true, "Cancelled": true}
)

// Escape sequences of a terminal.
const (
	Bold   = "\x1b[1m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Dim    = "\x1b[2m"
	Reset  = "\x1b[0m"
)

// StateColor is the colour of a state.
func StateColor(state string) string {
	switch {
	case good[state]:
		return Green
	case bad[state]:
		return Red
	default:
		return Yellow
	}
}

func (t *Table) write(w io.Writer, color bool) error {
	lines := t.Rows
	if t.Header != nil {
		lines = append([][]string{t.Header}, t.Rows...)
	}
	widths := widths(lines)
	for i, line := range lines {
		var text strings.Builder
		text.WriteString(t.Indent)
		for column, cell := range line {
			cell = printable(cell)
			padded := cell
			if column < len(line)-1 {
				padded += strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+2)
			}
			if color {
				padded = t.paint(i, column, line, cell) + strings.TrimPrefix(padded, cell)
			}
			text.WriteString(padded)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(text.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) paint(line, column int, cells []string, cell string) string {
	switch {
	case t.Header != nil && line == 0, t.Header == nil && column == 0:
		return Bold + cell + Reset
	case cell == "" || cell == "-":
		return cell
	case !good[cell] && !bad[cell] && t.Header != nil && t.Header[column] == "READY": // a number of ready ones
		return cell
	case t.Header != nil && states[t.Header[column]], t.Header == nil && states[cells[0]]:
		return StateColor(cell) + cell + Reset
	default:
		return cell
	}
}

func widths(lines [][]string) []int {
	var widths []int
	for _, line := range lines {
		for column, cell := range line {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(printable(cell)))
		}
	}
	return widths
}

// printable keeps a cell on its line, and keeps what others wrote from steering the terminal.
func printable(cell string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return -1
		}
		return r
	}, cell)
}

// Age is the time since, as kubectl shows it.
func Age(now time.Time, since metav1.Time) string {
	if since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(since.Time))
}

// Until is the time that is left, as kubectl shows it.
func Until(now time.Time, end *metav1.Time) string {
	switch {
	case end == nil:
		return "never"
	case !end.After(now):
		return "expired"
	default:
		return "in " + duration.HumanDuration(end.Sub(now))
	}
}

// Or is the text, or a dash where it is empty.
func Or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
