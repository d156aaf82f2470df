package progress

import (
	"fmt"
	"io"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// plain writes a line for each thing that changes. Logs keep it.
type plain struct {
	out   io.Writer
	now   func() time.Time
	begun time.Time
	last  State
}

// Update implements Display.
func (p *plain) Update(state State) {
	if p.begun.IsZero() {
		p.begun = p.now()
		fmt.Fprintf(p.out, "%s\n", state.Title)
	}
	before := map[string]Step{}
	if p.last.Title == state.Title {
		for _, step := range p.last.Steps {
			before[step.Name] = step
		}
	}
	for i, step := range state.Steps {
		if line := change(before[step.Name], step); line != "" {
			fmt.Fprintf(p.out, "  %d/%d %s: %s\n", i+1, len(state.Steps), step.Name, line)
		}
	}
	if state.Message != "" && state.Message != p.last.Message {
		fmt.Fprintf(p.out, "  %s\n", state.Message)
	}
	p.last = state
}

// change says what is new about a step, or nothing.
func change(before, now Step) string {
	if before.Phase == now.Phase && before.Attempts == now.Attempts && before.Message == now.Message {
		return ""
	}
	switch now.Phase {
	case v1alpha1.TaskPending:
		if now.Attempts == 0 {
			return ""
		}
		return strings.TrimSuffix(fmt.Sprintf("waits to try again, attempt %d failed: %s", now.Attempts, now.Message), ": ")
	case v1alpha1.TaskRunning:
		text := "running"
		if now.Attempts > 1 {
			text += fmt.Sprintf(" (attempt %d)", now.Attempts)
		}
		return strings.TrimSuffix(text+": "+now.Message, ": ")
	case v1alpha1.TaskSucceeded:
		return strings.TrimSpace("done " + now.took(now.Finished))
	default:
		return strings.TrimSuffix(strings.ToLower(string(now.Phase))+": "+now.Message, ": ")
	}
}

// Close implements Display.
func (p *plain) Close(succeeded bool) {
	if p.begun.IsZero() {
		return
	}
	if succeeded {
		fmt.Fprintf(p.out, "%s: done in %s\n", p.last.Title, seconds(p.now().Sub(p.begun)))
	}
}
