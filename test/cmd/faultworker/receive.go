package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakelambda"
	"github.com/kinesin-io/kinesin/test/job"
)

// receiver is what the target of a lambda leads to: a service behind a URL, and AWS Lambda with one function. As the
// documentation advises, it refuses an attempt when it knows a later one, and ends an earlier one first.
type receiver struct {
	log       io.Writer
	functions *fakelambda.Lambda
	first     func()    // is called with each call, and does something with the first
	busyUntil time.Time // set by first

	mu    sync.Mutex
	tasks map[string]*attempt // the newest of each
}

// attempt is an execution that runs, or is over.
type attempt struct {
	number uint32
	end    context.CancelFunc
	ended  chan struct{}
}

// errLater refuses an attempt.
var errLater = errors.New("a later attempt has the task")

// receive is a receiver until it is asked to stop. Several may listen on one address: each connection goes to one of them.
func receive(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("faultworker receive", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "addresses to listen on, separated by commas")
	path := flags.String("log", "", "file to append events to")
	busy := flags.Duration("busy", 0, "for how long after the first call calls are told to come again in a second")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log, err := job.OpenLog(*path)
	if err != nil {
		return err
	}
	r := &receiver{log: log, functions: fakelambda.New(), tasks: map[string]*attempt{}}
	r.functions.Function(job.Function, func(ctx context.Context, i fakelambda.Invocation) ([]byte, error) {
		return nil, r.run(ctx, i.Payload, func(name string) string { return i.Custom[name] })
	})
	r.functions.RetryAfterSeconds = 1
	r.first = sync.OnceFunc(func() {
		if *busy == 0 {
			return
		}
		r.busyUntil = time.Now().Add(*busy)
		r.functions.Faults.Odds(fakelambda.Invoke, awsfake.Throttled, 1)
		time.AfterFunc(*busy, r.functions.Faults.Off)
	})
	srv := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	var serving sync.WaitGroup
	for address := range strings.SplitSeq(*listen, ",") {
		l, err := (&net.ListenConfig{Control: reusePort}).Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		serving.Go(func() { _ = srv.Serve(l) }) // until it is closed
	}
	fmt.Println("listening")
	serving.Wait()
	return nil
}

func reusePort(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return cmp.Or(failed, err)
}

// ServeHTTP takes a call, or an invocation.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.first()
	if strings.HasPrefix(q.URL.Path, "/2015-03-31/functions/") {
		r.functions.ServeHTTP(w, q)
		return
	}
	payload, err := io.ReadAll(q.Body) // only then is it known when the caller is gone
	if time.Now().Before(r.busyUntil) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	if err == nil {
		err = r.run(q.Context(), payload, q.Header.Get)
	}
	switch {
	case errors.Is(err, errLater):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// run does the job of an attempt, of which a call or the context of an invocation tells.
func (r *receiver) run(ctx context.Context, payload []byte, about func(name string) string) error {
	j, err := job.Parse(payload)
	if err != nil {
		return err
	}
	x := job.Execution{Task: about("kinesin-task"), Log: r.log}
	if x.Task == "" { // an event, of which nobody tells more
		x.Task = job.EventPrefix + j.Nonce
		return x.Run(ctx, j)
	}
	number, err := strconv.ParseUint(about("kinesin-attempt"), 10, 32)
	if err != nil {
		return err
	}
	if x.Due, err = time.Parse(time.RFC3339, about("kinesin-due")); err != nil {
		return err
	}
	x.Attempt, x.Failures = uint32(number), uint32(number)-1
	ctx, end := context.WithCancel(ctx)
	a := &attempt{number: x.Attempt, end: end, ended: make(chan struct{})}
	defer close(a.ended)
	defer end()
	r.mu.Lock()
	before := r.tasks[x.Task]
	if before != nil && before.number > a.number {
		r.mu.Unlock()
		return errLater
	}
	r.tasks[x.Task] = a
	r.mu.Unlock()
	if before != nil {
		before.end()
		<-before.ended
	}
	return x.Run(ctx, j)
}
