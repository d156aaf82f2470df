package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

// Variable names the file, where the environment does.
const Variable = "PLASMACLOUD_CONFIG"

// Store is the two files.
type Store struct{ path string }

// Locate finds the place of the files: PLASMACLOUD_CONFIG, or plasmacloud/config.yaml in XDG_CONFIG_HOME, or in ~/.config.
func Locate(env func(string) string) (*Store, error) {
	if path := env(Variable); path != "" {
		return &Store{path: path}, nil
	}
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as the XDG specification has it
		home := env("HOME")
		if home == "" {
			return nil, fmt.Errorf("find the configuration: HOME is not set; set it, or %s", Variable)
		}
		dir = filepath.Join(home, ".config")
	}
	return &Store{path: filepath.Join(dir, "plasmacloud", "config.yaml")}, nil
}

// Path of config.yaml.
func (s *Store) Path() string { return s.path }

// TokensPath is the path of tokens.yaml.
func (s *Store) TokensPath() string { return filepath.Join(filepath.Dir(s.path), "tokens.yaml") }

// Load reads the contexts. A file that is not there has none.
func (s *Store) Load() (*File, error) {
	file := &File{}
	if err := read(s.path, file); err != nil {
		return nil, err
	}
	if err := file.validate(); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	return file, nil
}

// Update changes the contexts. Nothing is written where change fails.
func (s *Store) Update(ctx context.Context, change func(*File) error) error {
	return s.locked(ctx, func() error {
		file, err := s.Load()
		if err != nil {
			return err
		}
		if err := change(file); err != nil {
			return err
		}
		if err := file.validate(); err != nil {
			return err
		}
		return write(s.path, file)
	})
}

// Token is the session in a context; one that is not there is empty.
func (s *Store) Token(name string) (Token, error) {
	tokens, err := s.tokens()
	return tokens[name], err
}

// UpdateToken replaces the session in a context by what change makes of it; an empty one is forgotten. Others wait
// meanwhile: a refresh token is good for one refresh.
func (s *Store) UpdateToken(ctx context.Context, name string, change func(Token) (Token, error)) (Token, error) {
	var token Token
	err := s.locked(ctx, func() error {
		tokens, err := s.tokens()
		if err != nil {
			return err
		}
		before := tokens[name]
		if token, err = change(before); err != nil || token == before {
			return err
		}
		tokens[name] = token
		if token == (Token{}) {
			delete(tokens, name)
		}
		return write(s.TokensPath(), tokens)
	})
	return token, err
}

func (s *Store) tokens() (map[string]Token, error) {
	tokens := map[string]Token{}
	path := s.TokensPath()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tokens, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read sessions: others may read %s; keep it to yourself with `chmod 600 %s`", path, path)
	}
	return tokens, read(path, &tokens)
}

// locked runs do while no other command writes.
func (s *Store) locked(ctx context.Context, do func() error) error {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the configuration's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the configuration: %w", err)
	}
	defer func() { _ = lock.Close() }() // which unlocks
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return do()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock the configuration: %w", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("lock the configuration: %w", ctx.Err())
		}
	}
}

func read(path string, target any) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, target); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func write(path string, value any) error {
	content, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, content, 0o600)
}
