# Hands out what a control-plane machine needs to join. Arguments: kubeadm's configuration, which is removed. Standard
# input: a Secret with the token that it joins with.
set -eu
kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f - >/dev/null
kubeadm init phase upload-certs --upload-certs --config "$1" >/dev/null
rm -f -- "$1"
