// Package policy reads the file that defines identities and their grants: how an identity shows who it is
// (the hash of a token, a JWT of an OpenID Connect issuer, a client certificate), and what it may do. A file
// is taken as a whole or refused as a whole.
package policy

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
)

// Limits of a policy.
const (
	FileBytesMax  = 1 << 20
	IdentitiesMax = 1000
	IssuersMax    = 16

	caFileBytesMax = 1 << 20
)

// file is the form of the file.
type file struct {
	Identities   []identity `yaml:"identities"`
	Grants       []grant    `yaml:"grants"`
	Issuers      []issuer   `yaml:"issuers"`
	ClientCAFile string     `yaml:"client_ca_file"`
}

// identity has one of token_sha256, oidc and certificate.
type identity struct {
	Name        string       `yaml:"name"`
	TokenSHA256 string       `yaml:"token_sha256"`
	OIDC        *oidcSubject `yaml:"oidc"`
	Certificate *certSubject `yaml:"certificate"`
}

// oidcSubject has one of subject, email and group.
type oidcSubject struct {
	Issuer  string `yaml:"issuer"`
	Subject string `yaml:"subject"`
	Email   string `yaml:"email"`
	Group   string `yaml:"group"`
}

type certSubject struct {
	URI string `yaml:"uri"` // such as a SPIFFE id
	DNS string `yaml:"dns"`
}

type grant struct {
	Identity string   `yaml:"identity"`
	Allow    []string `yaml:"allow"`
}

type issuer struct {
	URL        string   `yaml:"url"`
	Audience   string   `yaml:"audience"`
	Algorithms []string `yaml:"algorithms"`
	JWKSURL    string   `yaml:"jwks_url"`
	CAFile     string   `yaml:"ca_file"`
	TokenFile  string   `yaml:"token_file"` // sent to the issuer, which may not show its keys to everybody
	// GroupsClaim names the claim that lists the groups of a subject; groupsClaimDefault.
	GroupsClaim string `yaml:"groups_claim"`

	ca       []byte // what CAFile holds
	browsers bool   // sign in at its page
}

// algorithms are the signatures that an issuer may use: none that the holder of a public key could make.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} //nolint:gochecknoglobals // a table

var algorithmsDefault = []string{"RS256", "ES256"} //nolint:gochecknoglobals // a table

// Policy is the content of a valid file.
type Policy struct {
	identities map[string]access.Identity
	tokens     map[[sha256.Size]byte]string // name by hash
	subjects   map[oidcSubject]string
	emails     map[oidcSubject]string // in lower case
	groups     []oidcGroup            // in the order of the file
	uris, dns  map[string]string
	issuers    []issuer
	roots      *x509.CertPool // of client certificates; nil: there are none
	named      []livefile.Content
}

// Parse reads a policy. Its error has a line for each thing that is wrong and says what is allowed.
func Parse(content []byte) (*Policy, error) {
	var f file
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not a policy: %w", err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one YAML document: want one")
	}
	p := &Policy{
		identities: map[string]access.Identity{}, tokens: map[[sha256.Size]byte]string{}, subjects: map[oidcSubject]string{}, emails: map[oidcSubject]string{},
		uris: map[string]string{}, dns: map[string]string{},
	}
	errs := []error{p.addIssuers(f.Issuers), p.addIdentities(f.Identities), p.addGrants(f.Grants), p.readRoots(f.ClientCAFile)}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Open reads a policy, and reads it again when the file changes, or one of certificates that it names.
func Open(path string, c clock.Clock, changed func(error)) (*livefile.Files[*Policy], error) {
	return livefile.Open(livefile.Config[*Policy]{
		Paths: []string{path}, BytesMax: FileBytesMax, Clock: c, Changed: changed,
		Parse: func(contents [][]byte) (*Policy, error) { return Parse(contents[0]) },
		Named: func(p *Policy) []livefile.Content { return p.named },
	})
}

