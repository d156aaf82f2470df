package k3s

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

func certificate(t *testing.T, expires time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: expires.Add(-365 * 24 * time.Hour), NotAfter: expires}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestCertificatesThatExpireAreFound(t *testing.T) {
	now := time.Now()
	text := "file /a\n" + string(certificate(t, now.Add(100*24*time.Hour))) +
		"file /b\n" + string(certificate(t, now.Add(24*time.Hour))) + string(certificate(t, now.Add(100*24*time.Hour))) +
		"file /c\n" + "file /d\n" + string(certificate(t, now.Add(-time.Hour)))
	findings := judgeCertificates(text, now)
	if len(findings) != 2 || findings[0].Subject != "/b" || findings[1].Subject != "/d" {
		t.Fatalf("found %v", findings)
	}
	if !strings.Contains(findings[0].Message, "expires") || !strings.Contains(findings[1].Message, "has expired") || !findings[0].Repairable {
		t.Errorf("found %v", findings)
	}
}

func TestWhatAHostSaysIsJudged(t *testing.T) {
	said := sections("== state\nfailed\n== changed\n/etc/k8shost/server.yaml\n== certificates\n== api\nok\n\n== members\n")
	if findings := judgeService(server, said["state"]); len(findings) != 1 || !strings.Contains(findings[0].String(), "k8shost-server.service: it is failed") {
		t.Errorf("state: %v", findings)
	}
	if findings := judgeFiles(said["changed"]); len(findings) != 1 || findings[0].Subject != "/etc/k8shost/server.yaml" {
		t.Errorf("files: %v", findings)
	}
	if said["api"] != "ok\n\n" || judgeMembers(said["members"]) != nil {
		t.Errorf("sections: %v", said)
	}
	members := `[{"name":"a-12345678","healthy":true},{"name":"b-12345678","healthy":false,"error":"no answer"}]`
	if findings := judgeMembers(members); len(findings) != 1 || findings[0].Subject != "b-12345678" || findings[0].Repairable {
		t.Errorf("members: %v", findings)
	}
	if findings := judgeMembers("k8shost: no answer"); len(findings) != 1 {
		t.Errorf("members that are not told: %v", findings)
	}
}

func TestAgentsKnowTheirServerByTheTokensHash(t *testing.T) {
	ca := certificate(t, time.Now().Add(time.Hour))
	cluster := hostsetup.Cluster{CA: ca}
	der, _ := pem.Decode(ca)
	ofCertificate, ofFile := sha256.Sum256(der.Bytes), sha256.Sum256(ca)
	for _, c := range []struct {
		d    Distribution
		hash [32]byte
	}{{Distribution{}, ofCertificate}, {Distribution{Config: Config{Program: upstream}}, ofFile}} {
		got, err := c.d.agentToken(cluster, "abcdef.0123456789abcdef")
		if want := "K10" + hex.EncodeToString(c.hash[:]) + "::abcdef.0123456789abcdef"; err != nil || got != want {
			t.Errorf("token %s, %v; want %s", got, err, want)
		}
	}
	if _, err := (&Distribution{}).agentToken(cluster, "password"); err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("a password: %v", err)
	}
}

func TestCredentialsComeOutOfAKubeconfig(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:6443", CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key")}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	write := func() []byte {
		content, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	found, err := readKubeconfig(write())
	if err != nil || string(found.CA) != "ca" || string(found.AdminCert) != "cert" || string(found.SuperAdminKey) != "key" {
		t.Errorf("credentials %#v, %v", found, err)
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	if _, err := readKubeconfig(write()); err == nil {
		t.Error("a kubeconfig without a certificate is accepted")
	}
}
