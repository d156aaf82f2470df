package session

import (
	"context"
	"fmt"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/iam"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
	access "plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
)

// Variables of the environment, which flags override.
const (
	VariableContext = "PLASMACLOUD_CONTEXT"
	VariableProject = "PLASMACLOUD_PROJECT"
	VariableToken   = "PLASMACLOUD_TOKEN"
)

// Store is the command line's configuration.
func (s *Session) Store() (*config.Store, error) { return config.Locate(s.Env) }

// ContextName is the name of the context asked for; empty for the current one.
func (s *Session) ContextName() string {
	if s.Flags.Context != "" {
		return s.Flags.Context
	}
	return s.Env(VariableContext)
}

// Context is the installation that the command works with.
func (s *Session) Context() (*config.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.context != nil {
		return s.context, nil
	}
	store, err := s.Store()
	if err != nil {
		return nil, err
	}
	file, err := store.Load()
	if err != nil {
		return nil, err
	}
	name := s.ContextName()
	if name == "" {
		name = file.CurrentContext
	}
	if name == "" {
		if len(file.Contexts) > 0 {
			return nil, exit.With(exit.LoggedOut, "choose one with `cloud context use`", fmt.Errorf("no context is chosen"))
		}
		return nil, exit.With(exit.LoggedOut, "install the platform here with `cloud up`, or name one that runs elsewhere with `cloud context add`",
			fmt.Errorf("no installation is known yet"))
	}
	found := file.Find(name)
	if found == nil {
		return nil, exit.NotFoundf("`cloud context list` lists them", "there is no context %q%s", name, command.DidYouMean(name, file.Names(), ""))
	}
	s.context = found
	return found, nil
}

// Project is the name of the project that the command works in.
func (s *Session) Project() (string, error) {
	if s.Flags.Project != "" {
		return s.Flags.Project, nil
	}
	if name := s.Env(VariableProject); name != "" {
		return name, nil
	}
	chosen, err := s.Context()
	if err != nil {
		return "", err
	}
	if chosen.Project == "" {
		return "", exit.With(exit.Usage, "choose one with `cloud project use`, or give --project", fmt.Errorf("no project is chosen"))
	}
	return chosen.Project, nil
}

// Namespace is where the project's resources live.
func (s *Session) Namespace() (string, error) {
	project, err := s.Project()
	if err != nil {
		return "", err
	}
	return v1alpha1.NamespacePrefix + project, nil
}

// IAM is the identity service of the context.
func (s *Session) IAM() (*iam.Client, error) {
	chosen, err := s.Context()
	if err != nil {
		return nil, err
	}
	if chosen.IAM == "" {
		return nil, exit.Refusedf("add one that has it with `cloud context add --iam`",
			"context %s names no identity service", chosen.Name)
	}
	return iam.New(chosen.IAM, chosen.CA)
}

// Whoami is who the user is, as the identity service says.
func (s *Session) Whoami(ctx context.Context) (*wire.Identity, error) {
	service, err := s.IAM()
	if err != nil {
		return nil, err
	}
	token, err := s.Token(ctx)
	if err != nil {
		return nil, err
	}
	return service.Whoami(ctx, token.AccessToken)
}

// ClusterAccess is a way into a cluster of the project that is in a cloud, with a token that was made just now.
func (s *Session) ClusterAccess(ctx context.Context, cluster string) (*access.Access, error) {
	project, err := s.Project()
	if err != nil {
		return nil, err
	}
	service, err := s.IAM()
	if err != nil {
		return nil, err
	}
	token, err := s.Token(ctx)
	if err != nil {
		return nil, err
	}
	made, err := service.Access(ctx, token.AccessToken, project, cluster)
	if err != nil {
		return nil, fmt.Errorf("have a token made for cluster %s: %w", cluster, err)
	}
	return made, nil
}

// Token is what the user shows to the management API and to the identity service. It is refreshed where it has to be.
func (s *Session) Token(ctx context.Context) (config.Token, error) {
	if token := s.Env(VariableToken); token != "" {
		return config.Token{AccessToken: token}, nil
	}
	chosen, err := s.Context()
	if err != nil {
		return config.Token{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token.AccessToken != "" && !s.token.Expires(s.Now()) {
		return s.token, nil
	}
	store, err := s.Store()
	if err != nil {
		return config.Token{}, err
	}
	token, err := store.Token(chosen.Name)
	if err != nil {
		return config.Token{}, err
	}
	if token.AccessToken == "" {
		return config.Token{}, exit.With(exit.LoggedOut, "log in with `cloud login`", fmt.Errorf("you are not logged in to %s", chosen.Name))
	}
	if token.Expires(s.Now()) {
		if token, err = s.refresh(ctx, store, chosen); err != nil {
			return config.Token{}, err
		}
	}
	s.token = token
	return token, nil
}

// refresh continues the session, unless another command has done so meanwhile.
func (s *Session) refresh(ctx context.Context, store *config.Store, chosen *config.Context) (config.Token, error) {
	service, err := iam.New(chosen.IAM, chosen.CA)
	if err != nil {
		return config.Token{}, err
	}
	return store.UpdateToken(ctx, chosen.Name, func(token config.Token) (config.Token, error) {
		if token.AccessToken != "" && !token.Expires(s.Now()) {
			return token, nil
		}
		ended := func(err error) error {
			return exit.With(exit.LoggedOut, "log in again with `cloud login`", fmt.Errorf("your session at %s has ended: %w", chosen.Name, err))
		}
		if token.RefreshToken == "" || chosen.IAM == "" {
			return token, ended(fmt.Errorf("the token has expired"))
		}
		renewed, err := service.Refresh(ctx, token.RefreshToken)
		switch {
		case err == nil:
			return config.Token{AccessToken: renewed.AccessToken, ExpiresAt: renewed.ExpiresAt, RefreshToken: renewed.RefreshToken}, nil
		case exit.Of(err) == exit.LoggedOut:
			return token, ended(err)
		default:
			return token, fmt.Errorf("refresh session: %w", err)
		}
	})
}
