package remote

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// plain is what no shell reads anything into.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote makes words into a command line that a shell splits into exactly these words.
func quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if plain.MatchString(word) {
			quoted[i] = word
			continue
		}
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// variable is the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// assignments are the environment as a shell reads it, one variable after the other.
func assignments(env map[string]string) (string, error) {
	names := make([]string, 0, len(env))
	for name, value := range env {
		if !variable.MatchString(name) || strings.HasPrefix(name, "plasma_") {
			return "", fmt.Errorf("%q cannot be the name of an environment variable", name)
		}
		if strings.ContainsRune(value, 0) {
			return "", fmt.Errorf("the environment variable %s has a zero byte in it", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		text.WriteString("export " + name + "=" + quote(env[name]) + "\n")
	}
	return text.String(), nil
}
