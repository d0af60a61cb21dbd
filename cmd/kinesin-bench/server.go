package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
	"github.com/kinesin-io/kinesin/cmd/settings"
)

// drainMax is how long a server that was started may take to drain.
const drainMax = 20 * time.Second

// on calls measure with the server that is given, or else with one that is started, whose data is in a folder of that
// name below --data; empty: there itself.
func (a *app) on(ctx context.Context, folder string, measure func(s *load.Server) error) (err error) {
	if !a.given {
		started, err := a.startServer(ctx, folder)
		if err != nil {
			return err
		}
		a.conn.Server = started.url
		return errors.Join(a.call(measure), started.stop())
	}
	return a.call(measure)
}

// call calls measure with the server of --server.
func (a *app) call(measure func(s *load.Server) error) error {
	k, err := a.conn.Client()
	if err != nil {
		return err
	}
	defer k.Close()
	direct, err := a.conn.Direct()
	if err != nil {
		return err
	}
	defer direct.CloseIdle()
	return a.conn.Explain(measure(&load.Server{Client: k, Direct: direct}))
}

// server is a server in a process of its own.
type server struct {
	cmd  *exec.Cmd
	url  string
	data string // removed afterwards; empty: kept
}

// startServer starts `kinesin serve` on a free port. The default directory is a new one below the current
// one, because a directory for temporary files may be in memory, where syncs cost nothing.
func (a *app) startServer(ctx context.Context, folder string) (*server, error) {
	program, err := kinesin()
	if err != nil {
		return nil, err
	}
	s, data := &server{}, filepath.Join(a.data, folder)
	if a.data == "" {
		if data, err = os.MkdirTemp(".", "kinesin-bench-"); err != nil {
			return nil, fmt.Errorf("make a directory for the server's data (--data names another one): %w", err)
		}
		s.data = data
	}
	// With a log in JSON the server does not say at its end that it keeps the tasks: stop removes them.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, append([]string{"serve", //nolint:gosec // it is kinesin
		"--data", filepath.Join(data, "data"), "--listen", "127.0.0.1:0", "--log-level", "warn", "--log-format", "json", "-o", "json"}, a.serve...)...)
	s.cmd.Env = settings.Without(a.env)
	s.cmd.Stderr = a.stderr
	s.cmd.SysProcAttr = executor.OwnGroup() // Ctrl-C is for this process, which then stops the server
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), s.remove())
	}
	return s, nil
}

// kinesin returns the path of the program that serves.
func kinesin() (string, error) {
	own, err := os.Executable()
	if err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), "kinesin")); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath("kinesin")
	if err != nil {
		return "", fmt.Errorf("to start a server, kinesin has to be beside %s, where `make build` builds both, or on the PATH; --server names a server that runs already (%w)", own, err)
	}
	return path, nil
}

func (s *server) start() error {
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	var where struct{ URL string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &where)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("it did not print its address: %w", err), s.cmd.Process.Kill(), s.cmd.Wait())
	}
	s.url = where.URL
	return nil
}

// startOwn starts this program with other arguments, as a process of its own. out is what the process prints.
func (a *app) startOwn(ctx context.Context, stderr io.Writer, args []string) (c *exec.Cmd, out io.Reader, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	c = exec.CommandContext(ctx, program, args...) //nolint:gosec // this program itself
	c.Env, c.Stderr, c.SysProcAttr = settings.Without(a.env), stderr, executor.OwnGroup()
	if out, err = c.StdoutPipe(); err == nil {
		err = c.Start()
	}
	return c, out, err
}

// terminate tells a process to end. Windows has no such signal: there the process is killed.
func terminate(p *os.Process) (killed bool, err error) {
	err = p.Signal(syscall.SIGTERM)
	if errors.Is(err, errors.ErrUnsupported) {
		return true, p.Kill()
	}
	return false, err
}

// stop drains the server and removes its data.
func (s *server) stop() error {
	killed, err := terminate(s.cmd.Process)
	if killed {
		_ = s.cmd.Wait() // it says that the process was killed
		return errors.Join(err, s.remove())
	}
	kill := time.AfterFunc(drainMax, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	if err != nil {
		return errors.Join(err, s.remove())
	}
	if err := s.cmd.Wait(); err != nil {
		return errors.Join(fmt.Errorf("the server that was started: %w", err), s.remove())
	}
	return s.remove()
}

func (s *server) remove() error {
	if s.data == "" {
		return nil
	}
	return os.RemoveAll(s.data)
}
