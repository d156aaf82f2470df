package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed script/probe.sh
var probeScript string

//go:embed script/receive.sh
var receiveScript string

//go:embed script/fetch.sh
var fetchScript string

// File is a file to lay on a host.
type File struct {
	// Step that it is a part of, for errors.
	Step string
	// Path is absolute. The folder, which is made where it is missing, must be one that only root can write to.
	Path string
	// Mode is 0600 where it is zero, and Owner root:root where it is empty.
	Mode  fs.FileMode
	Owner string
	// Content of the file, and its size. It is read several times where connections break.
	Content io.ReaderAt
	Size    int64
	// SHA256 of the content, in hexadecimal; it is computed where it is empty.
	SHA256 string
	// Progress is told how much of the file is there.
	Progress func(done, size int64)
}

// Bytes is a file with the given content.
func Bytes(step, name string, mode fs.FileMode, content []byte) File {
	return File{Step: step, Path: name, Mode: mode, Content: bytes.NewReader(content), Size: int64(len(content))}
}

func (f File) complete() (File, error) {
	f.Mode = cmp.Or(f.Mode, 0o600)
	f.Owner = cmp.Or(f.Owner, "root:root")
	if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" || strings.ContainsAny(f.Path, "\x00\n\\") {
		return f, fmt.Errorf("lay file %q: its path is not absolute and clean", f.Path)
	}
	if f.Progress == nil {
		f.Progress = func(int64, int64) {}
	}
	if f.SHA256 != "" {
		return f, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f.Content, 0, f.Size)); err != nil {
		return f, fmt.Errorf("lay file %s: read its content: %w", f.Path, err)
	}
	f.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return f, nil
}

// args are what the scripts want to know about it.
func (f File) args(more ...string) []string {
	return append([]string{f.Path, f.SHA256, fmt.Sprintf("%04o", f.Mode.Perm()), f.Owner}, more...)
}

// errDamaged is content that does not have its checksum, once it has arrived.
var errDamaged = errors.New("what arrived has another checksum")

// Upload lays a file: the old one is there, or the new one, and never half of it. What is there already is not sent
// again, and after a broken connection it goes on where that broke. It tells whether the content was changed.
func (c *Client) Upload(ctx context.Context, file File) (changed bool, err error) {
	file, err = file.complete()
	if err != nil {
		return false, err
	}
	begun := int64(-1)
	damaged := false
	for attempt := 0; ; {
		have, same, err := c.probe(ctx, file)
		if same || err != nil && !errors.Is(err, ErrLost) {
			file.Progress(file.Size, file.Size)
			return changed, err
		}
		if err == nil {
			if have > begun {
				attempt = 0 // it gets on
			}
			begun = have
			changed = true
			err = c.send(ctx, file, have)
		}
		if err == nil {
			file.Progress(file.Size, file.Size)
			return true, nil
		}
		again := errors.Is(err, ErrLost) || errors.Is(err, errDamaged) && !damaged
		damaged = damaged || errors.Is(err, errDamaged)
		if attempt++; !again || attempt >= c.pool.config.Attempts {
			return true, err
		}
		if err := c.pause(ctx, attempt); err != nil {
			return true, err
		}
	}
}

// probe tells how much of a file is on the host.
func (c *Client) probe(ctx context.Context, file File) (have int64, same bool, err error) {
	answer := &limited{most: 100}
	if err := c.script(ctx, file.Step, probeScript, file.args(), nil, answer); err != nil {
		return 0, false, c.aboutFile(file, err)
	}
	text := strings.TrimSpace(answer.String())
	if text == "same" {
		return file.Size, true, nil
	}
	have, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("host %s: %s: look for %s: the answer was %q", c.host, file.Step, file.Path, text)
	}
	return min(have, file.Size), false, nil
}

// send sends the file from an offset on, and has it put into its place.
func (c *Client) send(ctx context.Context, file File, offset int64) error {
	content := &counted{from: io.NewSectionReader(file.Content, offset, file.Size-offset), done: offset, size: file.Size, report: file.Progress}
	args := file.args(strconv.FormatInt(file.Size, 10), strconv.FormatInt(offset, 10))
	err := c.script(ctx, file.Step, receiveScript, args, content, io.Discard)
	if problem := content.stop(); problem != nil {
		return fmt.Errorf("lay file %s: read its content: %w", file.Path, problem)
	}
	return c.aboutFile(file, err)
}

// aboutFile says what a script's failure means.
func (c *Client) aboutFile(file File, err error) error {
	exit, ok := errors.AsType[*ExitError](err)
	switch {
	case !ok:
		return err
	case exit.Code == 75:
		return c.fail(file.Step, ErrLost, fmt.Errorf("in the middle of %s", file.Path), "check the network to the host")
	case exit.Code == 65:
		return c.fail(file.Step, fmt.Errorf("%w: %s", errDamaged, file.Path), nil, "check that the file did not change while it was read, and the host's disk")
	case strings.Contains(strings.Join(exit.Lines, "\n"), "No space left on device"), strings.Contains(strings.Join(exit.Lines, "\n"), "quota exceeded"):
		return c.fail(file.Step, ErrDiskFull, fmt.Errorf("%s does not fit", file.Path), "make room for %d MiB in %s", file.Size>>20+1, path.Dir(file.Path))
	default:
		exit.Command = "lay " + file.Path
		return err
	}
}

// counted reads a file's content and tells how far it is, until it is stopped: a session that was given up may still
// read.
type counted struct {
	from       io.Reader
	done, size int64
	report     func(done, size int64)

	mu      sync.Mutex
	stopped bool
	err     error
}

func (c *counted) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return 0, io.EOF
	}
	n, err := c.from.Read(p)
	c.done += int64(n)
	c.report(c.done, c.size)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// stop returns what went wrong with reading.
func (c *counted) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return c.err
}

// Download returns a small file. One that is not there is fs.ErrNotExist, and one with more bytes than limit an error.
func (c *Client) Download(ctx context.Context, step, name string, limit int64) ([]byte, error) {
	var err error
	for attempt := range c.pool.config.Attempts {
		if err := c.pause(ctx, attempt); err != nil {
			return nil, err
		}
		content := &limited{most: int(limit) + 1}
		err = c.script(ctx, step, fetchScript, []string{name, strconv.FormatInt(limit+1, 10)}, nil, content)
		if err == nil && int64(content.Len()) > limit {
			return nil, fmt.Errorf("host %s: %s: read %s: it has more than %d bytes", c.host, step, name, limit)
		}
		if err == nil {
			return content.Bytes(), nil
		}
		if !errors.Is(err, ErrLost) {
			break
		}
	}
	if code, ok := ExitCode(err); ok && code == 66 {
		return nil, fmt.Errorf("host %s: %s: read %s: %w", c.host, step, name, fs.ErrNotExist)
	}
	return nil, err
}

// UploadFile lays a copy of a local file. Its checksum may be given where it is known, as that of a release's artifact
// is.
func (c *Client) UploadFile(ctx context.Context, local string, file File) (changed bool, err error) {
	source, err := os.Open(local)
	if err != nil {
		return false, fmt.Errorf("lay file %s: %w", file.Path, err)
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return false, fmt.Errorf("lay file %s: %w", file.Path, err)
	}
	file.Content, file.Size = source, info.Size()
	return c.Upload(ctx, file)
}
