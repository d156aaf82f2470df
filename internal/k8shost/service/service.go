// Package service keeps a server running in the background: as a systemd unit where systemd runs, as a plain daemon
// where it does not. Either way it reads its settings from one file and logs to another, both in the data directory.
package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

// LogFile is where the service's own log goes.
func LogFile(dir datadir.Dir) string { return filepath.Join(dir.Logs(), "k8shost.log") }

// SettingsFile is what the server that was started last was started with.
func SettingsFile(dir datadir.Dir) string { return dir.Path("service.yaml") }

// Start starts the server of dir with the given settings. What ends the service before it is ready comes out of
// ended.
func Start(ctx context.Context, dir datadir.Dir, settings []byte) (ended <-chan error, err error) {
	if err := os.MkdirAll(dir.Logs(), 0o700); err != nil {
		return nil, fmt.Errorf("start service: %w", err)
	}
	// It may hold the token.
	if err := atomicfile.Write(SettingsFile(dir), settings, 0o600); err != nil {
		return nil, fmt.Errorf("start service: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(LogFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start service: %w", err)
	}
	defer func() { _ = log.Close() }()
	if systemdRuns() {
		return startUnit(ctx, dir, self)
	}
	return startDaemon(dir, self, log)
}

// startDaemon starts a process that outlives this one: in a session of its own, with nothing of the terminal.
func startDaemon(dir datadir.Dir, self string, log *os.File) (<-chan error, error) {
	cmd := exec.Command(self, "server", "--config", SettingsFile(dir))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start service: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		if err := cmd.Wait(); err != nil {
			ended <- fmt.Errorf("the server ended: %w", err)
			return
		}
		ended <- fmt.Errorf("the server was stopped")
	}()
	return ended, nil
}

func systemdRuns() bool {
	info, err := os.Stat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// unitName is k8shost.service, or one with the directory's id for a node beside the usual one.
func unitName(dir datadir.Dir) string {
	if dir.Path() == "/var/lib/k8shost" {
		return "k8shost.service"
	}
	return "k8shost-" + dir.ID() + ".service"
}

func unitFile(dir datadir.Dir) string { return filepath.Join("/etc/systemd/system", unitName(dir)) }

// Unit is the systemd unit of the server in dir. Pods are no part of it: stopping it leaves them running.
func Unit(dir datadir.Dir, self string) string {
	return fmt.Sprintf(`[Unit]
Description=Kubernetes by k8shost (%[1]s)
Documentation=https://plasmacloud.io
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart=%[2]s server --config %[3]s
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
TasksMax=infinity
OOMScoreAdjust=-999
TimeoutStartSec=0
TimeoutStopSec=90s
Restart=always
RestartSec=2s
StandardOutput=append:%[4]s
StandardError=append:%[4]s

[Install]
WantedBy=multi-user.target
`, dir.Path(), self, SettingsFile(dir), LogFile(dir))
}

func startUnit(ctx context.Context, dir datadir.Dir, self string) (<-chan error, error) {
	if err := atomicfile.Write(unitFile(dir), []byte(Unit(dir, self)), 0o644); err != nil {
		return nil, fmt.Errorf("install service: %w", err)
	}
	if err := systemctl(ctx, "daemon-reload"); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		if err := systemctl(ctx, "enable", "--now", unitName(dir)); err != nil {
			ended <- err
		}
	}()
	return ended, nil
}

// Remove stops and removes the systemd unit of dir, where there is one.
func Remove(ctx context.Context, dir datadir.Dir) error {
	if _, err := os.Stat(unitFile(dir)); err != nil || !systemdRuns() {
		return nil
	}
	if err := systemctl(ctx, "disable", "--now", unitName(dir)); err != nil {
		return err
	}
	if err := os.Remove(unitFile(dir)); err != nil {
		return err
	}
	return systemctl(ctx, "daemon-reload")
}

func systemctl(ctx context.Context, args ...string) error {
	output, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
