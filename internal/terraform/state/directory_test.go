package state_test

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
	"plasmacloud.io/plasmacloud/internal/terraform/state/statetest"
)

func TestDirectory(t *testing.T) {
	statetest.Run(t, func(t *testing.T) state.Store {
		store, err := state.NewDirectory(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return store
	})
}
