package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/web"
)

// guarded starts a server that asks for tokens.
func guarded(t *testing.T) *running {
	t.Helper()
	r := serve(t, Config{AuthTokenFile: tokenFile(t, goodToken), DataDir: filepath.Join(t.TempDir(), "data")})
	return r
}

// dial opens a connection and sends the beginning of what a client would.
func (r *running) dial(text string) net.Conn {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")) // it may be closed already
	return conn
}

const signInForm = "POST /ui/signin HTTP/1.1\nHost: 127.0.0.1\nContent-Type: application/x-www-form-urlencoded\nContent-Length: %d\n\nt"

// answerOf reads the status of an answer.
func answerOf(t *testing.T, conn net.Conn) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(hangs))
	status := make([]byte, len("HTTP/1.1 200"))
	_, _ = io.ReadFull(conn, status)
	return string(bytes.Trim(status, "\x00"))
}

func TestAFormOfAStrangerIsSmall(t *testing.T) {
	r := guarded(t)
	if got := answerOf(t, r.dial(fmt.Sprintf(signInForm, web.SignInBytesMax+1))); got != "HTTP/1.1 413" {
		t.Errorf("a form that is announced as too large: %s", got)
	}
	long := r.dial("POST /ui/signin HTTP/1.1\nHost: 127.0.0.1\nContent-Type: application/x-www-form-urlencoded\nTransfer-Encoding: chunked\n\n5000\ntoken=" + strings.Repeat("a", 0x5000))
	if got := answerOf(t, long); got != "HTTP/1.1 400" {
		t.Errorf("a form that becomes too large: %s", got)
	}
}

// Those who have not signed in share a room by address, and whatever they do others are served.
func TestStrangersHaveRoomOfTheirOwn(t *testing.T) {
	r := guarded(t)
	r.as(goodToken) // connections that are dialled have no token
	for range 150 {
		r.dial(fmt.Sprintf(signInForm, web.SignInBytesMax))
	}
	refused := func() string {
		value, _ := r.metric(`kinesin_room_refused_total{room="strangers"}`)
		return value
	}
	r.until("one call more of an address than may be", func() bool { return refused() > "0" })
	if used := r.calls.strangers.room.Used(); used > strangersBytesMax/2 {
		t.Errorf("one address has %d of %d bytes", used, strangersBytesMax)
	}
	if got := answerOf(t, r.dial(fmt.Sprintf(signInForm, web.SignInBytesMax))); got != "HTTP/1.1 503" {
		t.Errorf("one more: %s", got)
	}
	if status, answer := r.post("LambdaService/ListLambdas", "{}"); status != http.StatusOK {
		t.Errorf("who has a token: %d %v", status, answer)
	}
	if !strings.Contains(r.logs.String(), `"room":"strangers"`) {
		t.Error("the log does not say who was refused")
	}
	if value, _ := r.metric(`kinesin_room_max{room="payloads"}`); value == "" {
		t.Error("no limit in the metrics")
	}
}

func TestReadyzSaysThatTheRoomIsFull(t *testing.T) {
	r := guarded(t)
	payloads := r.calls.next.Rooms()[0]
	leave, ok := payloads.Take("others", payloads.Most()*9/10, true)
	if !ok {
		t.Fatal("nothing is taken")
	}
	if status, text := r.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "room for bodies (payloads) is full") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.get("/livez"); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	leave()
	if status, text := r.get("/readyz"); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// Connections of an address whose callers have not shown who they are replace each other, and no others.
func TestConnectionsOfStrangers(t *testing.T) {
	r := guarded(t)
	r.as(goodToken)
	if status, _ := r.get("/v1/lambdas"); status != http.StatusOK { // on a connection that stays
		t.Fatal(status)
	}
	r.listener.mu.Lock()
	r.listener.strangersPerAddress = 8
	r.listener.mu.Unlock()
	var conns []net.Conn
	for range 8 {
		conns = append(conns, r.dial("GET /readyz HTTP/1.1\nX: "))
	}
	r.until("all are open", func() bool { return r.listener.count() >= 9 })
	early := r.dial("GET /readyz HTTP/1.1\nHost: 127.0.0.1\n\n")
	if got := answerOf(t, early); got != "" {
		t.Errorf("one more at once: %s", got)
	}
	r.listener.mu.Lock()
	for e := r.listener.strangers.Front(); e != nil; e = e.Next() {
		one, _ := e.Value.(*connection)
		one.since = one.since.Add(-strangerMin)
	}
	r.listener.mu.Unlock()
	if got := answerOf(t, r.dial("GET /readyz HTTP/1.1\nHost: 127.0.0.1\n\n")); got != "HTTP/1.1 200" {
		t.Errorf("one more, when the others had their time: %s", got)
	}
	r.listener.mu.Lock()
	if open := r.listener.strangers.Len(); open > 8 {
		t.Errorf("%d connections of strangers are open", open)
	}
	r.listener.mu.Unlock()
	if got := answerOf(t, conns[0]); got != "" {
		t.Errorf("the oldest: %s", got)
	}
	if status, _ := r.get("/v1/lambdas"); status != http.StatusOK {
		t.Errorf("a connection whose caller is known: %d", status)
	}
	r.listener.mu.Lock()
	known := r.listener.open - r.listener.strangers.Len()
	r.listener.mu.Unlock()
	if known != 1 {
		t.Errorf("%d connections are known", known)
	}
}