func (p *Policy) addIssuers(all []issuer) error {
	if len(all) > IssuersMax {
		return fmt.Errorf("%d issuers: want at most %d", len(all), IssuersMax)
	}
	var errs []error
	for i := range all {
		is := all[i]
		fail := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("issuer %q: %w", is.URL, fmt.Errorf(format, args...))) //nolint:err113 // the text is for people
		}
		if u, err := url.Parse(is.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			fail("want the URL of an OpenID Connect issuer, such as https://token.actions.githubusercontent.com")
		}
		if is.Audience == "" {
			fail("it has no audience: want the one that its tokens for Kinesin name")
		}
		if len(is.Algorithms) == 0 {
			is.Algorithms = algorithmsDefault
		}
		for _, a := range is.Algorithms {
			if !slices.Contains(algorithms, a) {
				fail("unknown algorithm %q: want any of %s", a, strings.Join(algorithms, ", "))
			}
		}
		if slices.ContainsFunc(p.issuers, func(o issuer) bool { return o.URL == is.URL }) {
			fail("it is named twice")
		}
		if is.CAFile != "" {
			var err error
			if _, is.ca, err = p.readCertificates(is.CAFile); err != nil {
				fail("ca_file: %w", err)
			}
		}
		if is.TokenFile != "" { // read again with each use
			if _, err := livefile.Read(is.TokenFile, caFileBytesMax); err != nil {
				fail("token_file: %w", err)
			}
		}
		p.issuers = append(p.issuers, is)
	}
	return errors.Join(errs...)
}

