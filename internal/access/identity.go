package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
)

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
