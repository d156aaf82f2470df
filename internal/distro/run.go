package distro

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/progress"
	"plasmacloud.io/plasmacloud/internal/release"
)

// lane is a queue of steps that run one after the other. Compilers fill all cores by themselves, so there is one lane
// for them; fetching and unpacking packages, which mostly waits, and packing images go on beside it.
type lane int

const (
	laneCompile lane = iota
	lanePack
)

// step is one thing to build, cached by its recipe and by the content of what it needs.
type step struct {
	name  string // of the cache entry
	title string // for people
	lane  lane
	needs []string

	// recipe adds to the key all that decides what comes out, besides the needed steps' files.
	recipe func(*cache.Key)

	// build fills the empty directory dir.
	build func(ctx context.Context, in inputs, dir string) error

	// artifacts says which of the entry's files are part of the release. Nil if none is.
	artifacts func(*cache.Entry) ([]placed, error)
}

// placed is an artifact and the file it is copied from.
type placed struct {
	release.Artifact
	source string
}

// inputs are the finished steps that a step needs, by name.
type inputs map[string]*cache.Entry

// path is where a step's file is; while only the recipe is asked for, it is just the file's name.
func (in inputs) path(step, file string) string {
	if entry := in[step]; entry != nil {
		return entry.Path(file)
	}
	return file
}

// runner builds steps and knows what was built.
type runner struct {
	store    *cache.Cache
	reporter *progress.Reporter
	rebuild  map[string]bool

	mu      sync.Mutex
	entries map[string]*cache.Entry
	built   int
}

// run builds the steps, each lane in order, a step once those it needs are there. It returns how many were not cached.
func (r *runner) run(ctx context.Context, steps []*step) (int, error) {
	r.entries = make(map[string]*cache.Entry)
	finished := make(map[string]chan struct{})
	numbers := make(map[string]int)
	lanes := make(map[lane][]*step)
	for i, s := range steps {
		finished[s.name], numbers[s.name] = make(chan struct{}), i+1
		lanes[s.lane] = append(lanes[s.lane], s)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, queue := range lanes {
		group.Go(func() error {
			for _, s := range queue {
				for _, need := range s.needs {
					select {
					case <-finished[need]:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				if err := r.step(ctx, s, numbers[s.name]); err != nil {
					return err
				}
				close(finished[s.name])
			}
			return nil
		})
	}
	err := group.Wait()
	return r.built, err
}

// step builds one step unless the cache has it.
func (r *runner) step(ctx context.Context, s *step, number int) error {
	in, key, err := r.resolve(s)
	if err != nil {
		return err
	}
	if r.rebuild[s.name] {
		if err := r.store.Remove(s.name, key); err != nil {
			return err
		}
	}
	entry, err := r.store.Lookup(s.name, key)
	if err != nil {
		return err
	}
	built := false
	if entry == nil {
		finish := r.reporter.Start(number, s.title)
		entry, built, err = r.store.Build(ctx, s.name, key, func(ctx context.Context, dir string) error { return s.build(ctx, in, dir) })
		if err != nil {
			finish("failed")
			return err
		}
		finish(fmt.Sprintf("done, %s,", progress.Size(entry.Size())))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[s.name] = entry
	if built {
		r.built++
	}
	return nil
}

// resolve finds the entries a step needs, and from them its key. A step that comes out the same as before does not make
// those that need it be built again: the key is made of what they need, not of how that was made.
func (r *runner) resolve(s *step) (inputs, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := make(inputs)
	key := cache.NewKey().Add("step", s.name)
	for _, need := range s.needs {
		entry := r.entries[need]
		if entry == nil {
			return nil, "", fmt.Errorf("build %s: %s is not there", s.name, need)
		}
		in[need] = entry
		for _, file := range entry.Files {
			key.Add("input", need, file.Name, file.SHA256)
		}
	}
	s.recipe(key)
	sum, err := key.Sum()
	if err != nil {
		return nil, "", fmt.Errorf("build %s: %w", s.name, err)
	}
	return in, sum, nil
}

// lookup finds a step that was built now or earlier, with nothing built; nil if it or what it needs is not there.
func (r *runner) lookup(s *step) (*cache.Entry, error) {
	if entry := r.entries[s.name]; entry != nil {
		return entry, nil
	}
	for _, need := range s.needs {
		if r.entries[need] == nil {
			return nil, nil
		}
	}
	_, key, err := r.resolve(s)
	if err != nil {
		return nil, err
	}
	entry, err := r.store.Lookup(s.name, key)
	if entry != nil {
		r.entries[s.name] = entry
	}
	return entry, err
}