func (p *Policy) addIdentities(all []identity) error {
	if len(all) > IdentitiesMax {
		return fmt.Errorf("%d identities: want at most %d", len(all), IdentitiesMax)
	}
	var errs []error
	for i := range all {
		id := &all[i]
		if err := access.CheckName(id.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, twice := p.identities[id.Name]; twice {
			errs = append(errs, fmt.Errorf("identity %q: two identities have this name", id.Name))
			continue
		}
		p.identities[id.Name] = access.Identity{Name: id.Name}
		if err := p.addProof(id); err != nil {
			errs = append(errs, fmt.Errorf("identity %q: %w", id.Name, err))
		}
	}
	return errors.Join(errs...)
}

// addProof notes how an identity shows who it is.
func (p *Policy) addProof(id *identity) error {
	ways := 0
	for _, has := range []bool{id.TokenSHA256 != "", id.OIDC != nil, id.Certificate != nil} {
		if has {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("it has %d of token_sha256, oidc and certificate: want one", ways)
	case id.OIDC != nil:
		return p.addSubject(id)
	case id.Certificate != nil:
		return p.addCertificate(id)
	}
	raw, err := hex.DecodeString(id.TokenSHA256)
	if err != nil || len(raw) != sha256.Size {
		return errors.New("token_sha256: want 64 hexadecimal digits, such as what `printf %s TOKEN | sha256sum` prints")
	}
	hash := [sha256.Size]byte(raw)
	return note(p.tokens, hash, id.Name, "token")
}

func (p *Policy) addSubject(id *identity) error {
	if err := id.OIDC.check(); err != nil {
		return fmt.Errorf("oidc: %w", err)
	}
	if !slices.ContainsFunc(p.issuers, func(is issuer) bool { return is.URL == id.OIDC.Issuer }) {
		return fmt.Errorf("oidc: unknown issuer %q: want the url of one under issuers", id.OIDC.Issuer)
	}
	return p.noteClaim(id.Name, *id.OIDC)
}

func (p *Policy) addCertificate(id *identity) error {
	c := id.Certificate
	if (c.URI == "") == (c.DNS == "") {
		return errors.New("certificate: want one of uri, such as spiffe://example.org/worker, and dns")
	}
	if c.URI != "" {
		return note(p.uris, c.URI, id.Name, "uri")
	}
	return note(p.dns, c.DNS, id.Name, "dns name")
}

func note[K comparable](names map[K]string, key K, name, what string) error {
	if other, twice := names[key]; twice {
		return fmt.Errorf("it has the same %s as identity %q", what, other)
	}
	names[key] = name
	return nil
}

func (p *Policy) addGrants(all []grant) error {
	var errs []error
	for _, g := range all {
		id, found := p.identities[g.Identity]
		if !found {
			errs = append(errs, fmt.Errorf("grants: unknown identity %q: want the name of one under identities", g.Identity))
			continue
		}
		grants, err := access.ParseGrants(g.Allow)
		if err != nil {
			errs = append(errs, fmt.Errorf("grants of %s: %w", g.Identity, err))
		}
		if id.Grants = append(id.Grants, grants...); len(id.Grants) > access.GrantsMax {
			errs = append(errs, fmt.Errorf("grants of %s: %d of them: want at most %d", g.Identity, len(id.Grants), access.GrantsMax))
		}
		p.identities[g.Identity] = id
	}
	return errors.Join(errs...)
}

// readRoots reads the certificates of those who sign client certificates.
func (p *Policy) readRoots(path string) error {
	certificates := len(p.uris)+len(p.dns) > 0
	switch {
	case path == "" && certificates:
		return errors.New("identities with certificates need client_ca_file: PEM certificates of those who sign theirs")
	case path == "":
		return nil
	}
	var err error
	if p.roots, _, err = p.readCertificates(path); err != nil {
		return fmt.Errorf("client_ca_file: %w", err)
	}
	return nil
}

// readCertificates reads a file of certificates, and notes that the policy depends on it.
func (p *Policy) readCertificates(path string) (*x509.CertPool, []byte, error) {
	content, err := livefile.Read(path, caFileBytesMax)
	if err != nil {
		return nil, nil, err
	}
	p.named = append(p.named, livefile.Content{Path: path, Bytes: content})
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, nil, fmt.Errorf("%s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", path)
	}
	return pool, content, nil
}

// Identities returns all identities, by name.
func (p *Policy) Identities() []access.Identity {
	all := make([]access.Identity, 0, len(p.identities))
	for _, id := range p.identities {
		all = append(all, id)
	}
	slices.SortFunc(all, func(a, b access.Identity) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Has reports whether the policy defines an identity of that name.
func (p *Policy) Has(name string) bool {
	_, found := p.identities[name]
	return found
}

// Grants returns what an identity of the policy may do.
func (p *Policy) Grants(name string) (may access.Grants, found bool) {
	id, found := p.identities[name]
	return id.Grants, found
}

// ByToken returns the identity of a token.
func (p *Policy) ByToken(token string) (access.Identity, bool) {
	return p.ByTokenHash(sha256.Sum256([]byte(token)))
}

// ByTokenHash is ByToken for the SHA-256 of a token.
func (p *Policy) ByTokenHash(hash [sha256.Size]byte) (access.Identity, bool) {
	name, found := p.tokens[hash]
	return p.identities[name], found
}

// Roots returns the certificates of those who sign client certificates; nil if no identity has one.
func (p *Policy) Roots() *x509.CertPool { return p.roots }

// ByCertificate returns the identity of the certificates of a client, its own first: that of one of its URIs,
// or of one of its DNS names. They are verified each time, because a connection may outlive them.
func (p *Policy) ByCertificate(chain []*x509.Certificate) (access.Identity, error) {
	if p.roots == nil || len(chain) == 0 {
		return access.Identity{}, errors.New("the policy takes no client certificates")
	}
	own, others := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		others.AddCert(c)
	}
	_, err := own.Verify(x509.VerifyOptions{Roots: p.roots, Intermediates: others, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return access.Identity{}, fmt.Errorf("the client certificate of this call is not accepted: %w", err)
	}
	for _, uri := range own.URIs {
		if name, found := p.uris[uri.String()]; found {
			return p.identities[name], nil
		}
	}
	for _, dns := range own.DNSNames {
		if name, found := p.dns[dns]; found {
			return p.identities[name], nil
		}
	}
	return access.Identity{}, errors.New("the policy has no identity with a name of the client certificate of this call")
}
