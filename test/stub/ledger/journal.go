// Package ledger is what the stubs of clouds keep their books with. A Journal remembers the requests: what was made, and
// what nobody knew an answer to; and it spoils some of them if a test asks for it. A Book is a journal with the
// resources of a cloud that knows them by path, and with operations that take their time.
package ledger

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Fault spoils requests whose name contains a text, or all of them if it is empty.
type Fault struct {
	Request string
	Status  int
	Code    string // in the cloud's words, where it has some
	Times   int
}

// Journal is what a stub remembers of requests. Unknown, Created, Requests, Spoil, Revoke and Deny are for tests; the other
// methods are for the stub, which holds the lock while it answers.
type Journal struct {
	sync.Mutex
	created  map[string]int
	requests map[string]int
	unknown  []string
	faults   []*Fault
	revoked  bool
	denied   []string
}

// Unknown are the requests that the stub had no answer to.
func (j *Journal) Unknown() []string {
	j.Lock()
	defer j.Unlock()
	return slices.Clone(j.unknown)
}

// Created counts what was ever made, by kind.
func (j *Journal) Created() map[string]int {
	j.Lock()
	defer j.Unlock()
	return maps.Clone(j.created)
}

// Requests counts requests by name.
func (j *Journal) Requests() map[string]int {
	j.Lock()
	defer j.Unlock()
	return maps.Clone(j.requests)
}

// Spoil makes some requests fail.
func (j *Journal) Spoil(fault Fault) {
	j.Lock()
	defer j.Unlock()
	j.faults = append(j.faults, &fault)
}

// Revoke makes the credentials worthless, or good again.
func (j *Journal) Revoke(revoked bool) {
	j.Lock()
	defer j.Unlock()
	j.revoked = revoked
}

// Revoked tells whether the credentials are worthless.
func (j *Journal) Revoked() bool { return j.revoked }

// Deny takes permissions away, as the cloud names them. Only who asks for them is told.
func (j *Journal) Deny(permissions ...string) {
	j.Lock()
	defer j.Unlock()
	j.denied = permissions
}

// Denied tells whether a permission was taken away.
func (j *Journal) Denied(permission string) bool { return slices.Contains(j.denied, permission) }

// DeniedAll are the permissions that were taken away.
func (j *Journal) DeniedAll() []string { return append([]string{}, j.denied...) }

// Count notes a request.
func (j *Journal) Count(request string) { increment(&j.requests, request) }

// CountMade notes that something was made.
func (j *Journal) CountMade(kind string) { increment(&j.created, kind) }

// Missing notes a request that the stub has no answer to.
func (j *Journal) Missing(request string) { j.unknown = append(j.unknown, request) }

// Spoilt is the fault that a request meets, or nil.
func (j *Journal) Spoilt(request string) *Fault {
	for i, fault := range j.faults {
		if !strings.Contains(request, fault.Request) {
			continue
		}
		if fault.Times--; fault.Times <= 0 {
			j.faults = slices.Delete(j.faults, i, i+1)
		}
		return fault
	}
	return nil
}

func increment(counts *map[string]int, name string) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[name]++
}
