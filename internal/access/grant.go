// Package access says who may do what. An Identity is whoever makes a call; its grants name the verbs that it
// may use, each on the lambdas and collections that match a pattern. Everything that no grant allows is
// denied.
//
// The package decides and reads nothing: others find out whose a call is, and refuse it.
package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// GrantsMax bounds the grants of an identity.
const GrantsMax = 64

// Grant allows a verb on lambdas, and within them on collections.
type Grant struct {
	Verb       Verb // or all of them
	Lambda     Pattern
	Collection Pattern
}

// ParseGrant reads VERB:LAMBDA-PATTERN or VERB:LAMBDA-PATTERN:COLLECTION-PATTERN, such as schedule:mail-* or
// read:mail:customer-7. Verbs of the installation (keyring, metrics, debug) have no pattern, or a star.
func ParseGrant(text string) (Grant, error) {
	verbText, rest, hasLambda := strings.Cut(text, ":")
	verb, err := parseVerb(verbText)
	if err != nil {
		return Grant{}, fmt.Errorf("grant %.400q: %w", text, err)
	}
	g := Grant{Verb: verb, Lambda: Any, Collection: Any}
	lambda, collection, hasCollection := strings.Cut(rest, ":")
	switch {
	case !verb.isOfLambdas() && hasLambda && rest != string(Any):
		return Grant{}, fmt.Errorf("grant %.400q: %s is a verb of the whole installation: want %[2]s, or %[2]s:*", text, verb)
	case !verb.isOfLambdas():
		return g, nil
	case !hasLambda:
		return Grant{}, fmt.Errorf("grant %.400q: want VERB:LAMBDA-PATTERN, such as schedule:mail-* or read:*", text)
	}
	if g.Lambda, err = parseLambdaPattern(lambda); err == nil && hasCollection {
		g.Collection, err = parsePattern(collection)
	}
	if err == nil && g.Collection != Any && (verb == Admin || verb == Operate || verb == Execute || verb == anyVerb) {
		err = errors.New("a collection: only schedule, read, read-payload and cancel can be limited to collections")
	}
	if err != nil {
		return Grant{}, fmt.Errorf("grant %.400q: %w", text, err)
	}
	return g, nil
}

