#!/usr/bin/env bash
# proto.sh checks the contracts in proto/ and writes the code that is generated from them. It asks nobody: the compiler and
# its plugins are built from source.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=$(hack/tool.sh buf)
for plugin in protoc-gen-go protoc-gen-go-grpc; do
	PATH=$(dirname "$(hack/tool.sh $plugin)"):$PATH
done
cd proto
"$buf" lint
"$buf" generate
