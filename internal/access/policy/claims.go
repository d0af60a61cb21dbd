package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	groupsClaimDefault = "groups"
	claimBytesMax      = 255 // of a subject, as OpenID Connect has it, and of an e-mail address and a group
	groupsMax          = 20  // of one subject that the policy names
)

// Claims are what an issuer says of somebody, as far as the policy asks for it.
type Claims struct {
	Issuer  string   `json:"i"`
	Subject string   `json:"s"`
	Email   string   `json:"m,omitempty"` // if the issuer has verified it
	Groups  []string `json:"g,omitempty"` // those that the policy names
}

// oidcGroup is an identity of all who are in a group of an issuer.
type oidcGroup struct{ issuer, group, name string }

// check refuses what names no claim, or several.
func (o *oidcSubject) check() error {
	ways := 0
	for _, value := range []string{o.Subject, o.Email, o.Group} {
		if len(value) > claimBytesMax {
			return fmt.Errorf("%.40q… has %d bytes: want at most %d", value, len(value), claimBytesMax)
		}
		if value != "" {
			ways++
		}
	}
	switch {
	case ways == 0:
		return errors.New("it has no subject, email or group: want one")
	case ways > 1:
		return fmt.Errorf("it has %d of subject, email and group: want one", ways)
	case o.Email != "" && !strings.Contains(o.Email, "@"):
		return fmt.Errorf("email %q: want an address, such as ada@example.org", o.Email)
	}
	return nil
}

// noteClaim notes by which claim an identity is known.
func (p *Policy) noteClaim(name string, o oidcSubject) error {
	switch {
	case o.Subject != "":
		return note(p.subjects, o, name, "subject of this issuer")
	case o.Email != "":
		o.Email = strings.ToLower(o.Email)
		return note(p.emails, o, name, "e-mail address of this issuer")
	}
	for _, g := range p.groups {
		if g.issuer == o.Issuer && g.group == o.Group {
			return fmt.Errorf("it has the same group of this issuer as identity %q", g.name)
		}
	}
	p.groups = append(p.groups, oidcGroup{o.Issuer, o.Group, name})
	return nil
}

// ErrNobody says that the policy has no identity for what an issuer says of somebody.
var ErrNobody = errors.New("the policy has no identity for this subject of its issuer")

// ByClaims returns the identity of whoever an issuer says these claims of: that of his subject, else of his
// e-mail address, else of his groups. In several groups he may do what any of them may. As all members of a
// group are one identity in the file, the name of the identity also has who of them it is.
func (p *Policy) ByClaims(c Claims) (access.Identity, error) {
	if name, found := p.subjects[oidcSubject{Issuer: c.Issuer, Subject: c.Subject}]; found {
		return p.identities[name], nil
	}
	if name, found := p.emails[oidcSubject{Issuer: c.Issuer, Email: strings.ToLower(c.Email)}]; found && c.Email != "" {
		return p.identities[name], nil
	}
	var id access.Identity
	for _, g := range p.groups {
		if g.issuer != c.Issuer || !slices.Contains(c.Groups, g.group) {
			continue
		}
		if id.Name == "" {
			id.Name = g.name + "/" + cmp.Or(c.Email, c.Subject) // no identity of the file has a slash in its name
		}
		id.Grants = append(slices.Clip(id.Grants), p.identities[g.name].Grants...)
	}
	if id.Name == "" {
		return id, ErrNobody
	}
	return id, nil
}

// known returns those of the groups that the policy names for an issuer.
func (p *Policy) known(issuer string, groups []string) (known []string) {
	for _, g := range p.groups {
		if g.issuer == issuer && slices.Contains(groups, g.group) && len(known) < groupsMax {
			known = append(known, g.group)
		}
	}
	return known
}

// asked returns the claims of a token of an issuer that the policy asks for. all has them all.
func (p *Policy) asked(of *issuer, subject string, all map[string]any) (Claims, error) {
	c := Claims{Issuer: of.URL, Subject: subject}
	if len(subject) == 0 || len(subject) > claimBytesMax {
		return c, fmt.Errorf("%w: its subject has %d bytes, want 1 to %d", ErrJWT, len(subject), claimBytesMax)
	}
	if email, _ := all["email"].(string); all["email_verified"] == true && len(email) <= claimBytesMax {
		c.Email = email
	}
	var groups []string
	switch value := all[cmp.Or(of.GroupsClaim, groupsClaimDefault)].(type) {
	case string: // some issuers send one so
		groups = []string{value}
	case []any:
		for _, one := range value {
			if group, is := one.(string); is {
				groups = append(groups, group)
			}
		}
	}
	c.Groups = p.known(of.URL, groups)
	return c, nil
}

// keysEvery is how often, at most, an issuer is asked for its keys, because anybody can send JWTs that name
// another key each. So a new key of an issuer may be unknown for as long.
const keysEvery = 10 * time.Second

// Why an issuer is not asked for its keys now.
var (
	errKeysKnown = errors.New("its keys were read moments ago")
	errKeysAway  = errors.New("it did not show its keys moments ago: try again")
)

// keySet verifies signatures by the keys at a URL, which it reads when it meets an unknown one, at most once
// in keysEvery.
type keySet struct{ remote *oidc.RemoteKeySet }

func newKeySet(ctx context.Context, client *http.Client, url string, c clock.Clock) keySet {
	bounded := *client
	bounded.Transport = &rarely{next: client.Transport, clock: c}
	return keySet{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &bounded), url)}
}

// VerifySignature implements oidc.KeySet.
func (k keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, jwt)
	if errors.Is(err, errKeysKnown) { // another call may have fetched them since this one looked
		payload, err = k.remote.VerifySignature(ctx, jwt)
	}
	return payload, err
}

// rarely lets a request through once in keysEvery.
type rarely struct {
	next  http.RoundTripper
	clock clock.Clock

	mu    sync.Mutex    // guards the rest
	again time.Duration // in monotonic time
	asked bool
	last  error // of the last request
}

// RoundTrip implements http.RoundTripper.
func (r *rarely) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	response, err := r.next.RoundTrip(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && response.StatusCode == http.StatusOK {
		r.last = errKeysKnown
	}
	return response, err
}

// begin refuses a request that comes too soon. It takes a request for failed until it has an answer.
func (r *rarely) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := clock.Mono(r.clock)
	if r.asked && now < r.again {
		return r.last
	}
	r.asked, r.again, r.last = true, now+keysEvery, errKeysAway
	return nil
}
