package org

import (
	"context"
	"errors"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// OrMine is the organization asked for, or the user's own.
func OrMine(ctx context.Context, s *session.Session, asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	me, err := s.Whoami(ctx)
	if err != nil || me.Organization == "" {
		return "", exit.With(exit.Usage, "`cloud org list` lists organizations", errors.New("--org is missing, and it is not known which organization is yours"))
	}
	return me.Organization, nil
}
