package progress

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// signalling tells when something was written.
type signalling struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan string
}

func (s *signalling) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written <- string(p)
	return s.text.Write(p)
}

func TestALongStepSaysThatItIsAlive(t *testing.T) {
	out := &signalling{written: make(chan string, 1000)}
	reporter := New(out, 12)
	reporter.beat = time.Millisecond
	finish := reporter.Start(3, "Kubernetes v1.36.3")
	deadline := time.After(10 * time.Second)
	for {
		select {
		case line := <-out.written:
			if !strings.HasPrefix(line, "[ 3/12] Kubernetes v1.36.3: ") {
				t.Fatalf("line %q", line)
			}
			if strings.Contains(line, "still building, 0 s") {
				finish("done")
				if all := out.text.String(); !strings.HasSuffix(all, "done in 0 s\n") {
					t.Errorf("ends with %q", all[max(0, len(all)-40):])
				}
				return
			}
		case <-deadline:
			t.Fatal("no sign of life")
		}
	}
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 KiB", 2048: "2 KiB", 5 << 20: "5 MiB", 3 << 29: "1.5 GiB"} {
		if got := Size(bytes); got != want {
			t.Errorf("Size(%d) = %s, want %s", bytes, got, want)
		}
	}
}