// ParseGrants reads 1 to GrantsMax grants.
func ParseGrants(texts []string) (Grants, error) {
	if n := len(texts); n == 0 || n > GrantsMax {
		return nil, fmt.Errorf("%d grants: want 1 to %d, such as schedule:mail-*", n, GrantsMax)
	}
	grants := make(Grants, len(texts))
	var errs []error
	for i, text := range texts {
		var err error
		grants[i], err = ParseGrant(text)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return grants, nil
}

// String returns the form that ParseGrant reads.
func (g Grant) String() string {
	text := string(g.Verb) + ":" + string(g.Lambda)
	if g.Collection != Any {
		text += ":" + string(g.Collection)
	}
	return text
}

func (g Grant) has(v Verb) bool { return g.Verb == v || g.Verb == anyVerb }

// Grants is what an identity may do: what one of them allows.
type Grants []Grant

// All allows everything.
func All() Grants { return Grants{{anyVerb, Any, Any}} }

// Allow reports whether the verb may be used on a lambda, in all its collections.
func (g Grants) Allow(v Verb, lambda string) bool {
	for _, one := range g {
		if one.has(v) && one.Collection == Any && one.Lambda.Matches(lambda) {
			return true
		}
	}
	return false
}

// AllowIn reports whether the verb may be used in a collection of a lambda; an empty one means tasks of none.
func (g Grants) AllowIn(v Verb, lambda, collection string) bool {
	for _, one := range g {
		if one.has(v) && one.Lambda.Matches(lambda) && one.Collection.Matches(collection) {
			return true
		}
	}
	return false
}

// AllowSome reports whether the verb may be used in one collection of a lambda at least.
func (g Grants) AllowSome(v Verb, lambda string) bool {
	for _, one := range g {
		if one.has(v) && one.Lambda.Matches(lambda) {
			return true
		}
	}
	return false
}

// Have reports whether the verb may be used on some lambda.
func (g Grants) Have(v Verb) bool {
	return slices.ContainsFunc(g, func(one Grant) bool { return one.has(v) })
}

// AllowAll reports whether the verb may be used on all lambdas, those of tomorrow included.
func (g Grants) AllowAll(v Verb) bool { return g.covers(Grant{v, Any, Any}) }

// Missing returns the first of these grants that g does not include; ok: there is none.
func (g Grants) Missing(of Grants) (missing Grant, ok bool) {
	for _, wanted := range of {
		if !g.covers(wanted) {
			return wanted, false
		}
	}
	return Grant{}, true
}

func (g Grants) covers(wanted Grant) bool {
	if wanted.Verb == anyVerb {
		for _, v := range Verbs() {
			if !g.covers(Grant{v, wanted.Lambda, wanted.Collection}) {
				return false
			}
		}
		return true
	}
	for _, one := range g {
		if one.has(wanted.Verb) && one.Lambda.covers(wanted.Lambda) && one.Collection.covers(wanted.Collection) {
			return true
		}
	}
	return false
}

// And returns grants that allow what both allow.
func (g Grants) And(others Grants) Grants {
	if _, all := others.Missing(g); all {
		return g
	}
	var both Grants
	for _, one := range g {
		for _, other := range others {
			if met, meets := one.and(other); meets && !both.covers(met) {
				both = append(both, met)
			}
		}
	}
	return both
}

func (g Grant) and(other Grant) (met Grant, meets bool) {
	met.Verb = g.Verb
	if met.Verb == anyVerb {
		met.Verb = other.Verb
	}
	lambda, lambdas := g.Lambda.and(other.Lambda)
	collection, collections := g.Collection.and(other.Collection)
	met.Lambda, met.Collection = lambda, collection
	return met, (g.has(other.Verb) || other.has(g.Verb)) && lambdas && collections
}

// Strings returns the grants in the form that ParseGrants reads.
func (g Grants) Strings() []string {
	texts := make([]string, len(g))
	for i, one := range g {
		texts[i] = one.String()
	}
	return texts
}

// Verb is a kind of action.
type Verb string

// The verbs.
const (
	Schedule    Verb = "schedule"     // accept tasks
	Read        Verb = "read"         // see lambdas, and tasks without their payloads
	ReadPayload Verb = "read-payload" // see payloads
	Cancel      Verb = "cancel"       // cancel tasks
	Operate     Verb = "operate"      // retry and delete what was set aside
	Execute     Verb = "execute"      // run tasks as a worker, which includes their payloads
	Admin       Verb = "admin"        // create, change and delete lambdas; on all lambdas also tokens, audit records and backups
	Keyring     Verb = "keyring"      // read and rotate keys
	Metrics     Verb = "metrics"      // read /metrics
	Debug       Verb = "debug"        // read /debug/pprof
)

// Verbs lists all verbs.
func Verbs() []Verb {
	return []Verb{Schedule, Read, ReadPayload, Cancel, Operate, Execute, Admin, Keyring, Metrics, Debug}
}

// anyVerb stands for all verbs in a grant.
const anyVerb Verb = "*"

// isOfLambdas reports whether a verb acts on lambdas; the others act on the installation.
func (v Verb) isOfLambdas() bool { return v != Keyring && v != Metrics && v != Debug }

// parseVerb returns the verb of that name.
func parseVerb(text string) (Verb, error) {
	v := Verb(text)
	if v == anyVerb || slices.Contains(Verbs(), v) {
		return v, nil
	}
	return "", fmt.Errorf("unknown verb %.100q: want one of %s, or * for all of them", text, VerbNames())
}

// VerbNames returns the names of all verbs, for people.
func VerbNames() string {
	names := make([]string, len(Verbs()))
	for i, v := range Verbs() {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

// PatternBytesMax bounds a pattern.
const PatternBytesMax = 256

// lambdaForm is the form of a pattern of lambdas, whose names are task.CheckName's.
var lambdaForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}\*?$`)

// Pattern is the name of a lambda or collection, or the beginning of names, followed by a star.
type Pattern string

// Any is the pattern that matches every name, and no name.
const Any Pattern = "*"

// parsePattern checks a pattern.
func parsePattern(text string) (Pattern, error) {
	switch star := strings.IndexByte(text, '*'); {
	case text == "":
		return "", errors.New("empty pattern: want a name, or the beginning of names and a star, such as mail-*, or * for all")
	case len(text) > PatternBytesMax:
		return "", fmt.Errorf("pattern of %d bytes: want at most %d", len(text), PatternBytesMax)
	case star >= 0 && star < len(text)-1:
		return "", fmt.Errorf("pattern %.200q: want a star at the end only, such as mail-*", text)
	case strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "", fmt.Errorf("pattern %.200q: want printable characters", text)
	}
	return Pattern(text), nil
}

func parseLambdaPattern(text string) (Pattern, error) {
	p, err := parsePattern(text)
	if err == nil && !lambdaForm.MatchString(text) {
		err = fmt.Errorf("pattern %.200q matches no lambda: want 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-', or the first of them and a star", text)
	}
	return p, err
}

// Matches reports whether a name matches.
func (p Pattern) Matches(name string) bool {
	if prefix, found := strings.CutSuffix(string(p), "*"); found {
		return strings.HasPrefix(name, prefix)
	}
	return string(p) == name
}

// covers reports whether every name that matches q matches p.
func (p Pattern) covers(q Pattern) bool {
	prefix, found := strings.CutSuffix(string(p), "*")
	if !found {
		return p == q
	}
	return strings.HasPrefix(strings.TrimSuffix(string(q), "*"), prefix)
}

// and returns the pattern of the names that match both; meets: there are some.
func (p Pattern) and(q Pattern) (both Pattern, meets bool) {
	if p.covers(q) {
		return q, true
	}
	return p, q.covers(p)
}

// Identities that no policy and no token defines.
const (
	AnonymousName = "anonymous"  // calls without a token, on a server that asks for none
	TokenFileName = "token-file" // tokens of the file that serve is given
	ServerName    = "server"     // the server itself, in audit records
)

// NameBytesMax bounds the name of an identity.
const NameBytesMax = 100

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]*$`)

// CheckName checks the name of an identity that is to be made.
func CheckName(name string) error {
	switch {
	case name == AnonymousName || name == TokenFileName || name == ServerName:
		return fmt.Errorf("identity %q: the name is taken by Kinesin itself", name)
	case len(name) == 0 || len(name) > NameBytesMax || !nameForm.MatchString(name):
		return fmt.Errorf("identity %.100q: want 1 to %d characters of A-Z, a-z, 0-9 and ._@-, the first a letter or digit", name, NameBytesMax)
	}
	return nil
}

// Identity is whoever makes a call. The zero value may do nothing.
type Identity struct {
	Name   string
	Grants Grants
}

// Anonymous returns the identity of calls to a server that asks for no token.
func Anonymous() Identity { return Identity{AnonymousName, All()} }

// Equal reports whether two identities have the same name and the same grants.
func (id Identity) Equal(other Identity) bool {
	return id.Name == other.Name && slices.Equal(id.Grants, other.Grants)
}

// ErrDenied says that no grant allows what was asked for.
var ErrDenied = errors.New("permission denied")

// Denied returns ErrDenied for a verb on a lambda; an empty lambda means all of them.
func (id Identity) Denied(v Verb, lambda string) error {
	name := id.Name
	if name == "" {
		name = "a call without identity"
	}
	switch {
	case !v.isOfLambdas():
		return fmt.Errorf("%w: %s has no grant for %s", ErrDenied, name, v)
	case lambda == "":
		return fmt.Errorf("%w: %s has no grant for %s on all lambdas; want %[3]s:*", ErrDenied, name, v)
	}
	return fmt.Errorf("%w: %s has no grant for %s on lambda %s", ErrDenied, name, v, lambda)
}

// Caller is who made a call, and from where.
type Caller struct {
	Identity

	From   string // network address
	Reason string // why he acts, as he says; empty: he was not asked
}

// Host returns the caller's address without its port, which changes with each connection.
func (c Caller) Host() string {
	if host, _, err := net.SplitHostPort(c.From); err == nil {
		return host
	}
	return c.From
}

type callerKey struct{}

// With returns a context of a call by this caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller of a context; without one its identity may do nothing.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
