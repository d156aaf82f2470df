#!/usr/bin/env bash
# Installs the Debian packages that building and running PlasmaCloud needs, only those that are missing, and makes
# sure that there is a usable Go. Quiet, and done in a moment, where nothing is missing.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)

packages=(
	ca-certificates git make                 # fetching and building anything
	gcc libc6-dev pkg-config                 # kine and runc are built with cgo, pause is C
	libseccomp-dev                           # runc's seccomp filters
	debootstrap gpgv debian-archive-keyring  # the root of the machine image, its packages verified
	nftables conntrack iproute2              # kube-proxy and the pod network; looking at them in tests
	mount util-linux procps kmod             # the kubelet mounts volumes; nsenter in tests
	redis-server                             # for the task queue; never started as a service
	postgresql                               # for the scenario of external datastores; never started as a service
	openssh-server sudo                      # for the tests of machines over SSH; never started as a service
)

fail() {
	echo "packages: $*" >&2
	exit 1
}

# missing_of prints those of its arguments that are not installed.
missing_of() {
	comm -23 <(printf '%s\n' "$@" | sort) \
		<(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

# at_least tells whether version $1 is not older than $2.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort --version-sort | head -1)" = "$2" ]; }

updated=
update_once() {
	[ -n "$updated" ] && return
	apt-get update --quiet=2 || fail "apt-get update failed: is there a network, are the sources right?"
	updated=yes
}

# A package's service must not start as a side effect of a build, now or at the next boot.
forbid_services() {
	policy=/usr/sbin/policy-rc.d
	[ -e $policy ] && return
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
}

install() {
	[ "$(id -u)" = 0 ] || fail "not root, and missing: $*
  install them yourself: sudo apt-get install --no-install-recommends $*"
	echo "packages: installing $*"
	update_once
	forbid_services
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends \
		-o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 "$@" >/dev/null || fail "apt-get could not install: $*"
	if [[ " $* " == *" redis-server "* ]]; then
		update-rc.d redis-server disable # for systemd too
	fi
	if [[ " $* " == *" openssh-server "* ]]; then
		update-rc.d ssh disable
	fi
}

# Go 1.21 and later fetch the version that go.mod asks for by themselves, through the module proxy and verified by its
# checksum database. So whatever Go is new enough for that will do, Debian's too.
check_go() {
	local want least=1.21 have
	want=$(sed -n 's/^go //p' "$repository/go.mod")
	if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
		fail "Go is in /usr/local/go but not in PATH: export PATH=\$PATH:/usr/local/go/bin"
	fi
	if ! command -v go >/dev/null; then
		[ "$(id -u)" = 0 ] && update_once
		have=$(apt-cache policy golang-go | sed -n 's/ *Candidate: \([0-9]*:\)\?\([0-9.]*\).*/\2/p')
		at_least "${have:-0}" $least || fail "no Go, and this Debian's is ${have:-missing}, too old to fetch Go $want by itself:
  install Go $want or newer from https://go.dev/dl, or golang-go from this Debian's backports"
		install golang-go
	fi
	have=$(GOTOOLCHAIN=local go env GOVERSION)
	at_least "${have#go}" "$want" && return
	at_least "${have#go}" $least || fail "Go ${have#go} is too old: install Go $want or newer from https://go.dev/dl"
	(cd "$repository" && GOTOOLCHAIN=${GOTOOLCHAIN:-auto} go version >/dev/null) ||
		fail "Go ${have#go} could not fetch Go $want: install it from https://go.dev/dl, or let GOTOOLCHAIN=auto reach the module proxy"
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
	fail "this system has no apt: PlasmaCloud is built and run on Debian and its descendants"
mapfile -t missing < <(missing_of "${packages[@]}")
[ ${#missing[@]} = 0 ] || install "${missing[@]}"
check_go
