package k8shost

import (
	"context"
	"errors"
	"fmt"
	"os"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// prepareSecrets makes sure that the server has the cluster's authorities (its own, new ones, or those of the cluster
// that it joins), certificates for its programs, kubeconfigs, and the token.
func (s *server) prepareSecrets(ctx context.Context) error {
	given, err := s.givenToken()
	if err != nil {
		return err
	}
	initialized, err := s.pki.Initialized()
	if err != nil {
		return err
	}
	switch {
	case initialized:
	case s.config.ServerURL != "":
		if err := s.fetchAuthorities(ctx, given); err != nil {
			return err
		}
	case given.CAHash() != "":
		// Refused before a new authority is made: it would stand in the way of the corrected command.
		return errors.New("--token belongs to another cluster: it names a CA, and a new cluster makes its own: " +
			"join that cluster with --server, or start a new one with a token that is a plain password, or none")
	}
	renewals, err := s.pki.Ensure(s.leaves)
	if err != nil {
		return err
	}
	for _, renewal := range renewals {
		s.log.Debug("certificate issued", "name", renewal.Name, "reason", renewal.Reason, "expires", renewal.NotAfter)
	}
	if err := s.settleToken(given); err != nil {
		return err
	}
	return s.writeKubeconfigs()
}

// givenToken is the token from the command line, the environment or a file; empty where none was given.
func (s *server) givenToken() (token.Token, error) {
	text, err := s.config.ReadToken()
	if err != nil || text == "" {
		return token.Token{}, err
	}
	return token.Parse(text.Reveal())
}

// fetchAuthorities gets the cluster's authorities from a running server.
func (s *server) fetchAuthorities(ctx context.Context, given token.Token) error {
	ctx, cancel := soon(ctx)
	defer cancel()
	s.log.Info("joining", "server", s.config.ServerURL)
	ca, err := discover(ctx, s.config.ServerURL, given)
	if err != nil {
		return err
	}
	client, err := join.NewClient(s.config.ServerURL, ca, given)
	if err != nil {
		return err
	}
	bundle, err := join.FetchServerBundle(ctx, client, given)
	if err != nil {
		return err
	}
	return pki.WriteBundle(s.pki.Dir(), bundle)
}

// settleToken decides the cluster's token: the one that is kept, or the one given, or a new one. The kept one is the
// cluster's, so another one given is a mistake.
func (s *server) settleToken(given token.Token) error {
	caHash, err := s.caHash()
	if err != nil {
		return err
	}
	kept, err := s.keptToken()
	if err != nil {
		return err
	}
	switch {
	case given.CAHash() != "" && given.CAHash() != caHash:
		return fmt.Errorf("--token belongs to another cluster: it names CA %.12s…, and the CA in %s is %.12s…",
			given.CAHash(), s.pki.Dir(), caHash)
	case kept.JoinsServers() && given.JoinsServers() && kept.Password() != given.Password():
		return fmt.Errorf("--token is not the token of the cluster in %s, which is in %s: leave --token out, or give that one",
			s.dir.Path(), s.dir.Token())
	case kept.JoinsServers():
		s.token = kept
	case given.JoinsServers():
		s.token = given.WithCA(caHash)
	case given != token.Token{}:
		return errors.New("--token: a server needs the cluster's own token (K10…::server:…); the given one joins agents only")
	default:
		password, err := token.NewPassword()
		if err != nil {
			return err
		}
		fresh, err := token.Parse(password)
		if err != nil {
			return err
		}
		s.token = fresh.WithCA(caHash)
	}
	_, err = atomicfile.WriteChanged(s.dir.Token(), []byte(s.token.Format()+"\n"), 0o600)
	return err
}

func (s *server) keptToken() (token.Token, error) {
	content, err := os.ReadFile(s.dir.Token())
	if errors.Is(err, os.ErrNotExist) {
		return token.Token{}, nil
	}
	if err != nil {
		return token.Token{}, fmt.Errorf("read the cluster's token: %w", err)
	}
	kept, err := token.Parse(string(content))
	if err != nil {
		return token.Token{}, fmt.Errorf("read the cluster's token from %s: %w: remove the file to have a new token made", s.dir.Token(), err)
	}
	return kept, nil
}

func (s *server) caHash() (string, error) {
	ca, err := os.ReadFile(s.pki.CAPath(pki.ClusterCA))
	if err != nil {
		return "", err
	}
	return token.HashCA(ca)
}

// writeKubeconfigs writes the credentials of the server's programs, and the administrator's, also to where the user
// wants them.
func (s *server) writeKubeconfigs() error {
	if err := s.plane.WriteKubeconfigs(); err != nil {
		return err
	}
	if s.config.WriteKubeconfig == "" {
		return nil
	}
	content, err := os.ReadFile(s.dir.AdminKubeconfig())
	if err != nil {
		return err
	}
	_, err = atomicfile.WriteChanged(s.config.WriteKubeconfig, content, os.FileMode(s.config.WriteKubeconfigMode))
	return err
}
