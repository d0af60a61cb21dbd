package awslocal

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

const (
	readyMax  = 60 * time.Second // from the start of Java to the first answer, on a busy machine
	readyPoll = 20 * time.Millisecond
	answerMax = 10 * time.Second // of one that is said to be there
	startsMax = 3                // with another port each
)

// installed is the folder with the class paths of both emulators.
var installed = sync.OnceValues(func() (string, error) { return loopback.Installed("emulators") })

// Emulator is a DynamoDB Local or an ElasticMQ in a process of its own. Its methods may be called from
// any goroutine.
type Emulator struct {
	kind kind
	opts Options
	port int
	log  *loopback.Log

	mu   sync.Mutex // one change at a time
	proc *loopback.Process
}

// Options of one emulator. The zero value fits most tests.
type Options struct {
	// DBPath is the folder in which DynamoDB Local keeps its data; empty means in memory. ElasticMQ has
	// no such thing.
	DBPath string
	// HeapMiB bounds the Java heap. Default 256.
	HeapMiB int
	// JVM are options for Java besides or instead of the usual ones.
	JVM []string
	// Port is the port to listen on. Default is a free one.
	Port int
}

// DynamoDB starts a DynamoDB Local for this test alone.
func DynamoDB(tb testing.TB, opts Options) *Emulator {
	tb.Helper()
	return own(tb, dynamoDBLocal, opts)
}

// SQS starts an ElasticMQ for this test alone.
func SQS(tb testing.TB, opts Options) *Emulator {
	tb.Helper()
	return own(tb, elasticMQ, opts)
}

func own(tb testing.TB, k kind, opts Options) *Emulator {
	tb.Helper()
	needsJava(tb)
	e, err := launch(tb.Context(), k, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s at %s said:\n%s", k.name, e.URL(), e.Log())
		}
		e.close()
	})
	return e
}

// launch starts an emulator and returns when it has answered a request.
func launch(ctx context.Context, k kind, opts Options) (*Emulator, error) {
	log, err := loopback.NewLog()
	if err != nil {
		return nil, err
	}
	e := &Emulator{kind: k, opts: opts, log: log}
	for range startsMax {
		if e.port = opts.Port; e.port == 0 {
			if e.port, err = loopback.FreePort(); err != nil {
				break
			}
		}
		if err = e.start(ctx); err == nil {
			return e, nil
		}
		if opts.Port != 0 || ctx.Err() != nil {
			break
		}
	}
	e.close()
	return nil, err
}

// Addr is host and port.
func (e *Emulator) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(e.port)) }

// URL is where clients reach it. It stays the same over restarts.
func (e *Emulator) URL() string { return "http://" + e.Addr() }

// Log is the end of what it has said, over all its starts.
func (e *Emulator) Log() string { return e.log.Tail() }

// PID is the process id; that of the last process when there is none.
func (e *Emulator) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proc.PID()
}

// Stop asks it to end and returns when it is gone.
func (e *Emulator) Stop() { e.end(syscall.SIGTERM) }

// Kill ends it with SIGKILL and returns when it is gone.
func (e *Emulator) Kill() { e.end(syscall.SIGKILL) }

func (e *Emulator) end(s syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc != nil {
		e.proc.End(s, 0)
	}
}

// Freeze stops its threads: connections stay open, and nothing is answered until Thaw.
func (e *Emulator) Freeze() { e.signal(sigStop) }

// Thaw ends a Freeze.
func (e *Emulator) Thaw() { e.signal(sigCont) }

func (e *Emulator) signal(s syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proc.Signal(s)
}

// Restart starts it again on the same port, having stopped it where it still ran, and returns when it
// has answered a request.
func (e *Emulator) Restart(ctx context.Context) error {
	e.Stop()
	return e.start(ctx)
}

func (e *Emulator) close() {
	e.Kill()
	e.log.Close()
}

func (e *Emulator) start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	dir, err := installed()
	if err != nil {
		return err
	}
	if e.proc, err = loopback.Spawn("java", e.arguments(dir), nil, e.log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	if err := e.await(ctx); err != nil {
		e.proc.End(syscall.SIGKILL, 0)
		return fmt.Errorf("%s did not start on port %d: %w\n%s", e.kind.name, e.port, err, e.Log())
	}
	return nil
}

// await returns when the process, and nobody else, answers on the port.
func (e *Emulator) await(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		up, err := loopback.Listens(e.proc.PID(), e.port)
		if err != nil {
			return err
		}
		if up && probe(ctx, e.URL(), e.kind.target) == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-e.proc.Exited():
			return fmt.Errorf("it ended: %v", e.proc.State())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
