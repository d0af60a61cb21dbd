package httptarget

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"

	"github.com/kinesin-io/kinesin/task"
)

// ErrForbidden refuses to connect to an address that a target may not have. The address is not in the text,
// which whoever schedules a task can read.
var ErrForbidden = errors.New("the address of the host is not public, or its port is below 1024 and neither 80 nor 443, and the server does not allow it (serve --targets-allow)")

// Guard says to which addresses a Client connects. It sees the address that is dialled, after the name was
// resolved.
type Guard struct {
	Allow []netip.Prefix // besides public addresses; with any port
}

// notPublic are the addresses of IPv4 that lead into this network, or nowhere: special purposes of IANA,
// multicast and reserved ones.
var notPublic = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3")

// Of IPv6 public6 is public, but for what may lead to an address of IPv4 (Teredo, 6to4) or nowhere.
var (
	public6    = prefixes("2000::/3")
	notPublic6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func in(all []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Check refuses, with ErrForbidden and task.ErrInvalid, the URL of a target whose host is an address to which no
// connection would be made. Where a name leads is known only when it is called.
func (g *Guard) Check(target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return nil //nolint:nilerr // the host has a word of the task
	}
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // a name
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		port = map[string]uint64{"http": 80, "https": 443}[u.Scheme]
	}
	if g.allows(netip.AddrPortFrom(a, uint16(port))) {
		return nil
	}
	return fmt.Errorf("%w target %s: %w", task.ErrInvalid, u.Host, ErrForbidden)
}

// control is a net.Dialer's.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if !g.allows(to) {
		return ErrForbidden
	}
	return nil
}

// portMin is the lowest port that is called besides those of HTTP: below are services of systems.
const portMin = 1024

func (g *Guard) allows(to netip.AddrPort) bool {
	a := to.Addr().Unmap().WithZone("")
	switch port := to.Port(); {
	case in(g.Allow, a):
		return true
	case port < portMin && port != 80 && port != 443:
		return false
	case a.Is4():
		return !in(notPublic, a)
	}
	return in(public6, a) && !in(notPublic6, a)
}
