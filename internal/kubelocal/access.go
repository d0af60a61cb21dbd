package kubelocal

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	issuer         = "https://kubernetes.default.svc"
	signingKeyFile = "signing.key"
	tokensFile     = "tokens.csv"
	// certFile is made by the API server at its first start: its certificate, and that of the authority that
	// signed it.
	certFile = "api/apiserver.crt"
)

// tokenLasts is how long a ServiceAccount's token is good: longer than any test.
const tokenLasts = 12 * time.Hour

// writeKeys writes what the API server is to believe: whose tokens, and the administrator's.
func (p *Plane) writeKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(p.path(signingKeyFile), text, 0o600); err != nil {
		return err
	}
	p.adminToken = rand.Text()
	return os.WriteFile(p.path(tokensFile), []byte(p.adminToken+",admin,admin,system:masters\n"), 0o600)
}

// apiReady trusts the API server's certificate for what it was found as: a file in our own folder.
func (p *Plane) apiReady(ctx context.Context) error {
	authority, err := os.ReadFile(p.path(certFile))
	if err != nil {
		return err
	}
	client, err := trusting(authority)
	if err != nil {
		return err
	}
	return answersOK(ctx, client, p.URL()+"/readyz", p.adminToken)
}

// connect makes what the administrator uses.
func (p *Plane) connect() error {
	if err := p.WriteKubeconfig(p.Kubeconfig(), "default", p.adminToken); err != nil {
		return err
	}
	var err error
	if p.config, err = clientcmd.BuildConfigFromFlags("", p.Kubeconfig()); err != nil {
		return err
	}
	p.config.QPS = -1 // no limit
	p.client, err = kubernetes.NewForConfig(p.config)
	return err
}

// Token asks for a token of a ServiceAccount, as a kubelet does for a pod.
func (p *Plane) Token(ctx context.Context, namespace, serviceAccount string) (string, error) {
	seconds := int64(tokenLasts.Seconds())
	got, err := p.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	return got.Status.Token, nil
}

// WriteKubeconfig writes a kubeconfig for a bearer token to a file.
func (p *Plane) WriteKubeconfig(path, namespace, token string) error {
	return p.WriteKubeconfigTo(path, p.URL(), namespace, token)
}

// WriteKubeconfigTo is WriteKubeconfig with another URL for the API server: of a proxy, or of nobody.
func (p *Plane) WriteKubeconfigTo(path, server, namespace, token string) error {
	authority, err := os.ReadFile(p.path(certFile))
	if err != nil {
		return err
	}
	const name = "local"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}, path)
}

// trusting is a client for a server whose certificate one of the given ones has signed.
func trusting(authority []byte) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in %s yet", certFile)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}, nil
}
