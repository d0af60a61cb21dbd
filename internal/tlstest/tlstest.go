// Package tlstest makes certificates for servers of tests, and an authority that signs them. It is for tests
// alone.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// valid is how long certificates are, before and after they are made.
const valid = time.Hour

// Authority signs certificates of servers on this machine.
type Authority struct {
	// File holds its own certificate, CertFile and KeyFile that of the server and its key; all in PEM.
	File, CertFile, KeyFile string

	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// New returns an authority and writes a first certificate of a server.
func New(tb testing.TB) *Authority {
	tb.Helper()
	dir := tb.TempDir()
	a := &Authority{tb: tb, File: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	a.key, a.cert = a.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.write(a.File, "CERTIFICATE", a.cert.Raw)
	a.Renew()
	return a
}

// issue makes a key and a certificate, signed by the authority or, before there is one, by itself.
func (a *Authority) issue(template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails: crypto/rand
	template.Subject = pkix.Name{CommonName: "kinesin test"}
	template.NotBefore = time.Now().Add(-valid)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(valid)
	}
	parent, signer := a.cert, a.key
	if signer == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return key, cert
}

// Renew writes a new certificate for 127.0.0.1 and localhost and its key, and returns its serial number.
func (a *Authority) Renew() (serial string) {
	a.tb.Helper()
	key, cert := a.issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.write(a.CertFile, "CERTIFICATE", cert.Raw)
	a.write(a.KeyFile, "PRIVATE KEY", der)
	return cert.SerialNumber.String()
}

func (a *Authority) write(path, kind string, der []byte) {
	a.tb.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.tb.Fatal(err)
	}
}

// Trust is a client's settings that believe the authority, and nobody else.
func (a *Authority) Trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
