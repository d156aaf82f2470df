// Package encryption changes the key that a cluster's Secrets are encrypted with, while the cluster works: a new key is
// added, every API server learns it, everything is written anew, and the old key goes. How far that is follows from the
// keys alone, so a rotation that was cut off at any point is continued by the next.
package encryption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/metadata"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Keys is where the cluster's keys are kept. What is stored there reaches every server's file by itself.
type Keys interface {
	Load(ctx context.Context) (pki.Encryption, error)
	// Store replaces what was loaded last, and fails if somebody else has done so meanwhile.
	Store(ctx context.Context, keys pki.Encryption) error
}

// Server is an API server.
type Server struct {
	Name string
	// Loaded is the hash of the configuration that it works with.
	Loaded func(ctx context.Context) (string, error)
}

// Rotation is what a rotation needs.
type Rotation struct {
	Keys Keys
	// Servers are the API servers of the cluster at the moment.
	Servers func(ctx context.Context) ([]Server, error)
	Objects metadata.Interface
	// Report tells a person how far it is.
	Report func(message string)
	// Patience is how long API servers may take to load new keys, which they look for once a minute.
	Patience time.Duration
}

// Result is what a rotation has done.
type Result struct {
	Key     string   `json:"key"`
	Dropped []string `json:"dropped"`
	Secrets int      `json:"secrets"`
	Servers []string `json:"servers"`
	// Resumed tells that the rotation was begun by an earlier one.
	Resumed bool `json:"resumed"`
}

// Run rotates the key. If an earlier rotation was cut off, it is finished instead.
func (r *Rotation) Run(ctx context.Context) (Result, error) {
	keys, err := r.Keys.Load(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Resumed: keys.Stage() != pki.Settled}
	if result.Resumed {
		r.Report(fmt.Sprintf("continuing the rotation that was begun: keys %s, stage %s", keys, keys.Stage()))
	}
	if keys.Stage() == pki.Settled {
		if keys, err = r.begin(ctx, keys); err != nil {
			return result, err
		}
	}
	if keys.Stage() == pki.Adding {
		if err := r.await(ctx, keys); err != nil {
			return result, err
		}
		keys = keys.Promote()
		if err := r.store(ctx, keys, "writing with "+keys.Names()[0]); err != nil {
			return result, err
		}
	}
	result.Key, result.Dropped = keys.Names()[0], keys.Names()[1:]
	if err := r.await(ctx, keys); err != nil {
		return result, err
	}
	if result.Secrets, err = r.rewrite(ctx); err != nil {
		return result, err
	}
	// A server that joined meanwhile has the keys from the others; one that came back may not have them yet.
	if err := r.await(ctx, keys); err != nil {
		return result, err
	}
	keys = keys.Settle()
	if err := r.store(ctx, keys, fmt.Sprintf("dropping %v", result.Dropped)); err != nil {
		return result, err
	}
	if err := r.await(ctx, keys); err != nil {
		return result, err
	}
	servers, err := r.Servers(ctx)
	for _, server := range servers {
		result.Servers = append(result.Servers, server.Name)
	}
	return result, err
}

// begin adds a new key. With one API server it writes at once: there is no other that could not read it.
func (r *Rotation) begin(ctx context.Context, keys pki.Encryption) (pki.Encryption, error) {
	// Servers that do not know the present keys would not learn the new ones either.
	if err := r.await(ctx, keys); err != nil {
		return keys, err
	}
	servers, err := r.Servers(ctx)
	if err != nil {
		return keys, err
	}
	if keys, err = keys.Add(); err != nil {
		return keys, err
	}
	if len(servers) == 1 {
		keys = keys.Promote()
	}
	return keys, r.store(ctx, keys, "adding "+keys.Promote().Names()[0])
}

func (r *Rotation) store(ctx context.Context, keys pki.Encryption, message string) error {
	r.Report(message)
	if err := r.Keys.Store(ctx, keys); err != nil {
		return fmt.Errorf("%s: %w", message, err)
	}
	return nil
}

// await returns once all API servers work with the keys.
func (r *Rotation) await(ctx context.Context, keys pki.Encryption) error {
	limited, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var behind []string
	var problem error
	said := false
	for {
		late, err := r.behind(limited, keys)
		if err == nil && len(late) == 0 {
			return nil
		}
		if limited.Err() == nil { // else it says only that time is over
			behind, problem = late, err
		}
		if !said {
			said = true
			r.Report(fmt.Sprintf("waiting for %v to load the keys; an API server looks once a minute", behind))
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errors.Join(fmt.Errorf("%v did not load the keys %s within %v: see that k8shost runs there, or restart it, and run this again: it goes on from here",
				behind, keys, r.Patience), problem)
		}
	}
}

// behind are the API servers that work with other keys.
func (r *Rotation) behind(ctx context.Context, keys pki.Encryption) (behind []string, err error) {
	servers, err := r.Servers(ctx)
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, errors.New("the cluster names no API server")
	}
	for _, server := range servers {
		loaded, problem := server.Loaded(ctx)
		if problem != nil {
			err = fmt.Errorf("ask %s: %w", server.Name, problem)
		}
		if problem != nil || loaded != keys.Hash() {
			behind = append(behind, server.Name)
		}
	}
	return behind, err
}