// http2Conn is a connection of HTTP/2 that sends frames as it is told.
type http2Conn struct {
	net.Conn

	next uint32 // stream
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
	head = binary.BigEndian.AppendUint32(append(head, kind, flags), stream)
	return append(head, payload...)
}

func literal(how byte, name, value string) []byte {
	return slicesOf([]byte{how}, text(name), text(value))
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// text is a string of HPACK without Huffman codes.
func text(s string) []byte {
	size := len(s)
	if size < 127 {
		return append([]byte{byte(size)}, s...)
	}
	out := []byte{127}
	for size -= 127; size >= 128; size >>= 7 {
		out = append(out, byte(size&127|128))
	}
	return append(append(out, byte(size)), s...)
}

func (r *running) dialHTTP2() *http2Conn {
	c := &http2Conn{r.dial(""), 1}
	_, _ = c.Write(slicesOf([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0}), frame(4, 1, 0, nil))) // no window for answers
	go func() { _, _ = io.Copy(io.Discard, c) }()
	return c
}

// begin begins a call, and reports whether the connection takes it.
func (c *http2Conn) begin(method, path string, block []byte, ends byte) bool {
	head := slicesOf(literal(0, ":method", method), literal(0, ":scheme", "http"), literal(0, ":path", path), literal(0, ":authority", "127.0.0.1"), block)
	_, err := c.Write(frame(1, 4|ends, c.next, head))
	c.next += 2
	return err == nil
}

// One connection of HTTP/2 has few calls before it is known whose it is.
func TestCallsOfAStrangerOnOneConnection(t *testing.T) {
	r := guarded(t)
	c := r.dialHTTP2()
	r.until("the connection is closed", func() bool { return !c.begin("POST", "/ui/signin", nil, 0) })
	if c.next > 2000 {
		t.Errorf("%d calls are taken", c.next/2)
	}
	r.until("nothing is left", func() bool { return r.calls.strangers.room.Used() == 0 })
}

// What those take who have not shown who they are is bounded, whatever they send. In the process of the test
// there are also its clients.
func TestMemoryOfStrangers(t *testing.T) {
	const grownMax = 64 << 20
	if testing.Short() {
		t.Skip("takes a while, and the race detector takes memory of its own")
	}
	cookie := literal(0x40, "cookie", "k="+strings.Repeat("A", 3900))
	again := bytes.Repeat([]byte{0xbe}, 7) // a reference to it
	http2 := func(begin func(c *http2Conn)) func(r *running) {
		return func(r *running) {
			var all sync.WaitGroup
			for range 30 {
				c := r.dialHTTP2()
				all.Go(func() { begin(c) })
			}
			all.Wait()
		}
	}
	for name, attack := range map[string]func(r *running){
		"a header that is too long": http2(func(c *http2Conn) {
			for open := true; open && c.next < 1000; {
				open = c.begin("POST", "/ui/signin", slicesOf(cookie, bytes.Repeat([]byte{0xbe}, 230)), 0)
			}
		}),
		"answers that nobody reads": http2(func(c *http2Conn) {
			c.begin("GET", "/readyz", cookie, 1)
			for open := true; open && c.next < 600; {
				open = c.begin("GET", "/nothing", again, 1)
			}
		}),
		"a header without an end": http2(func(c *http2Conn) {
			_, _ = c.Write(frame(1, 0, 1, literal(0, ":method", "GET")))
			for range 1000 {
				if _, err := c.Write(frame(9, 0, 1, cookie)); err != nil {
					return
				}
			}
		}),
		"a frame without an end": http2(func(c *http2Conn) { _, _ = c.Write(frame(0, 0, 1, make([]byte, 1<<20))[:1<<19]) }),
		"bodies": http2(func(c *http2Conn) {
			for c.next < 600 && c.begin("POST", "/kinesin.v1.TaskService/Schedule", nil, 0) {
				_, _ = c.Write(frame(0, 0, c.next-2, make([]byte, 16<<10)))
			}
		}),
		"long headers of HTTP/1.1": func(r *running) {
			for range 300 {
				r.dial("GET /ui/signin HTTP/1.1\nHost: x\nCookie: " + strings.Repeat("A", 40<<10))
			}
		},
		"half forms of HTTP/1.1": func(r *running) {
			for range 300 {
				r.dial("POST /ui/signin HTTP/1.1\nHost: x\nCookie: " + strings.Repeat("A", 30<<10) + "\nContent-Length: 16384\n\n" + strings.Repeat("t", 16<<10-1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := guarded(t)
			before := living()
			attack(r)
			if grown := living() - before; grown > grownMax/2 { // of which the collector may let as much again come
				t.Errorf("%d MiB more", grown>>20)
			}
			r.as(goodToken)
			if status, answer := r.post("LambdaService/ListLambdas", "{}"); status != http.StatusOK {
				t.Errorf("who has a token: %d %v", status, answer)
			}
		})
	}
}

// living returns the bytes that are in use.
func living() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestHeadersAreBounded(t *testing.T) {
	r := guarded(t)
	for size, status := range map[int]int{20 << 10: http.StatusUnauthorized, 37 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/v1/lambdas", nil)
		request.RequestURI = ""
		request.Header.Set("X-Long", strings.Repeat("A", size))
		response, err := r.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != status {
			t.Errorf("%d bytes: %d", size, response.StatusCode)
		}
	}
}
