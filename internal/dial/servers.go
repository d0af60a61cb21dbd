package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// serversMax bounds the addresses in one list.
const serversMax = 16

// Servers returns the base URLs of the servers in a list of addresses, which commas separate. An address is
// an http or https URL, or HOST:PORT for http. It refuses anything else, an address that is there twice and
// more than 16 of them; the error says what is allowed.
func Servers(list string) ([]string, error) {
	var urls []string
	for part := range strings.SplitSeq(list, ",") {
		base, err := baseURL(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if slices.Contains(urls, base) {
			return nil, fmt.Errorf("server %q is named twice", base)
		}
		urls = append(urls, base)
	}
	if len(urls) > serversMax {
		return nil, fmt.Errorf("%d servers: want %d at most", len(urls), serversMax)
	}
	return urls, nil
}

func baseURL(address string) (string, error) {
	if strings.Contains(address, "@") { // the text of the error must not show it
		return "", errors.New("server: its URL has a user or a password in it; a token is sent with WithTokenFile or --token-file")
	}
	whole := address
	if _, port, err := net.SplitHostPort(address); err == nil && port != "" && !strings.Contains(address, "://") {
		whole = "http://" + address
	}
	u, err := url.Parse(whole)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("server %q: want a URL such as http://127.0.0.1:7070 or https://kinesin.example.org, or HOST:PORT; "+
			"or several of them, with commas between them", address)
	}
	return strings.TrimRight(whole, "/"), nil
}

// servers are the servers that a program may call, one of which is in use. All clients of the program share
// the choice, so that a failure which one of them meets moves all of them. It is safe for concurrent use.
type servers struct {
	urls []*url.URL
	turn atomic.Uint64 // how often a server failed; urls[turn % len(urls)] is in use
}

func newServers(list string) (*servers, error) {
	texts, err := Servers(list)
	if err != nil {
		return nil, err
	}
	s := &servers{urls: make([]*url.URL, len(texts))}
	for i, text := range texts {
		if s.urls[i], err = url.Parse(text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// base returns the URL with which requests are made. They go to the server in use.
func (s *servers) base() *url.URL { return s.urls[0] }

// inUse returns the server in use, and the turn in which it is.
func (s *servers) inUse() (*url.URL, uint64) {
	turn := s.turn.Load()
	return s.urls[turn%uint64(len(s.urls))], turn
}

// failed puts the next server into use, unless another call that failed in the same turn has done so.
func (s *servers) failed(turn uint64) { s.turn.CompareAndSwap(turn, turn+1) }

// has reports whether a request goes to one of the servers, and not to where one of them redirected it.
func (s *servers) has(r *http.Request) bool {
	return slices.ContainsFunc(s.urls, func(u *url.URL) bool { return isAt(r, u) })
}

func isAt(r *http.Request, u *url.URL) bool { return r.URL.Host == u.Host && r.URL.Scheme == u.Scheme }

// at returns the request as it goes to a server, whose URL may have a path of its own.
func (s *servers) at(r *http.Request, server *url.URL) *http.Request {
	if base := s.base(); server != base {
		r = r.WithContext(r.Context()) // a copy: the caller's request must not change
		moved := *r.URL
		moved.Scheme, moved.Host = server.Scheme, server.Host
		moved.Path, moved.RawPath = server.Path+strings.TrimPrefix(r.URL.Path, base.Path), ""
		r.URL, r.Host = &moved, ""
	}
	return r
}

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
