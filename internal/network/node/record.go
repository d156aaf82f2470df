package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// recordName is the record's file in the state directory.
const recordName = "node.json"

// record is what the daemon last knew about its node. It lets the daemon serve
// the node's own pods while the API is away, and Cleanup find everything with
// nothing but the state directory.
type record struct {
	ClusterCIDR netip.Prefix `json:"clusterCIDR"`
	PodCIDR     netip.Prefix `json:"podCIDR"`
	NodeIP      netip.Addr   `json:"nodeIP"`
	CNIConfDir  string       `json:"cniConfDir"`
}

// loadRecord returns the zero record where there is none, or none to be read:
// what is missing, the API will tell.
func loadRecord(stateDir string) record {
	var r record
	data, err := os.ReadFile(filepath.Join(stateDir, recordName))
	if err != nil || json.Unmarshal(data, &r) != nil {
		return record{}
	}
	return r
}

func (r record) save(stateDir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode node record: %w", err)
	}
	if _, err := replaceFile(filepath.Join(stateDir, recordName), data, 0o600); err != nil {
		return fmt.Errorf("write node record: %w", err)
	}
	return nil
}

// replaceFile gives a file new content in one step, if it has other content
// now. The temporary name ends in nothing that a runtime would load.
func replaceFile(path string, data []byte, mode fs.FileMode) (changed bool, err error) {
	current, err := os.ReadFile(path)
	if err == nil && string(current) == string(data) {
		return false, nil
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temp, data, mode); err != nil {
		return false, errors.Join(err, removeFile(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return false, errors.Join(err, removeFile(temp))
	}
	return true, nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
