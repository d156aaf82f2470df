package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// installPlugin puts the plugin where the container runtime looks for it. The
// runtime may be running it at this moment, so it is replaced by rename, and
// only if it differs.
func installPlugin(from, to string) error {
	same, err := sameContent(from, to)
	if err != nil {
		return fmt.Errorf("install plugin: %w", err)
	}
	if same {
		return nil
	}
	if err := copyFile(from, to); err != nil {
		return fmt.Errorf("install plugin: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	temp := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".new")
	target, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // G302: a program is there to be executed
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Close()); err == nil {
		err = os.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(err, removeFile(temp))
	}
	return nil
}

func sameContent(a, b string) (bool, error) {
	first, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = first.Close() }()
	second, err := os.Open(b)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = second.Close() }()
	infoA, errA := first.Stat()
	infoB, errB := second.Stat()
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	if os.SameFile(infoA, infoB) {
		return true, nil
	}
	if infoA.Size() != infoB.Size() || infoA.Mode().Perm()&0o111 != infoB.Mode().Perm()&0o111 {
		return false, nil
	}
	return sameBytes(first, second)
}

func sameBytes(a, b io.Reader) (bool, error) {
	var chunkA, chunkB [64 << 10]byte
	for {
		n, errA := io.ReadFull(a, chunkA[:])
		m, errB := io.ReadFull(b, chunkB[:])
		if !bytes.Equal(chunkA[:n], chunkB[:m]) {
			return false, nil
		}
		for _, err := range []error{errA, errB} {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
}
