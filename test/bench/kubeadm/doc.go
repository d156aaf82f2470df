// Package kubeadm measures how long a cluster of the type Kubeadm takes from `cloud k8s create` to RUNNING, with one
// control-plane machine and with three, beside the same cluster made by hand in the same run: machines booted, then
// kubeadm init and each join typed one after the other. `make bench-kubeadm` runs it. Images are present for both. A missed
// target is reported, never a failure: the numbers depend on the machine.
package kubeadm
