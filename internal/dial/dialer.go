package dial

import (
	"context"
	"net"
	"time"
)

// How connections are made.
const (
	// dialWithinMax bounds the making of a connection to the only server.
	dialWithinMax = 3 * time.Second
	// dialOneOfSeveralMax bounds it where there are others, so that a call is with another one within a
	// second.
	dialOneOfSeveralMax = 800 * time.Millisecond
	// dialStagger is how long an address of a name has before the next one is tried beside it.
	dialStagger = 200 * time.Millisecond
	// addressesMax bounds the addresses of a name that are tried.
	addressesMax = 16
)

// dialer makes the connections of a program's clients. A name may have several addresses, each of a server:
// the dialer tries them in the order in which the resolver names them, and begins with another one after each
// failure of a server.
type dialer struct {
	servers *servers
	lookup  func(ctx context.Context, host string) ([]string, error)
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDialer(s *servers) *dialer {
	return &dialer{servers: s, lookup: net.DefaultResolver.LookupHost, dial: (&net.Dialer{}).DialContext}
}

// DialContext makes a connection to HOST:PORT.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	within := dialWithinMax
	if len(d.servers.urls) > 1 {
		within = dialOneOfSeveralMax
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all := d.addresses(ctx, address)
	if len(all) == 1 {
		return d.dial(ctx, network, all[0])
	}
	return d.firstOf(ctx, network, all)
}

// addresses returns the addresses of the name in HOST:PORT, at least one. For an IP address, and where the
// resolver fails, that is what it was given; dialing that explains the failure.
func (d *dialer) addresses(ctx context.Context, address string) []string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) != nil {
		return []string{address}
	}
	found, err := d.lookup(ctx, host)
	if err != nil || len(found) == 0 {
		return []string{address}
	}
	found = found[:min(len(found), addressesMax)]
	all := make([]string, len(found))
	for i := range found {
		next := (d.servers.turn.Load() + uint64(i)) % uint64(len(found))
		all[i] = net.JoinHostPort(found[next], port)
	}
	return all
}

// firstOf returns the first connection that one of several addresses accepts. It tries the next address when
// the one before it failed, or has not answered for a while.
func (d *dialer) firstOf(ctx context.Context, network string, all []string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the tries that are left
	results := make(chan result)
	begin := func(address string) {
		conn, err := d.dial(ctx, network, address)
		select {
		case results <- result{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close() // another address was quicker
			}
		}
	}
	stagger := time.NewTicker(dialStagger)
	defer stagger.Stop()
	go begin(all[0])
	for begun, failed := 1, 0; ; {
		select {
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			if failed++; failed == len(all) {
				return nil, r.err
			}
		case <-stagger.C:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.Cause(ctx)}
		}
		if begun < len(all) {
			go begin(all[begun])
			begun++
		}
	}
}
