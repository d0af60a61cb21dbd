package access

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parse(t interface{ Fatal(args ...any) }, texts ...string) Grants {
	g, err := ParseGrants(texts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestParseGrant(t *testing.T) {
	for text, says := range map[string]string{
		"schedule:mail":           "",
		"schedule:mail-*":         "",
		"*:*":                     "",
		"read:mail:customer 7":    "",
		"cancel:mail:a:b*":        "", // a collection may have any printable character
		"metrics":                 "",
		"debug:*":                 "",
		"":                        `unknown verb ""`,
		"schedule":                "want VERB:LAMBDA-PATTERN",
		"schedule:":               "empty pattern",
		"scheduled:mail":          "want one of schedule, read",
		"Schedule:mail":           "unknown verb",
		"read:ma*il":              "a star at the end only",
		"read:**":                 "a star at the end only",
		"read:mail.x":             "matches no lambda",
		"read:[a-z]":              "matches no lambda",
		"read:mail:":              "empty pattern",
		"read:mail:a\nb":          "printable",
		"metrics:mail":            "whole installation",
		"keyring:a*":              "whole installation",
		"admin:mail:a":            "only schedule, read, read-payload and cancel",
		"execute:mail:a":          "only schedule, read, read-payload and cancel",
		"*:mail:a":                "only schedule, read, read-payload and cancel",
		"read:" + long(65):        "matches no lambda",
		"read:mail:" + long(4000): "want at most 256",
	} {
		g, err := ParseGrant(text)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
		if err == nil {
			if again, err := ParseGrant(g.String()); err != nil || again != g {
				t.Errorf("%q became %q, which is %v, %v", text, g, again, err)
			}
		}
	}
	for _, texts := range [][]string{nil, make([]string, GrantsMax+1), {"read:*", "nothing"}} {
		if _, err := ParseGrants(texts); err == nil {
			t.Errorf("%d grants were taken", len(texts))
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestNothingIsAllowedWithoutAGrant(t *testing.T) {
	for _, g := range []Grants{nil, {}, From(t.Context()).Grants, {{}}} {
		for _, v := range Verbs() {
			if g.Allow(v, "mail") || g.AllowIn(v, "mail", "") || g.AllowSome(v, "mail") || g.AllowAll(v) || g.Allow(v, "") {
				t.Errorf("%v allows %s", g, v)
			}
		}
	}
}

func TestGrantsOfLambdasAndCollections(t *testing.T) {
	g := parse(t, "schedule:mail-*", "read:mail-a:c*", "execute:bill", "*:own")
	for _, c := range []struct {
		what string
		got  bool
		want bool
	}{
		{"a lambda of the pattern", g.Allow(Schedule, "mail-b"), true},
		{"another lambda", g.Allow(Schedule, "bill"), false},
		{"the beginning of the pattern", g.Allow(Schedule, "mail"), false},
		{"another verb", g.Allow(Read, "mail-b"), false},
		{"some collections are not all", g.Allow(Read, "mail-a"), false},
		{"some collections", g.AllowSome(Read, "mail-a"), true},
		{"a collection", g.AllowIn(Read, "mail-a", "c7"), true},
		{"another collection", g.AllowIn(Read, "mail-a", "d"), false},
		{"no collection", g.AllowIn(Read, "mail-a", ""), false},
		{"no collection, of all", g.AllowIn(Schedule, "mail-a", ""), true},
		{"an exact name", g.Allow(Execute, "bill"), true},
		{"longer than an exact name", g.Allow(Execute, "bill2"), false},
		{"all verbs", g.Allow(Admin, "own"), true},
		{"all verbs of one lambda are none of the installation", g.AllowAll(Metrics), false},
		{"all lambdas", g.AllowAll(Schedule), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", c.what, c.got)
		}
	}
}

// names are few, so that patterns meet.
var names = rapid.StringMatching(`[ab]{1,3}`)

func grants(t *rapid.T, label string) Grants {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Grant {
		g := Grant{Verb: rapid.SampledFrom(append(Verbs(), anyVerb)).Draw(t, "verb"), Lambda: Any, Collection: Any}
		pattern := func(label string) Pattern {
			if rapid.Bool().Draw(t, label+" all") {
				return Any
			}
			p := names.Draw(t, label)
			if rapid.Bool().Draw(t, label+" star") {
				p += "*"
			}
			return Pattern(p)
		}
		if g.Verb.isOfLambdas() {
			g.Lambda = pattern("lambda")
			if g.Verb == Schedule || g.Verb == Read {
				g.Collection = pattern("collection")
			}
		}
		return g
	}), 0, 4).Draw(t, label)
}

// An identity that grants only what it has cannot make one that may do more.
func TestWhatIsIncludedAllowsNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mine, theirs := grants(t, "mine"), grants(t, "theirs")
		missing, ok := mine.Missing(theirs)
		for range 20 {
			v, lambda, collection := rapid.SampledFrom(Verbs()).Draw(t, "v"), names.Draw(t, "l"), rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "c")
			if ok && (theirs.AllowIn(v, lambda, collection) && !mine.AllowIn(v, lambda, collection) ||
				theirs.Allow(v, lambda) && !mine.Allow(v, lambda) || theirs.AllowAll(v) && !mine.AllowAll(v)) {
				t.Fatalf("%v includes %v, which allows %s on %s in %q", mine, theirs, v, lambda, collection)
			}
		}
		if !ok && mine.covers(missing) {
			t.Fatalf("%v is missing in %v", missing, mine)
		}
		if _, all := All().Missing(theirs); !all {
			t.Fatalf("all grants do not include %v", theirs)
		}
		if _, self := mine.Missing(mine); !self {
			t.Fatalf("%v does not include itself", mine)
		}
	})
}

func TestWhatBothAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := grants(t, "a"), grants(t, "b")
		both := a.And(b)
		for range 20 {
			v, lambda, collection := rapid.SampledFrom(Verbs()).Draw(t, "v"), names.Draw(t, "l"), rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "c")
			if got, want := both.AllowIn(v, lambda, collection), a.AllowIn(v, lambda, collection) && b.AllowIn(v, lambda, collection); got != want {
				t.Fatalf("%v and %v: %v allows %s on %s in %q: %v, want %v", a, b, both, v, lambda, collection, got, want)
			}
			if got, want := both.Allow(v, lambda), a.Allow(v, lambda) && b.Allow(v, lambda); got != want {
				t.Fatalf("%v and %v: %v allows %s on all of %s: %v, want %v", a, b, both, v, lambda, got, want)
			}
		}
	})
}

func TestNamesOfIdentities(t *testing.T) {
	for name, ok := range map[string]bool{
		"mail-team": true, "a": true, "7": true, "ops@example.org": true, "": false, "-a": false, "a b": false, "a/b": false, "ü": false,
		AnonymousName: false, TokenFileName: false, long(NameBytesMax): true, long(NameBytesMax + 1): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestARefusalNamesVerbAndLambda(t *testing.T) {
	id := Identity{Name: "team"}
	for _, c := range []struct {
		v      Verb
		lambda string
		want   string
	}{
		{Schedule, "mail", "permission denied: team has no grant for schedule on lambda mail"},
		{Admin, "", "permission denied: team has no grant for admin on all lambdas; want admin:*"},
		{Metrics, "", "permission denied: team has no grant for metrics"},
	} {
		if err := id.Denied(c.v, c.lambda); err.Error() != c.want || !errors.Is(err, ErrDenied) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
