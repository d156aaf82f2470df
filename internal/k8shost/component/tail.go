package component

import (
	"strings"
	"sync"
)

const tailBytes = 4096

// tail keeps the end of what was written, so that an error can quote a process's last words.
type tail struct {
	mu  sync.Mutex
	end []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return len(p), nil
}

// String returns the last lines, indented.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.end)), "\n")
	if len(lines) > 12 {
		lines = lines[len(lines)-12:]
	}
	return "  " + strings.Join(lines, "\n  ")
}
