package remote

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

const (
	maxOutput = 4 << 20
	maxLine   = 64 << 10
)

// listener hears what a supervised command writes, and where that ends. After stop it hears no more, whatever a session
// that was given up still receives.
type listener struct {
	finished chan struct{} // is closed when both streams have ended
	marker   string
	output   func(Line)

	mu       sync.Mutex
	streams  [2]stream
	stopped  bool
	exitCode string
}

// stream is one of the two.
type stream struct {
	all   limited
	line  []byte
	blank bool // an empty line was read, which may be the one before the end
	ended bool
}

func newListener(marker string, output func(Line)) *listener {
	if output == nil {
		output = func(Line) {}
	}
	l := &listener{finished: make(chan struct{}), marker: marker, output: output}
	for i := range l.streams {
		l.streams[i].all.most = maxOutput
	}
	return l
}

// hearer is one of the two streams, to be written to.
type hearer struct {
	*listener
	which int
}

func (l *listener) stdout() io.Writer { return hearer{l, 0} }
func (l *listener) stderr() io.Writer { return hearer{l, 1} }

func (h hearer) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.streams[h.which]
	if h.stopped || s.ended {
		return len(p), nil
	}
	_, _ = s.all.Write(p)
	for rest := p; len(rest) > 0 && !s.ended; {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		s.line = append(s.line, line...)
		if complete || len(s.line) > maxLine {
			h.hear(s, string(s.line))
			s.line = s.line[:0]
		}
		rest = after
	}
	return len(p), nil
}

// hear deals with a line.
func (h hearer) hear(s *stream, text string) {
	code, ended := strings.CutPrefix(text, h.marker+" ")
	if ended {
		s.ended = true
		h.exitCode = code
		if h.streams[0].ended && h.streams[1].ended {
			close(h.finished)
		}
		return
	}
	if s.blank {
		h.output(Line{Stderr: h.which == 1})
	}
	if s.blank = text == ""; !s.blank {
		h.output(Line{Text: text, Stderr: h.which == 1})
	}
}

func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// end is the exit code, "guard", or nothing where the supervisor did not come to it.
func (l *listener) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exitCode
}

// result is what was heard, without what the supervisor said.
func (l *listener) result() Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := func(s *stream) string {
		all := s.all.String()
		if cut := strings.LastIndex(all, "\n"+l.marker+" "); cut >= 0 {
			return all[:cut]
		}
		return all
	}
	return Result{Stdout: text(&l.streams[0]), Stderr: text(&l.streams[1]), Truncated: l.streams[0].all.over || l.streams[1].all.over}
}
