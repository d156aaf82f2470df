package terraform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Finder tells which resources that a plan would create are in the cloud already: left behind by an operation that was
// killed before its state was written. It returns the IDs to import them by, by address; candidates that may not exist
// are fine.
type Finder interface {
	Find(ctx context.Context, stack string, missing []Change) (map[string]string, error)
}

// FinderFunc is a function that is a Finder.
type FinderFunc func(ctx context.Context, stack string, missing []Change) (map[string]string, error)

// Find implements Finder.
func (f FinderFunc) Find(ctx context.Context, stack string, missing []Change) (map[string]string, error) {
	return f(ctx, stack, missing)
}

// Finders asks several.
func Finders(all ...Finder) Finder {
	return FinderFunc(func(ctx context.Context, stack string, missing []Change) (map[string]string, error) {
		found := map[string]string{}
		for _, one := range all {
			ids, err := one.Find(ctx, stack, missing)
			if err != nil {
				return nil, err
			}
			maps.Copy(found, ids)
		}
		return found, nil
	})
}

// maxRounds is how often Adopt looks again: what is adopted may tell the names of more.
const maxRounds = 6

// Adopt takes what an operation that was killed has left behind into the stack, so that nothing is built twice, and
// returns the addresses. It is for the time after a failure: in a stack without one there is nothing to find.
func (w *Workspace) Adopt(ctx context.Context, finder Finder) ([]string, error) {
	var adopted []string
	absent := map[string]bool{} // addresses and IDs that turned out not to be there
	// What the state knows, and a killed removal has taken away, would be created by a plan too, and cannot be imported.
	known, err := w.State(ctx)
	if err != nil {
		return nil, err
	}
	for range maxRounds {
		plan, err := w.Plan(ctx, PlanOptions{})
		if err != nil {
			return adopted, err
		}
		missing := slices.DeleteFunc(slices.Clone(plan.Changes), func(c Change) bool {
			_, managed := known[c.Address]
			return managed || c.Effect != EffectCreate
		})
		ids, err := finder.Find(ctx, w.stack.Name, missing)
		if err != nil {
			return adopted, fmt.Errorf("find what was left behind of stack %s: %w", w.stack.Name, err)
		}
		before := len(adopted)
		for _, address := range slices.Sorted(maps.Keys(ids)) {
			candidate := address + "\x00" + ids[address]
			if absent[candidate] {
				continue
			}
			switch err := w.Import(ctx, address, ids[address]); {
			case err == nil:
				adopted = append(adopted, address)
			case isAbsent(err):
				absent[candidate] = true
			default:
				return adopted, err
			}
		}
		if len(adopted) == before {
			return adopted, nil
		}
	}
	return adopted, nil
}

// isAbsent tells whether an import has failed because there is nothing of that name.
func isAbsent(err error) bool {
	var failed *OperationError
	if !errors.As(err, &failed) {
		return false
	}
	for _, text := range []string{"Cannot import non-existent remote object", "couldn't find resource", "not found", "NotFound", "notFound", "404", "No association found"} {
		if strings.Contains(failed.Message, text) {
			return true
		}
	}
	return false
}
