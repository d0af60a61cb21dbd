package policy

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/alloctest"
)

// FuzzParse reads any text as a policy. An accepted policy means what it says: each identity has a name of
// its own, and grants that can be read again.
func FuzzParse(f *testing.F) {
	hash := strings.Repeat("5", 64)
	for _, text := range []string{
		"", "identities: []", "---\n---\n", "identities: {a: b}", "issuers: [{url: http://a}]",
		"identities:\n  - {name: a, token_sha256: " + hash + "}\ngrants:\n  - {identity: a, allow: ['read:*', 'schedule:mail-*:c7', keyring]}\n",
		"identities:\n  - {name: a, oidc: {issuer: 'https://a', subject: s}}\nissuers:\n  - {url: 'https://a', audience: k, algorithms: [none]}\n",
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nidentities: [*c,*c,*c,*c,*c,*c,*c,*c]\n",
		"identities:\n" + strings.Repeat("  - {name: a}\n", 50), strings.Repeat("[", 10_000), strings.Repeat("- ", 10_000), "grants: " + strings.Repeat("{a: ", 3000),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") {
			return // it would name files of the machine that runs this
		}
		var p *Policy
		var err error
		alloctest.AtMost(t, uint64(1<<20+2048*len(text)), func() { p, err = Parse([]byte(text)) })
		if err != nil {
			return
		}
		for name, id := range p.identities {
			if id.Name != name || access.CheckName(name) != nil {
				t.Errorf("identity %q is named %q", name, id.Name)
			}
			if len(id.Grants) == 0 {
				continue
			}
			if again, err := access.ParseGrants(id.Grants.Strings()); err != nil || !id.Equal(access.Identity{Name: name, Grants: again}) {
				t.Errorf("grants of %s: %v, and %v again: %v", name, id.Grants, again, err)
			}
		}
	})
}
