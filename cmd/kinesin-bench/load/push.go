package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/sdk/admin"
)

const (
	// hangEvery is of how many hosts of Push one answers no call.
	hangEvery = 100
	// hangTimeout ends the attempts of calls that nobody answers.
	hangTimeout = 10 * time.Second
	// idleFor is how long the receiver keeps a connection on which nothing comes: many hosts have many.
	idleFor = 2 * time.Second
	// hostTag has the host of a task.
	hostTag = "host"
	// HostsMax is as many as fit into 127.0.0.0/8 by two numbers.
	HostsMax = 64_000
)

// receiver is what the tasks of Push call: many addresses of the loopback range, each a host of its own. A call is
// the start of its task. One host of a hundred reads calls and never answers.
type receiver struct {
	port    int
	server  *http.Server
	serving errgroup.Group
}

// receive listens on all hosts of a run.
func (r *run) receive(ctx context.Context) (*receiver, error) {
	e := &receiver{server: &http.Server{ReadHeaderTimeout: patienceBase, IdleTimeout: idleFor, ErrorLog: log.New(io.Discard, "", 0)}}
	e.server.Handler = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		r.seen.start(body, time.Now())
		if r.hangs(request.Host) {
			<-request.Context().Done()
		}
	})
	var listen net.ListenConfig
	for i := range r.Hosts {
		l, err := listen.Listen(ctx, "tcp", net.JoinHostPort(hostOf(i), strconv.Itoa(e.port)))
		if err != nil {
			return e, errors.Join(fmt.Errorf("be host %d of %d (each needs a file descriptor and an address of its own in 127.0.0.0/8): %w", i, r.Hosts, err), e.stop())
		}
		if e.port == 0 {
			e.port = l.Addr().(*net.TCPAddr).Port //nolint:errcheck,forcetypeassert // of a TCP listener
		}
		e.serving.Go(func() error {
			if err := e.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return e, nil
}

func (e *receiver) stop() error {
	err := e.server.Close()
	return errors.Join(err, e.serving.Wait())
}

// hostOf returns the address of a host.
func hostOf(i int) string { return fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250) }

// hangs reports whether a host, with or without its port, answers no call.
func (r *run) hangs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	var a, b int
	if _, err := fmt.Sscanf(host, "127.0.%d.%d", &a, &b); err != nil {
		return false
	}
	return r.hanging((a-1)*250 + b - 1)
}

// hanging reports whether the host with a number answers no call.
func (c *Config) hanging(host int) bool { return host%hangEvery == hangEvery-1 }

// counted returns how many tasks of a run are counted: all but those for hosts that hang.
func (c *Config) counted() int {
	if c.Kind != Push {
		return c.Tasks
	}
	n, _ := c.living(c.Tasks)
	return n
}

// living returns how many of the tasks below a number are for hosts that answer, and whether that one is.
func (c *Config) living(i int) (before int, answered bool) {
	host, hanging := i%c.Hosts, c.Hosts/hangEvery
	return i/c.Hosts*(c.Hosts-hanging) + host - host/hangEvery, !c.hanging(host)
}

// numberOf returns what the payload of a task begins with: its place in the record, or warmUpIndex for one that is
// not counted.
func (r *run) numberOf(i int) uint64 {
	if r.Kind != Push {
		return uint64(i)
	}
	n, answered := r.living(i)
	if !answered {
		return warmUpIndex
	}
	return uint64(n)
}

// tagsOf returns the tags of a task: of Push its host, if there are several.
func (r *run) tagsOf(i int) map[string]string {
	if r.Hosts <= 1 {
		return nil
	}
	return map[string]string{hostTag: hostOf(i % r.Hosts)}
}

// pushTo makes a lambda call the receiver.
func (r *run) pushTo(l *admin.Lambda) {
	host := hostOf(0)
	if r.Hosts > 1 {
		host = "{tag." + hostTag + "}"
	}
	l.Target = &admin.Target{URL: fmt.Sprintf("http://%s:%d/", host, r.receiver.port), Slots: r.Slots}
	l.Timeout = hangTimeout
}
