package kubelocal

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

const (
	readyMax  = 2 * time.Minute // from the start of a program until it is ready, on a busy machine
	readyPoll = 50 * time.Millisecond
	startsMax = 3 // with other ports each
	loopbackA = "127.0.0.1"
	// niceness: in a cluster these programs have machines of their own.
	niceness = 10
)

// installed is the folder with the programs.
var installed = sync.OnceValues(func() (string, error) { return loopback.Installed("kube") })

// program is one of the control plane's, which can be ended and started again in its place.
type program struct {
	name  string
	args  []string
	port  int // 0: it listens nowhere
	ready func(ctx context.Context) error
	log   *loopback.Log

	mu   sync.Mutex // one change at a time
	proc *loopback.Process
}

// start returns when the program is ready.
func (p *program) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir, err := installed()
	if err != nil {
		return err
	}
	if p.proc, err = loopback.Spawn(filepath.Join(dir, p.name), p.args, nil, p.log); err != nil {
		return err
	}
	_ = syscall.Setpriority(syscall.PRIO_PGRP, p.proc.PID(), niceness)
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	if err := p.await(ctx); err != nil {
		p.proc.End(syscall.SIGKILL, 0)
		return fmt.Errorf("%s did not start: %w\n%s", p.name, err, p.log.Tail())
	}
	return nil
}

// await returns when the program itself, and nobody else, listens on its port, and says that it is ready.
func (p *program) await(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		up := p.port == 0
		if !up {
			var err error
			if up, err = loopback.Listens(p.proc.PID(), p.port); err != nil {
				return err
			}
		}
		if up && p.ready(ctx) == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.proc.Exited():
			return fmt.Errorf("it ended: %v", p.proc.State())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kill returns when the program is gone.
func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc != nil {
		p.proc.End(syscall.SIGKILL, 0)
	}
}

func httpURL(port int) string { return "http://" + loopbackA + ":" + strconv.Itoa(port) }
