#!/usr/bin/env bash
# verify.sh RELEASE checks what neither compiler, linter nor tests see: formatting of modules besides the root's,
# generated files, go.mod, and the built release against its manifest. It changes nothing that was right.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1
problems=0
problem() {
	echo "verify: $1" >&2
	problems=$((problems + 1))
}

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l)
[ -z "$unformatted" ] || problem "not formatted, run gofmt -w on: $unformatted"

state() { git ls-files --cached --others --exclude-standard | xargs -d '\n' sha256sum 2>/dev/null | sha256sum; }
before=$(state)
make generate >/dev/null
[ "$(state)" = "$before" ] || problem "generated files were not up to date; they are now: see git diff, and commit them"

go mod tidy -diff || problem "go.mod is not tidy: run go mod tidy"
go mod verify || problem "a downloaded module was changed"

go run ./cmd/distro verify --output "$release" || problem "the release is not what its manifest says"
exit $((problems > 0))
