# Gives images to the container runtime. Arguments: the directory of an image layout, and those of its blobs that the
# images consist of. Standard input: the index that names them.
set -eu
layout=$1
shift
index=$(mktemp -d)
trap 'rm -rf -- "$index"' EXIT
cat >"$index/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$index/oci-layout"
tar -cf - -C "$index" oci-layout index.json -C "$layout" "$@" | ctr --namespace k8s.io images import --local -
