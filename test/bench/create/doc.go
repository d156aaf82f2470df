// Package create measures how fast hosted clusters come and go: from `cloud k8s create` to an API that answers, a node
// that is ready and a pod that runs, and from `cloud k8s delete` to nothing left; how many control planes start at once
// and what an idle one takes; and how that compares with `kubeadm init` in a machine pod in the same run. `make
// bench-create` runs it. Images are present. A missed target is reported, never a failure: the numbers depend on the
// machine.
package create
