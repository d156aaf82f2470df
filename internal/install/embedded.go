package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/service"
	"plasmacloud.io/plasmacloud/internal/release"
)

// startEmbedded starts the management cluster with k8shost, and gives it the daemon's image.
func (in *installation) startEmbedded(ctx context.Context) error {
	dir := datadir.New(in.target.DataDir)
	if err := os.MkdirAll(dir.Images(), 0o700); err != nil {
		return err
	}
	changed, err := copyChanged(filepath.Join(in.release.Dir(), release.ImagesDir, imageArchive), filepath.Join(dir.Images(), imageArchive))
	if err != nil {
		return fmt.Errorf("bring along the daemon's image: %w", err)
	}
	toldAnew, err := in.prepareWebhook()
	if err != nil {
		return err
	}
	_, running := dir.Launcher()
	if running && (toldAnew || !in.asksUs(dir)) {
		running = false
		err = in.restartEmbedded(ctx)
	} else {
		err = in.runEmbedded(ctx)
	}
	if err != nil {
		return err
	}
	if running && changed {
		return in.importImage(ctx) // a server imports what is there when it starts, and this one had started
	}
	return nil
}

func (in *installation) runEmbedded(ctx context.Context) error {
	return in.k8shost(ctx, "up", "--data-dir", in.target.DataDir,
		"--"+webhookFlag, in.webhookFile(), "--authentication-token-webhook-cache-ttl", webhookTTL)
}

// restartEmbedded lets the API server read what it reads when it starts only.
func (in *installation) restartEmbedded(ctx context.Context) error {
	in.progress.Report("restart, so that the API server asks the platform about tokens")
	if err := in.stopEmbedded(ctx, false); err != nil {
		return err
	}
	return in.runEmbedded(ctx)
}

// webhookFlag makes k8shost's API server ask about tokens.
const webhookFlag = "authentication-token-webhook-config-file"

// asksUs says whether the server that runs was started with our webhook, by the settings that it was started with.
func (in *installation) asksUs(dir datadir.Dir) bool {
	content, err := os.ReadFile(service.SettingsFile(dir))
	if err != nil {
		return false
	}
	var settings map[string]any
	return yaml.Unmarshal(content, &settings) == nil && settings[webhookFlag] == in.webhookFile()
}

func (in *installation) importImage(ctx context.Context) error {
	archive, err := os.Open(filepath.Join(datadir.New(in.target.DataDir).Images(), imageArchive))
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	if err := in.importArchive(ctx, archive); err != nil {
		return fmt.Errorf("import the daemon's image: %w", err)
	}
	return nil
}

func (in *installation) stopEmbedded(ctx context.Context, purge bool) error {
	args := []string{"down", "--data-dir", in.target.DataDir}
	if purge {
		args = append(args, "--purge")
	}
	return in.k8shost(ctx, args...)
}

// k8shost runs the launcher and reports what it says.
func (in *installation) k8shost(ctx context.Context, args ...string) error {
	binary, err := in.release.Binary("k8shost")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "PLASMACLOUD_RELEASE="+in.release.Dir())
	if address, err := plannedAddress(in.target.DataDir); err == nil { // no proxy knows the way to the identity service
		cmd.Env = append(cmd.Env, "NO_PROXY="+strings.Trim(os.Getenv("NO_PROXY")+","+address.String(), ","))
	}
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	said := make(chan string, 1)
	go func() {
		var last string
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			last = lines.Text()
			if message := logged(last); message != "" {
				in.progress.Report(message)
			}
		}
		_, _ = io.Copy(io.Discard, reader) // a line too long must not block it
		said <- last
	}()
	err = cmd.Run()
	_ = writer.Close()
	if last := <-said; err != nil {
		return fmt.Errorf("k8shost %s: %w: %s", args[0], err, last)
	}
	return nil
}

var (
	logMessage   = regexp.MustCompile(`\bmsg=("(?:[^"\\]|\\.)*"|\S+)`)
	logComponent = regexp.MustCompile(`\bcomponent=(\S+)`)
)

// logged is what a line of k8shost's log says, or nothing where it is no such line.
func logged(line string) string {
	found := logMessage.FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	message := found[1]
	if plain, err := strconv.Unquote(message); err == nil {
		message = plain
	}
	if component := logComponent.FindStringSubmatch(line); component != nil {
		return component[1] + ": " + message
	}
	return message
}

// copyChanged copies a file unless the copy is as new and as long, and tells whether it did: what was copied once need
// not be imported again.
func copyChanged(from, to string) (changed bool, err error) {
	source, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("%w: build it with `make build`", err)
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = source.Close() }()
	have, err := source.Stat()
	if err != nil {
		return false, err
	}
	if copied, err := os.Stat(to); err == nil && copied.Size() == have.Size() && copied.ModTime().Equal(have.ModTime()) {
		return false, nil
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(part.Name()) }()
	if _, err := io.Copy(part, source); err != nil {
		return false, errors.Join(err, part.Close())
	}
	if err := errors.Join(part.Close(), os.Chtimes(part.Name(), have.ModTime(), have.ModTime())); err != nil {
		return false, err
	}
	return true, os.Rename(part.Name(), to)
}
