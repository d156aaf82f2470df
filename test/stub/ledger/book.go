package ledger

import (
	"fmt"
	"strings"
	"time"
)

// Document is a resource, or a part of one.
type Document = map[string]any

// Book holds the resources of a cloud that knows them by path, such as projects/p/global/networks/n. Inventory and
// Change are for tests; the other methods, and the resources, are for the stub, which holds the lock while it answers.
type Book struct {
	Journal
	Resources map[string]Document

	delay      time.Duration
	now        func() time.Time
	serial     int
	operations []*Operation
}

// Operation is something that takes its time.
type Operation struct {
	Name   string
	Target string // path of the resource
	began  time.Time
	end    func()
}

// Done tells whether an operation has come to its end.
func (o *Operation) Done() bool { return o.end == nil }

// NewBook is one without resources. Operations take as long as the delay.
func NewBook(delay time.Duration, now func() time.Time) *Book {
	return &Book{Resources: map[string]Document{}, delay: delay, now: now}
}

// Inventory counts what exists, by kind.
func (b *Book) Inventory() map[string]int {
	b.Lock()
	defer b.Unlock()
	b.Settle()
	counts := map[string]int{}
	for path := range b.Resources {
		counts[KindOf(path)]++
	}
	return counts
}

// Change alters resources behind everybody's back: drift. It returns how many there were.
func (b *Book) Change(kind string, change func(Document)) int {
	b.Lock()
	defer b.Unlock()
	changed := 0
	for path, resource := range b.Resources {
		if KindOf(path) == kind {
			change(resource)
			changed++
		}
	}
	return changed
}

// KindOf is the last but one part of a path.
func KindOf(path string) string {
	parts := strings.Split(path, "/")
	return parts[len(parts)-2]
}

// Make puts a new resource into the book.
func (b *Book) Make(path string, resource Document) {
	b.Resources[path] = resource
	b.CountMade(KindOf(path))
}

// Next is a number that nobody has yet.
func (b *Book) Next() int {
	b.serial++
	return b.serial
}

// Begin begins an operation; what it does is done when it ends.
func (b *Book) Begin(target string, end func()) *Operation {
	begun := &Operation{Name: fmt.Sprintf("operation-%d", b.Next()), Target: target, began: b.now(), end: end}
	b.operations = append(b.operations, begun)
	b.Settle()
	return begun
}

// Operation is one by its name, or nil.
func (b *Book) Operation(name string) *Operation {
	for _, one := range b.operations {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// Settle ends the operations whose time has come, in the order in which they began.
func (b *Book) Settle() {
	for _, one := range b.operations {
		if one.end != nil && !b.now().Before(one.began.Add(b.delay)) {
			one.end()
			one.end = nil
		}
	}
}
