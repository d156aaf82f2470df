package hosted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/task"
)

const bundleKey = "bundle.json"

// ensureAuthorities makes what the cluster's identity rests on: its authorities, the key of its service accounts, and
// the key that encrypts its Secrets. They are made once and never again.
func (b *build) ensureAuthorities(ctx context.Context) error {
	copied, err := b.Secret(ctx, controlPlaneName)
	if err != nil {
		return err
	}
	_, err = b.Keep(ctx, pkiSecretName, func(data map[string][]byte) error {
		if len(data[bundleKey]) == 0 {
			data[bundleKey] = copied.Data[bundleKey]
		}
		if len(data[bundleKey]) > 0 {
			_, err := pki.UnmarshalBundle(data[bundleKey])
			return err
		}
		if b.Cluster.Status.Version != "" {
			// New ones would shut out all nodes and users, and could not read the stored Secrets.
			return task.Permanent(fmt.Errorf("the cluster's authorities are lost, and with them its identity: restore secret %s in namespace %s from a backup", pkiSecretName, b.Home))
		}
		return b.inScratch(func(dir string) error {
			if _, err := pki.New(dir, b.Clock).Ensure(nil); err != nil {
				return err
			}
			bundle, err := pki.ReadBundle(dir)
			if err != nil {
				return err
			}
			data[bundleKey], err = bundle.Marshal()
			return err
		})
	})
	return err
}

// issue returns all files of the cluster's PKI by name, with the certificates that the leaves describe. Those that are
// there are kept as long as they fit and have time left.
func (b *build) issue(ctx context.Context, leaves []pki.Leaf) (map[string][]byte, error) {
	files := map[string][]byte{}
	_, err := b.Keep(ctx, pkiSecretName, func(data map[string][]byte) error {
		bundle, err := pki.UnmarshalBundle(data[bundleKey])
		if err != nil {
			return err
		}
		return b.inScratch(func(dir string) error {
			if err := pki.WriteBundle(dir, bundle); err != nil {
				return err
			}
			store := pki.New(dir, b.Clock)
			for _, path := range leafPaths(store, leaves) {
				if content := data[filepath.Base(path)]; len(content) > 0 {
					if err := os.WriteFile(path, content, 0o600); err != nil {
						return err
					}
				}
			}
			renewed, err := store.Ensure(leaves)
			if err != nil {
				return err
			}
			for _, renewal := range renewed {
				b.Scope.Log.Info("certificate issued", "name", renewal.Name, "reason", renewal.Reason)
			}
			for _, path := range leafPaths(store, leaves) {
				if data[filepath.Base(path)], err = os.ReadFile(path); err != nil {
					return err
				}
			}
			return readFiles(dir, files)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("issue certificates: %w", err)
	}
	return files, nil
}

func leafPaths(store *pki.Store, leaves []pki.Leaf) []string {
	var paths []string
	for _, leaf := range leaves {
		paths = append(paths, store.CertPath(leaf.Name), store.KeyPath(leaf.Name))
	}
	return paths
}

// readFiles reads what is in a directory, but not below it: there is what hosted control planes do not use.
func readFiles(dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		if files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// inScratch does something in a directory that is removed afterwards. Keys pass through it.
func (b *build) inScratch(do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(b.own.Scratch, "hosted-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}
