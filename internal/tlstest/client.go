package tlstest

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
)

// Client returns the certificate of a client with a URI as its name, signed by the authority.
func (a *Authority) Client(uri string) tls.Certificate {
	a.tb.Helper()
	name, err := url.Parse(uri)
	if err != nil {
		a.tb.Fatal(err)
	}
	key, cert := a.issue(&x509.Certificate{URIs: []*url.URL{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}
