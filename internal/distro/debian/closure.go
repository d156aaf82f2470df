package debian

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/distro/oci"
)

// maxLinks bounds how many symbolic links are followed for one path.
const maxLinks = 20

// Closure picks programs out of a root file system, given as a tar file, with the shared libraries they need, the links by which
// both are found, and the files of further directories, given as patterns. It is how an image that needs two programs of Debian's does
// not get all of Debian.
func Closure(tarFile io.Reader, programs, directories []string) ([]oci.Node, error) {
	root, err := index(tarFile)
	if err != nil {
		return nil, fmt.Errorf("read root file system: %w", err)
	}
	c := &closure{root: root, nodes: make(map[string]oci.Node)}
	for _, program := range programs {
		if err := c.add(program); err != nil {
			return nil, fmt.Errorf("collect %s: %w", program, err)
		}
	}
	for _, directory := range directories {
		for _, name := range root.under(directory) {
			if err := c.add(name); err != nil {
				return nil, fmt.Errorf("collect %s: %w", name, err)
			}
		}
	}
	nodes := make([]oci.Node, 0, len(c.nodes))
	for _, node := range c.nodes {
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// archive is a tar file in memory.
type archive struct {
	headers map[string]*tar.Header
	content map[string][]byte
}

func index(tarFile io.Reader) (*archive, error) {
	a := &archive{headers: make(map[string]*tar.Header), content: make(map[string][]byte)}
	reader := tar.NewReader(tarFile)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		if a.content[name], err = io.ReadAll(reader); err != nil {
			return nil, err
		}
		a.headers[name] = header
	}
}

func (a *archive) under(pattern string) []string {
	var names []string
	for name, header := range a.headers {
		if matched, err := path.Match(pattern, path.Dir(name)); err == nil && matched && header.Typeflag != tar.TypeDir {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// closure is what was collected so far.
type closure struct {
	root  *archive
	nodes map[string]oci.Node
}

// add collects the file at a path, the links that lead to it, and, if it is a program or library, what it is linked
// with.
func (c *closure) add(name string) error {
	found, err := c.resolve(name)
	if err != nil {
		return err
	}
	if _, done := c.nodes[found]; done {
		return nil
	}
	header := c.root.headers[found]
	content := c.root.content[found]
	c.nodes[found] = oci.Node{Path: found, Mode: header.Mode & 0o7777, Data: content}
	binary, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil //nolint:nilerr // a file that is not a program needs nothing
	}
	return c.addNeeded(binary)
}

func (c *closure) addNeeded(binary *elf.File) error {
	for _, segment := range binary.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		interpreter, err := io.ReadAll(segment.Open())
		if err != nil {
			return err
		}
		if err := c.add(strings.Trim(string(interpreter), "/\x00")); err != nil {
			return err
		}
	}
	libraries, err := binary.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, library := range libraries {
		found, err := c.find(library)
		if err != nil {
			return err
		}
		if err := c.add(found); err != nil {
			return err
		}
	}
	return nil
}

// find looks for a library where the dynamic linker does: Debian keeps them all in one directory per architecture.
func (c *closure) find(library string) (string, error) {
	for name := range c.root.headers {
		if path.Base(name) == library && strings.HasPrefix(name, "usr/lib/") && strings.HasSuffix(path.Dir(name), "-linux-gnu") {
			return name, nil
		}
	}
	return "", fmt.Errorf("no library %s in the root file system", library)
}

// resolve follows symbolic links, also in the directories of the path, collects them, and returns where they lead.
func (c *closure) resolve(name string) (string, error) {
	rest, done := strings.Split(path.Clean(name), "/"), ""
	for links := 0; len(rest) > 0; {
		at := path.Join(done, rest[0])
		header := c.root.headers[at]
		if header == nil {
			return "", fmt.Errorf("no %s in the root file system", at)
		}
		rest = rest[1:]
		if header.Typeflag == tar.TypeLink {
			at = path.Clean(header.Linkname)
		}
		if header.Typeflag != tar.TypeSymlink {
			done = at
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("too many symbolic links at %s", at)
		}
		c.nodes[at] = oci.Node{Path: at, Link: header.Linkname}
		target := header.Linkname
		if !path.IsAbs(target) {
			target = path.Join("/", done, target) //nolint:gosec // a name in the archive, nothing is written by it
		}
		rest, done = append(strings.Split(strings.TrimPrefix(path.Clean(target), "/"), "/"), rest...), ""
	}
	return done, nil
}
