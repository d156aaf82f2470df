package progress

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/output"
)

const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

// live redraws its lines in place.
type live struct {
	Terminal
	mu    sync.Mutex
	state State
	begun time.Time
	drawn int // lines on the screen that are ours
	frame int
	stop  chan struct{}
	ended sync.WaitGroup
}

func newLive(terminal Terminal) *live {
	l := &live{Terminal: terminal, begun: terminal.Now(), stop: make(chan struct{})}
	l.ended.Go(l.spin)
	return l
}

// spin keeps the display moving while nothing new happens.
func (l *live) spin() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.mu.Lock()
			l.frame++
			l.draw("")
			l.mu.Unlock()
		}
	}
}

// Update implements Display.
func (l *live) Update(state State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	l.draw("")
}

// Close implements Display.
func (l *live) Close(succeeded bool) {
	close(l.stop)
	l.ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	mark := output.Red + "✗"
	if succeeded {
		mark = output.Green + "✓"
	}
	l.draw(mark)
}

// draw replaces what was drawn before. The mark tells how it ended.
func (l *live) draw(mark string) {
	if l.state.Title == "" {
		return
	}
	var text strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", l.drawn)
	}
	lines := l.lines(mark)
	for _, line := range lines {
		text.WriteString("\r\x1b[2K" + line + "\n")
	}
	if len(lines) < l.drawn {
		text.WriteString("\x1b[J")
	}
	l.drawn = len(lines)
	fmt.Fprint(l.Out, text.String())
}

func (l *live) lines(mark string) []string {
	now := l.Now()
	ended := mark != ""
	if !ended {
		mark = output.Yellow + l.spinner()
	}
	progress := ""
	if n := len(l.state.Steps); n > 0 {
		progress = fmt.Sprintf("%d/%d  ", l.state.done(), n)
	}
	lines := []string{l.line(mark, l.state.Title+"  ", progress+seconds(now.Sub(l.begun)))}
	width := 0
	for _, step := range l.state.Steps {
		width = max(width, utf8.RuneCountInString(step.Name))
	}
	for _, step := range l.state.Steps {
		name := step.Name + strings.Repeat(" ", width-utf8.RuneCountInString(step.Name)+2)
		lines = append(lines, "  "+l.line(l.mark(step, ended), name, strings.TrimSpace(step.took(now)+"  "+note(step))))
	}
	if l.state.Message != "" {
		lines = append(lines, "  "+l.line(" ", "", l.state.Message))
	}
	return lines
}

func (l *live) mark(step Step, ended bool) string {
	switch {
	case step.Phase == v1alpha1.TaskSucceeded:
		return output.Green + "✓"
	case step.Phase == v1alpha1.TaskPending:
		return output.Dim + "·"
	case step.Phase == v1alpha1.TaskRunning && !ended:
		return output.Yellow + l.spinner()
	case step.Phase == v1alpha1.TaskRunning:
		return output.Yellow + "·"
	default:
		return output.Red + "✗"
	}
}

func (l *live) spinner() string {
	all := []rune(frames)
	return string(all[l.frame%len(all)])
}

// note is what there is to say of a step besides its name and time.
func note(step Step) string {
	if step.Phase == v1alpha1.TaskSucceeded {
		return ""
	}
	if step.Attempts > 1 {
		return strings.TrimSpace(fmt.Sprintf("attempt %d  %s", step.Attempts, step.Message))
	}
	return step.Message
}

// line puts a mark before a text that fits into the rest of a line: one that wrapped could not be redrawn.
func (l *live) line(mark, bright, faint string) string {
	const margin = 8 // indentation and mark, and a column that stays free
	room := max(l.Width()-margin, 20)
	bright, faint = clip(bright, room), clip(faint, room-min(utf8.RuneCountInString(bright), room))
	if !l.Color {
		return strings.TrimRight(plainMark(mark)+" "+bright+faint, " ")
	}
	return mark + output.Reset + " " + bright + output.Dim + faint + output.Reset
}

// plainMark takes the colour off a mark.
func plainMark(mark string) string {
	if _, after, ok := strings.Cut(mark, "m"); ok {
		return after
	}
	return mark
}

// clip cuts a text at its first line's end, and to a number of characters.
func clip(text string, room int) string {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	runes := []rune(text)
	if len(runes) <= room {
		return text
	}
	if room < 1 {
		return ""
	}
	return string(runes[:room-1]) + "…"
}
