package awslocal

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands on a free loopback port before one upstream and harms what passes. It begins sound and
// has one fault at a time: each call replaces the last. Faults hold for connections already open, too.
type Proxy struct {
	tb testing.TB

	mu    sync.Mutex // one fault at a time
	proxy *toxiproxy.Proxy
	url   string
}

// Direction is a way through the proxy.
type Direction string

const (
	// Requests go to the upstream: harmed ones have no effect there.
	Requests Direction = "upstream"
	// Replies come back: what they answer has been done.
	Replies Direction = "downstream"
)

// NewProxy starts a proxy to the URL of an emulator until the test is over.
func NewProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{tb: tb, proxy: toxiproxy.NewProxy(server, tb.Name(), "127.0.0.1:0", target.Host)}
	if err := p.proxy.Start(); err != nil {
		tb.Fatal(err)
	}
	p.url = "http://" + p.proxy.Listen
	tb.Cleanup(p.proxy.Stop)
	return p
}

// URL is where clients reach the proxy. It never changes.
func (p *Proxy) URL() string { return p.url }

// Latency holds every reply back for so long.
func (p *Proxy) Latency(d time.Duration) {
	p.set(toxic{Type: "latency", Stream: Replies, Attributes: map[string]int64{"latency": d.Milliseconds()}})
}

// BlackHole lets nothing through in one direction and answers nothing: clients run into their timeouts.
// The connections it has swallowed something from are closed by the next call.
func (p *Proxy) BlackHole(d Direction) {
	p.set(toxic{Type: "timeout", Stream: d, Attributes: map[string]int64{"timeout": 0}})
}

// Reset cuts a connection as soon as something comes along it in that direction, which is lost:
// connections made from now on by a TCP reset, older ones by an end of the stream.
func (p *Proxy) Reset(d Direction) {
	p.set(toxic{Type: "reset_peer", Stream: d, Attributes: map[string]int64{"timeout": 0}})
}

// Refuse cuts all connections and accepts no more.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Stop()
}

// Heal ends whatever fault there is.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heal()
}

func (p *Proxy) heal() {
	p.proxy.Toxics.ResetToxics(context.Background())
	if p.proxy.Enabled {
		return
	}
	if err := p.proxy.Start(); err != nil {
		p.tb.Errorf("the proxy at %s does not start again: %v", p.url, err)
	}
}

type toxic struct {
	Type       string           `json:"type"`
	Stream     Direction        `json:"stream"`
	Attributes map[string]int64 `json:"attributes"`
}

func (p *Proxy) set(t toxic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heal()
	text, err := json.Marshal(t)
	if err == nil {
		_, err = p.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	}
	if err != nil {
		p.tb.Errorf("proxy: %v", err)
	}
}
