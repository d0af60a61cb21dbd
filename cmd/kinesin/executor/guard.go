//go:build linux || darwin

package executor

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// The messages from a worker to its guard: a letter and a number of 8 bytes.
const (
	tellBegin = 'b' // a group began
	tellEnd   = 'e' // a group ended
	tellLease = 'l' // the reading of the machine's clock, in ns, until which groups may run; 0: no bound
	tellBytes = 9
)

const (
	// guardLookEvery is how often the guard looks at the clock, because timers sleep through a suspension.
	guardLookEvery = 100 * time.Millisecond
	// guardWriteMax is how long the pipe to the guard may stay full before it counts as broken.
	guardWriteMax = 2 * time.Second
	// guardExitMax is how long the guard has to end after its pipe was closed.
	guardExitMax = 2 * time.Second
)

// Guard is the worker's end of the pipe to its guard process. It is safe for concurrent use. A nil Guard
// guards nothing.
type Guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex // guards pipe
	pipe *os.File
}

// StartGuard starts the guard process: a program that calls RunGuard with its stdin.
func StartGuard(stderr io.Writer, program string, args ...string) (*Guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	defer r.Close()
	g := &Guard{pipe: w, cmd: &exec.Cmd{
		Path: program, Args: append([]string{program}, args...), Env: os.Environ(), Stdin: r, Stderr: stderr, WaitDelay: guardExitMax,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // signals to the worker's group must not reach the guard
	}}
	if err := g.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard: %w", err), w.Close())
	}
	return g, nil
}

// Close ends the guard, which kills the groups that are left.
func (g *Guard) Close() error {
	g.mu.Lock()
	err := g.pipe.Close()
	g.mu.Unlock()
	return errors.Join(err, g.cmd.Wait())
}

// HoldsFor tells the guard that the lease holds for d from now.
func (g *Guard) HoldsFor(d time.Duration) error { return g.tell(tellLease, int64(machineNow()+d)) }

func (g *Guard) begin(group int) error { return g.tell(tellBegin, int64(group)) }
func (g *Guard) end(group int) error   { return g.tell(tellEnd, int64(group)) }

func (g *Guard) tell(what byte, number int64) error {
	if g == nil {
		return nil
	}
	var message [tellBytes]byte
	message[0] = what
	binary.LittleEndian.PutUint64(message[1:], uint64(number))
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWriteMax)) // where pipes have none, a write may block
	if _, err := g.pipe.Write(message[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
	return nil
}

// machineNow returns the time by a clock that all processes of the machine share. If there is one that counts
// suspensions of the machine, it uses that.
func machineNow() time.Duration {
	now := clock.Read(clock.Real())
	if now.Boot != 0 {
		return now.Boot
	}
	return now.Wall.Sub(0)
}

// RunGuard runs the guard process. It reads the worker's messages from r. It kills all groups when r ends,
// because the worker has died, and when the lease has ended, because the worker was stopped. It returns when
// r ends.
func RunGuard(r io.Reader) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	w := watch{groups: map[int]bool{}}
	defer w.killAll()
	told := make(chan message)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- listen(ctx, r, told) }()
	look := time.NewTicker(guardLookEvery)
	defer look.Stop()
	for {
		select {
		case m := <-told:
			w.note(m)
		case <-look.C:
		case err := <-failed:
			return err
		}
		w.enforce(machineNow())
	}
}

type message struct {
	what   byte
	number int64
}

func listen(ctx context.Context, r io.Reader, told chan<- message) error {
	in := bufio.NewReader(r)
	var raw [tellBytes]byte
	for {
		if _, err := io.ReadFull(in, raw[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case told <- message{raw[0], int64(binary.LittleEndian.Uint64(raw[1:]))}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch is the state of the guard.
type watch struct {
	groups map[int]bool
	until  time.Duration // 0: no bound
}

func (w *watch) note(m message) {
	switch m.what {
	case tellBegin:
		w.groups[int(m.number)] = true
	case tellEnd:
		delete(w.groups, int(m.number))
	case tellLease:
		w.until = time.Duration(m.number)
	}
}

// enforce kills all groups when the lease has ended, also those that begin after that.
func (w *watch) enforce(now time.Duration) {
	if w.until != 0 && now >= w.until {
		w.killAll()
	}
}

func (w *watch) killAll() {
	for group := range w.groups {
		kill(group, syscall.SIGKILL)
	}
	clear(w.groups) // once they are reaped, other groups may get their numbers
}
