package httptarget

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

const (
	identitiesMax          = 100
	identitiesFileBytesMax = 256 << 10
	tokenFileBytesMax      = 16 << 10
)

// ErrIdentities refuses a file of identities; the text says what is allowed.
var ErrIdentities = errors.New("cannot use identities of targets")

// Identity is as whom a host is called. It is bound to the host by who runs the server: whoever may set a lambda could
// otherwise act as the server anywhere.
type Identity struct {
	// Host is that of URLs, with the port if they have one.
	Host string `json:"host"`
	// TokenFile has the bearer token of each call, such as an ID token for the audience of the host that an agent renews.
	// It is read for each call. Empty: none.
	TokenFile string `json:"token_file"`
	// CertFile and KeyFile are the client certificate and its key, in PEM, which are read for each connection.
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
	// CAFile has the authorities, in PEM, that the certificate of the host must come from; empty: those of the system.
	CAFile string `json:"ca_file"`

	secure *tls.Config // of connections to the host
}

// ReadIdentities reads a JSON list of identities, and each file that it names once.
func ReadIdentities(path string) (all []Identity, err error) {
	text, err := readBounded(path, identitiesFileBytesMax)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIdentities, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf(`%w of %s: %w; want a list such as [{"host":"mail.example.com","token_file":"/run/tokens/mail"}] with host, token_file, cert_file, key_file and ca_file`, ErrIdentities, path, err)
	}
	if len(all) > identitiesMax {
		return nil, fmt.Errorf("%w of %s: %d: want at most %d", ErrIdentities, path, len(all), identitiesMax)
	}
	seen := map[string]bool{}
	for i := range all {
		id := &all[i]
		id.Host = strings.ToLower(id.Host)
		u, err := url.Parse("https://" + id.Host)
		switch {
		case err != nil || id.Host == "" || u.Host != id.Host:
			err = errors.New("want a host such as mail.example.com or mail.example.com:8443")
		case seen[id.Host]:
			err = errors.New("it is there twice")
		case (id.CertFile == "") != (id.KeyFile == ""):
			err = errors.New("cert_file and key_file: want both or none")
		default:
			err = id.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%w of %s: host %q: %w", ErrIdentities, path, id.Host, err)
		}
		seen[id.Host] = true
	}
	return all, nil
}

func (id *Identity) check() error {
	if _, err := id.token(); err != nil {
		return err
	}
	if id.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(id.CertFile, id.KeyFile); err != nil {
			return err
		}
	}
	return id.setTLS()
}

// token returns the bearer token; empty: there is none.
func (id *Identity) token() (string, error) {
	if id.TokenFile == "" {
		return "", nil
	}
	text, err := readBounded(id.TokenFile, tokenFileBytesMax)
	token := strings.TrimSpace(string(text))
	if err == nil && (token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })) {
		err = fmt.Errorf("%s: want one token", id.TokenFile)
	}
	return token, err
}

// setTLS sets how connections to the host are secured.
func (id *Identity) setTLS() error {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	id.secure = c
	if id.CertFile != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(id.CertFile, id.KeyFile)
			return &pair, err
		}
	}
	if id.CAFile == "" {
		return nil
	}
	text, err := readBounded(id.CAFile, identitiesFileBytesMax)
	if err != nil {
		return err
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: want certificates in PEM", id.CAFile)
	}
	return nil
}

// identify gives a request what shows who calls. The token goes over TLS alone.
func (id *Identity) identify(r *http.Request) error {
	token, err := id.token()
	switch {
	case err != nil:
		return errors.New("the token of the server for it cannot be read") // the task's readers need not know the file
	case r.URL.Scheme != "https":
		return errors.New("the server has an identity for it, which is for https")
	case token != "":
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func readBounded(path string, bytesMax int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // who runs the server names it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, bytesMax+1))
	if err == nil && int64(len(text)) > bytesMax {
		err = fmt.Errorf("%s: want at most %d bytes", path, bytesMax)
	}
	return text, err
}
