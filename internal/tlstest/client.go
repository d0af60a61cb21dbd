package tlstest

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"time"
)

// Client returns the certificate of a client with a URI as its name, signed by the authority.
func (a *Authority) Client(uri string) tls.Certificate { return a.client(uri, time.Now().Add(valid)) }

// Expired returns one like Client, whose time is over.
func (a *Authority) Expired(uri string) tls.Certificate {
	return a.client(uri, time.Now().Add(-time.Minute))
}

func (a *Authority) client(uri string, until time.Time) tls.Certificate {
	a.tb.Helper()
	name, err := url.Parse(uri)
	if err != nil {
		a.tb.Fatal(err)
	}
	key, cert := a.issue(&x509.Certificate{URIs: []*url.URL{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotAfter: until})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}
