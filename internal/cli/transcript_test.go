package cli

import (
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// TestTranscripts replays every testdata/*.txt: lines that begin with "$ " are commands, what follows is what they
// print. Standard error is marked with "2> ", an exit code other than 0 is in brackets. A command may begin with
// NAME=value, and end with "<<< 'text'" for standard input. All commands of a file work in one world.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			var replayed strings.Builder
			for line := range strings.Lines(string(content)) {
				switch {
				case strings.HasPrefix(line, "#"):
					if s := replayed.String(); s != "" && !strings.HasPrefix(lastLine(s), "#") {
						replayed.WriteString("\n")
					}
					replayed.WriteString(line)
				case strings.HasPrefix(line, "$ "):
					if s := replayed.String(); s != "" && !strings.HasPrefix(lastLine(s), "#") {
						replayed.WriteString("\n")
					}
					replayed.WriteString(line + w.replay(strings.TrimSpace(line[2:])))
				}
			}
			golden(t, file, replayed.String())
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file, have string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wanted, had := strings.Split(string(want), "\n"), strings.Split(have, "\n")
	for i := range max(len(wanted), len(had)) {
		if i >= len(wanted) || i >= len(had) || wanted[i] != had[i] {
			t.Fatalf("%s:%d differs (go test -update writes it anew):\n%s", file, i+1, strings.Join(had[max(0, i-3):min(len(had), i+4)], "\n"))
		}
	}
}

// replay runs a line of a transcript and returns what it printed.
func (w *world) replay(line string) string {
	line, input, _ := strings.Cut(line, " <<< ")
	words := split(strings.ReplaceAll(line, "$DIR", w.dir))
	var variables []string
	for strings.Contains(words[0], "=") {
		name, value, _ := strings.Cut(words[0], "=")
		variables = append(variables, name)
		w.env[name] = value
		words = words[1:]
	}
	defer func() {
		for _, name := range variables {
			delete(w.env, name)
		}
	}()
	if words[0] != "cloud" {
		w.t.Fatalf("%q is no command of cloud", line)
	}
	var out, err buffer
	code := w.start(w.t.Context(), strings.ReplaceAll(strings.Trim(input, "'"), `\n`, "\n"), &out, &err, words[1:]...)
	text := out.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for line := range strings.Lines(err.String()) {
		text += "2> " + line
	}
	if code != 0 {
		text += fmt.Sprintf("[%d]\n", code)
	}
	return strings.NewReplacer(w.dir, "$DIR", w.iam.URL, "$IAM", base64.StdEncoding.EncodeToString([]byte(w.iam.ca())), "$CA").Replace(text)
}

// split divides a line into words, which may be in single quotes.
func split(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		} else {
			words = append(words, part)
		}
	}
	return words
}
