package datadir

import (
	"os"
	"strings"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

func (d Dir) adoptedFile() string { return d.Path("server", "keys-adopted") }

// Adopted names what of the cluster's shared secrets the server took over last; "" where it does not know.
func (d Dir) Adopted() string {
	content, err := os.ReadFile(d.adoptedFile())
	if err != nil {
		return "" // then it is looked at again, which changes nothing
	}
	return strings.TrimSpace(string(content))
}

// RecordAdopted notes what the server took over.
func (d Dir) RecordAdopted(digest string) error {
	return atomicfile.Write(d.adoptedFile(), []byte(digest+"\n"), 0o600)
}
