// Package auth is the commands about who the user is: login, logout, whoami, and the two that let kubectl use the same
// login, kubeconfig and credential. They are commands of the root, not of a noun.
package auth

import (
	"context"

	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// keep remembers a session, or with an empty one forgets it.
func keep(ctx context.Context, s *session.Session, name string, token config.Token) error {
	store, err := s.Store()
	if err != nil {
		return err
	}
	_, err = store.UpdateToken(ctx, name, func(config.Token) (config.Token, error) { return token, nil })
	return err
}
