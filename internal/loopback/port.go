package loopback

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports come from below the range that Linux takes for outgoing connections: a program that is down
// for a while finds its port free again, and no client that tries to reach it connects to itself.
const (
	portMin   = 15000
	portMax   = 32000
	portTries = 100
)

// FreePort is a port that nobody listens on, on any interface, just now.
func FreePort() (int, error) {
	for range portTries {
		port := portMin + rand.IntN(portMax-portMin)
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d in %d tries", portMin, portMax, portTries)
}

// ErrPortTaken is [Listens]' error.
var ErrPortTaken = errors.New("another program listens on the port")

// Listens reports whether the process itself listens on the port, or fails when another does: it may be
// the same program of another test that was given the same free port, and would answer as well.
func Listens(pid, port int) (bool, error) {
	sockets, err := listeners(port)
	if err != nil || len(sockets) == 0 {
		return false, err
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false, err
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && sockets[target] {
			return true, nil
		}
	}
	return false, ErrPortTaken
}

// listeners are the sockets that listen on the port, named as /proc/PID/fd names them.
func listeners(port int) (map[string]bool, error) {
	const listening = "0A"
	found := map[string]bool{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6 here
		} else if err != nil {
			return nil, err
		}
		suffix := fmt.Sprintf(":%04X", port)
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
			if w := strings.Fields(lines.Text()); len(w) > 9 && strings.HasSuffix(w[1], suffix) && w[3] == listening {
				found["socket:["+w[9]+"]"] = true
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return found, nil
}
