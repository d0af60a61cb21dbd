package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
)

// childStopMax is how long a server that bench started may take to drain.
const childStopMax = 20 * time.Second

// child is a server in a process of its own.
type child struct {
	cmd  *exec.Cmd
	url  string
	data string // removed afterwards; empty: kept
}

// startServer starts `kinesin serve` on a free port. The default directory is a new one below the current
// one, because a directory for temporary files may be in memory, where syncs cost nothing.
func (a *app) startServer(ctx context.Context, data string) (*child, error) {
	c := &child{}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start a server: %w", err)
	}
	if data == "" {
		if data, err = os.MkdirTemp(".", "kinesin-bench-"); err != nil {
			return nil, fmt.Errorf("make a directory for the server's data (--data names another one): %w", err)
		}
		c.data = data
	}
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, "serve", //nolint:gosec // this program itself
		"--data", filepath.Join(data, "data"), "--listen", "127.0.0.1:0", "--log-level", "warn", "-o", formatJSON)
	c.cmd.Env = withoutOurs(a.Env)
	c.cmd.Stderr = a.stderr
	c.cmd.SysProcAttr = executor.OwnGroup() // Ctrl-C is for this process, which then stops the server
	if err := c.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), c.remove())
	}
	return c, nil
}

func (c *child) start() error {
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	var where serverObject
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &where)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("it did not print its address: %w", err), c.cmd.Process.Kill(), c.cmd.Wait())
	}
	c.url = where.URL
	return nil
}

// stop drains the server and removes its data.
func (c *child) stop() error {
	err := c.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, errors.ErrUnsupported) { // Windows has no such signal
		err = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it says that the process was killed
		return errors.Join(err, c.remove())
	}
	kill := time.AfterFunc(childStopMax, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	if err != nil {
		return errors.Join(err, c.remove())
	}
	if err := c.cmd.Wait(); err != nil {
		return errors.Join(fmt.Errorf("the server that was started: %w", err), c.remove())
	}
	return c.remove()
}

func (c *child) remove() error {
	if c.data == "" {
		return nil
	}
	return os.RemoveAll(c.data)
}
