#!/usr/bin/env bash
# tool.sh NAME prints the path of a development tool. Each is pinned by a module of its own, hack/tools/NAME, and built
# from source on first use. It is kept beside the distribution's artifacts, outside of the clone, so that a fresh clone
# does not build it again.
set -euo pipefail
name=$1
cd "$(dirname "$0")/tools/$name"
# What goes into it names it: the pinned versions and the compiler.
key=$({ cat go.mod go.sum && go env GOVERSION GOARCH; } | sha256sum | head -c 16)
path=${PLASMACLOUD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plasmacloud}/tools/$key/$name
if [ ! -x "$path" ]; then
	echo "tool: building $name, once for this machine" >&2
	mkdir -p "$(dirname "$path")"
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$path.$$" tool
	mv "$path.$$" "$path"
fi
echo "$path"
