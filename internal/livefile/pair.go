package livefile

import (
	"crypto/tls"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// pairBytesMax bounds a file with a certificate chain or a key.
const pairBytesMax = 1 << 20

// OpenPair reads a certificate chain and its key, both in PEM, and reloads them when they change.
func OpenPair(certFile, keyFile string, c clock.Clock, changed func(error)) (*Files[*tls.Certificate], error) {
	return Open(Config[*tls.Certificate]{
		Paths: []string{certFile, keyFile}, BytesMax: pairBytesMax, Clock: c, Changed: changed,
		Parse: func(contents [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(contents[0], contents[1])
			return &pair, err
		},
	})
}
