package terraform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Event is a step of an operation: something that is being made, or has come to an end.
type Event struct {
	Done, Total int
	Address     string // of the resource
	Action      string // creating, created, …, failed
	Elapsed     time.Duration
}

// String is the event as people read it: 12/36 aws_eks_cluster.this creating 3m10s.
func (e Event) String() string {
	line := fmt.Sprintf("%d/%d %s %s", e.Done, e.Total, e.Address, e.Action)
	if e.Elapsed > 0 {
		line += " " + e.Elapsed.Round(time.Second).String()
	}
	return line
}

// Diagnostic is a complaint of the engine or a provider.
type Diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
}

func (d Diagnostic) String() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{d.Address, d.Summary, d.Detail} {
		if part = strings.Join(strings.Fields(part), " "); part != "" {
			parts = append(parts, strings.TrimSuffix(part, "."))
		}
	}
	return strings.Join(parts, ": ")
}

// message is a line of the engine's machine-readable output.
type message struct {
	Type       string     `json:"type"`
	Diagnostic Diagnostic `json:"diagnostic"`
	Hook       struct {
		Resource struct {
			Addr string `json:"addr"`
		} `json:"resource"`
		Action         string  `json:"action"`
		ElapsedSeconds float64 `json:"elapsed_seconds"`
	} `json:"hook"`
}

// verbs are what the engine's actions are called while they last, and afterwards.
var verbs = map[string][2]string{
	"create": {"creating", "created"}, "update": {"changing", "changed"}, "delete": {"destroying", "destroyed"},
	"read": {"reading", "read"}, "replace": {"replacing", "replaced"}, "forget": {"forgetting", "forgotten"},
}

// stream reads the engine's machine-readable output as it is written: a line each, of any length.
type stream struct {
	total    int
	progress func(Event)
	redact   *Redactor

	done        int
	diagnostics []Diagnostic
	pending     bytes.Buffer
}

// Write implements io.Writer. It never fails: an operation is not ended by output that nobody understands.
func (s *stream) Write(data []byte) (int, error) {
	s.pending.Write(data)
	for {
		end := bytes.IndexByte(s.pending.Bytes(), '\n')
		if end < 0 {
			return len(data), nil
		}
		s.line(s.pending.Next(end + 1))
	}
}

func (s *stream) line(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return
	}
	verb, known := verbs[m.Hook.Action]
	if !known {
		verb = [2]string{m.Hook.Action, m.Hook.Action + " done"}
	}
	event := Event{Total: s.total, Address: m.Hook.Resource.Addr, Action: verb[0], Elapsed: time.Duration(m.Hook.ElapsedSeconds * float64(time.Second))}
	switch m.Type {
	case "apply_start", "apply_progress":
	case "apply_complete":
		event.Action = verb[1]
		if m.Hook.Action != "read" {
			s.done++
		}
	case "apply_errored":
		event.Action = "failed"
	case "diagnostic":
		s.diagnostics = append(s.diagnostics, Diagnostic{
			Severity: m.Diagnostic.Severity, Address: m.Diagnostic.Address,
			Summary: s.redact.Text(m.Diagnostic.Summary), Detail: s.redact.Text(m.Diagnostic.Detail),
		})
		return
	default:
		return
	}
	s.total = max(s.total, s.done)
	event.Done, event.Total = s.done, s.total
	if s.progress != nil {
		s.progress(event)
	}
}
