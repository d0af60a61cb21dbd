package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/internal/access"
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
