package ssh

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

func TestHostsOfAnAccount(t *testing.T) {
	pem, err := remote.GenerateKey("lab")
	if err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderSSH, Credentials: &v1alpha1.SecretReference{Name: "keys"},
		SSH: &v1alpha1.SSHInventory{
			Hosts: []v1alpha1.SSHHost{
				{Address: "10.0.0.5", Port: 22, User: "root", Labels: map[string]string{"zone": "a"}},
				{Address: "10.0.0.6", Port: 2222, User: "admin", HostKey: "ssh-ed25519 AAAA"},
			},
			Bastion: &v1alpha1.SSHHost{Address: "bastion.example.com", User: "jump"}, TrustOnFirstUse: true,
		},
	}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Data: map[string][]byte{"ssh-privatekey": pem}}
	hosts, err := HostsOf(account, secret)
	if err != nil || len(hosts) != 2 {
		t.Fatal(hosts, err)
	}
	second := hosts[1]
	if second.ID() != "10.0.0.6:2222 via bastion.example.com:22" || second.Access.User != "admin" || second.Access.HostKey != "ssh-ed25519 AAAA" ||
		second.Access.Bastion.User != "jump" || !second.TrustOnFirstUse || hosts[0].Labels["zone"] != "a" {
		t.Errorf("%+v", second)
	}
	if !strings.HasPrefix(second.Access.Key.Authorized(), "ssh-ed25519 ") {
		t.Errorf("key %s", second.Access.Key.Authorized())
	}
	account.Spec.Credentials.Key = "other"
	if _, err := HostsOf(account, secret); err == nil || !strings.Contains(err.Error(), "the Secret keys has no other") {
		t.Errorf("error %v", err)
	}
	if _, err := HostsOf(account, nil); err == nil || !strings.Contains(err.Error(), "spec.credentials") {
		t.Errorf("error %v", err)
	}
}
