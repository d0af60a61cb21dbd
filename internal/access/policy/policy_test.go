package policy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/tlstest"
)

// hashOfAbc is the SHA-256 of "abc" (FIPS 180-2, appendix B.1).
const hashOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

const valid = `
identities:
  - name: mail-team
    token_sha256: ` + hashOfAbc + `
  - name: ci
    oidc: {issuer: "https://issuer.example", subject: "repo:acme/shop"}
grants:
  - identity: mail-team
    allow: ["schedule:mail-*", "read:mail-*"]
  - identity: mail-team
    allow: ["metrics"]
issuers:
  - url: https://issuer.example
    audience: kinesin
`

func TestParse(t *testing.T) {
	p, err := Parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	id, found := p.ByToken("abc")
	if !found || id.Name != "mail-team" || !id.Grants.Allow(access.Read, "mail-a") || !id.Grants.AllowAll(access.Metrics) || id.Grants.Allow(access.Read, "bill") {
		t.Errorf("%+v, %v", id, found)
	}
	if id, found := p.ByToken(hashOfAbc); found {
		t.Errorf("the hash is taken for the token: %+v", id)
	}
	if all := p.Identities(); len(all) != 2 || all[0].Name != "ci" || len(all[0].Grants) != 0 || !p.Has("ci") || p.Has("nobody") {
		t.Errorf("%+v", all)
	}
	if _, err := Parse(nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestAPolicyIsRefusedWhole(t *testing.T) {
	token := "\n    token_sha256: " + hashOfAbc
	for name, c := range map[string]struct{ text, says string }{
		"no YAML":           {"identities: [", "not a policy"},
		"a list":            {"- a", "not a policy"},
		"unknown key":       {"identities:\n  - name: a" + token + "\n    password: x", "field password not found"},
		"two documents":     {"identities: []\n---\ngrants: []", "more than one YAML document"},
		"name taken":        {"identities:\n  - name: anonymous" + token, "taken by Kinesin"},
		"no name":           {"identities:\n  - token_sha256: " + hashOfAbc, `identity ""`},
		"one name twice":    {"identities:\n  - name: a" + token + "\n  - name: a\n    token_sha256: " + strings.Repeat("00", 32), `identity "a": two identities have this name`},
		"one token twice":   {"identities:\n  - name: a" + token + "\n  - name: b" + token, `identity "b": it has the same token as identity "a"`},
		"no proof":          {"identities:\n  - name: a", "it has 0 of token_sha256, oidc and certificate: want one"},
		"two proofs":        {"identities:\n  - name: a" + token + "\n    certificate: {dns: x}", "it has 2 of"},
		"no hash":           {"identities:\n  - name: a\n    token_sha256: secret", "want 64 hexadecimal digits"},
		"unknown identity":  {"grants:\n  - identity: b\n    allow: [\"read:*\"]", `unknown identity "b"`},
		"unknown verb":      {"identities:\n  - name: a" + token + "\ngrants:\n  - identity: a\n    allow: [\"write:*\"]", `unknown verb "write": want one of schedule`},
		"unknown pattern":   {"identities:\n  - name: a" + token + "\ngrants:\n  - identity: a\n    allow: [\"read:m*l\"]", "a star at the end only"},
		"no grant":          {"identities:\n  - name: a" + token + "\ngrants:\n  - identity: a", "0 grants"},
		"unknown issuer":    {"identities:\n  - name: a\n    oidc: {issuer: \"https://x\", subject: s}", `unknown issuer "https://x"`},
		"no subject":        {"identities:\n  - name: a\n    oidc: {issuer: \"https://x\"}", "no subject"},
		"no audience":       {"issuers:\n  - url: https://x", "no audience"},
		"no issuer's URL":   {"issuers:\n  - url: x\n    audience: k", "want the URL"},
		"alg none":          {"issuers:\n  - url: https://x\n    audience: k\n    algorithms: [none]", `unknown algorithm "none"`},
		"a symmetric alg":   {"issuers:\n  - url: https://x\n    audience: k\n    algorithms: [HS256]", `unknown algorithm "HS256"`},
		"one issuer twice":  {"issuers:\n  - {url: https://x, audience: k}\n  - {url: https://x, audience: l}", "named twice"},
		"no CA of issuer":   {"issuers:\n  - {url: https://x, audience: k, ca_file: /nowhere}", "/nowhere"},
		"no client CA":      {"identities:\n  - name: a\n    certificate: {dns: x}", "need client_ca_file"},
		"client CA missing": {"client_ca_file: /nowhere", "/nowhere"},
		"two names in cert": {"identities:\n  - name: a\n    certificate: {dns: x, uri: y}", "want one of uri"},
	} {
		p, err := Parse([]byte(c.text))
		if p != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	_, err := Parse([]byte("identities:\n  - name: a\n  - name: anonymous\ngrants:\n  - identity: b\n    allow: [x]"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want all that is wrong, a line each: %v", err)
	}
}

func TestARefusedFileLeavesThePolicyInForce(t *testing.T) {
	path, virtual := filepath.Join(t.TempDir(), "policy.yaml"), clock.NewVirtual(0, 1)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		virtual.Advance(livefile.LookEvery)
	}
	write(valid)
	var told []error
	f, err := Open(path, virtual.Process(0), func(err error) { told = append(told, err) })
	if err != nil {
		t.Fatal(err)
	}
	write(strings.Replace(valid, "read:mail-*", "raed:mail-*", 1))
	if id, found := f.Get().ByToken("abc"); !found || !id.Grants.Allow(access.Schedule, "mail-a") || len(told) != 1 || told[0] == nil {
		t.Errorf("%+v, %v, told %v", id, found, told)
	}
	write(strings.Replace(valid, "read:mail-*", "cancel:mail-*", 1))
	if id, _ := f.Get().ByToken("abc"); id.Grants.Allow(access.Read, "mail-a") || !id.Grants.Allow(access.Cancel, "mail-a") || len(told) != 2 || told[1] != nil {
		t.Errorf("%+v, told %v", id, told)
	}
}

// The files of certificates that a policy names are part of it: a change counts at the next look, and a
// broken one leaves the policy as it was.
func TestCertificatesThatAPolicyNamesAreWatched(t *testing.T) {
	ours, others := tlstest.New(t), tlstest.New(t)
	pem := func(from *tlstest.Authority) []byte {
		content, err := os.ReadFile(from.File)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	for _, named := range []string{"client_ca_file: %q", "issuers: [{url: \"https://x\", audience: k, ca_file: %q}]"} {
		virtual, dir := clock.NewVirtual(0, 1), t.TempDir()
		path, ca := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "ca.pem")
		write := func(path string, content []byte) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			virtual.Advance(livefile.LookEvery)
		}
		write(ca, pem(ours))
		write(path, fmt.Appendf(nil, named, ca))
		var told []error
		f, err := Open(path, virtual.Process(0), func(err error) { told = append(told, err) })
		if err != nil {
			t.Fatal(err)
		}
		holds := func(when string, want []byte, tellings int) *Policy {
			t.Helper()
			p := f.Get()
			if !bytes.Equal(p.named[0].Bytes, want) || len(told) != tellings {
				t.Errorf("%s, %s: told %v", named, when, told)
			}
			return p
		}
		before := holds("at first", pem(ours), 0)
		write(ca, []byte("no certificate"))
		if holds("broken", pem(ours), 1) != before || told[0] == nil || !strings.Contains(told[0].Error(), "no certificate in PEM") {
			t.Errorf("broken: %v", told)
		}
		if err := os.Remove(ca); err != nil {
			t.Fatal(err)
		}
		virtual.Advance(livefile.LookEvery)
		if holds("gone", pem(ours), 2) != before || told[1] == nil || !strings.Contains(told[1].Error(), ca) {
			t.Errorf("gone: %v", told)
		}
		write(ca, pem(others))
		after := holds("another", pem(others), 3)
		if after == before || told[2] != nil {
			t.Errorf("another: told %v", told[2])
		}
		if len(before.issuers) == 1 && sameIssuer(&before.issuers[0], &after.issuers[0]) {
			t.Error("the issuer's keys are verified as before")
		}
		if before.Roots() != nil && before.Roots().Equal(after.Roots()) {
			t.Error("client certificates are verified as before")
		}
		virtual.Advance(livefile.LookEvery)
		holds("later", pem(others), 3)
	}
}

func TestByCertificate(t *testing.T) {
	ours, others := tlstest.New(t), tlstest.New(t)
	p, err := Parse([]byte("client_ca_file: " + ours.File + `
identities:
  - name: biller
    certificate: {uri: "spiffe://example.org/billing"}
`))
	if err != nil || p.Roots() == nil {
		t.Fatal(err)
	}
	of := func(raw [][]byte) []*x509.Certificate {
		c, err := x509.ParseCertificate(raw[0])
		if err != nil {
			t.Fatal(err)
		}
		return []*x509.Certificate{c}
	}
	server, err := tls.LoadX509KeyPair(ours.CertFile, ours.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		says  string
	}{
		"its own":            {of(ours.Client("spiffe://example.org/billing").Certificate), ""},
		"another name":       {of(ours.Client("spiffe://example.org/billing/x").Certificate), "no identity"},
		"signed by another":  {of(others.Client("spiffe://example.org/billing").Certificate), "unknown authority"},
		"expired":            {of(ours.Expired("spiffe://example.org/billing").Certificate), "expired"},
		"that of the server": {of(server.Certificate), "no identity"},
		"none":               {nil, "takes no client certificates"},
	} {
		id, err := p.ByCertificate(c.chain)
		if (err == nil) != (c.says == "") || (err == nil) != (id.Name == "biller") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}
