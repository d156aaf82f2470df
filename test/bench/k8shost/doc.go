// Package k8shost measures how fast a k8shost server starts, what it takes when idle, and how that compares with
// `kubeadm init` of the same Kubernetes version on the same machine in the same run. `make bench-k8shost` runs it. A
// missed target is reported, never a failure: the numbers depend on the machine.
package k8shost
