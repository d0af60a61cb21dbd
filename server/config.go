package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/server/node"
)

// Roles lists the roles that a process can have, in the order in which work flows through them.
func Roles() []string { return node.Roles() }

// ErrConfig marks a configuration that is refused; the text says what is allowed.
var ErrConfig = errors.New("configuration refused")

// Config is what a Server is made of. The zero value of every field means its default.
type Config struct {
	DataDir string   // where the embedded store is; ./kinesin-data
	Listen  string   // host:port on loopback; 127.0.0.1:7070
	Roles   []string // all
	Log     *slog.Logger

	PayloadBytesMax int           // largest payload, in bytes; 256 KiB
	Horizon         time.Duration // how far ahead a task may be due; 10 years
	Window          time.Duration // how far a partition is read ahead; 10 s
	DrainMax        time.Duration // how long a stop may take; 10 s
}

// Defaults of Config.
const (
	DataDirDefault  = "./kinesin-data"
	ListenDefault   = "127.0.0.1:7070"
	DrainMaxDefault = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.DataDir == "" {
		c.DataDir = DataDirDefault
	}
	if c.Listen == "" {
		c.Listen = ListenDefault
	}
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.DrainMax == 0 {
		c.DrainMax = DrainMaxDefault
	}
	return c
}

// Validate checks the configuration as a whole and says of each wrong value what is allowed.
// All its errors are ErrConfig.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	for _, role := range c.Roles {
		if !slices.Contains(Roles(), role) {
			errs = append(errs, fmt.Errorf("%w: unknown role %q: want any of %s", ErrConfig, role, strings.Join(Roles(), ", ")))
		}
	}
	if slices.Contains(c.Roles, node.RoleScheduler) != slices.Contains(c.Roles, node.RoleDispatcher) {
		errs = append(errs, fmt.Errorf("%w: the roles scheduler and dispatcher go together", ErrConfig))
	}
	errs = append(errs, checkListen(c.Listen))
	if c.PayloadBytesMax < 0 || c.PayloadBytesMax > payloadBytesCeil {
		errs = append(errs, fmt.Errorf("%w: payload limit %d: want 1 to %d bytes", ErrConfig, c.PayloadBytesMax, payloadBytesCeil))
	}
	if c.Horizon < 0 || c.Window < 0 || c.DrainMax < 0 {
		errs = append(errs, fmt.Errorf("%w: horizon, window and drain limit cannot be negative", ErrConfig))
	}
	return errors.Join(errs...)
}

// payloadBytesCeil keeps a call with a single task well below the limit of the wire.
const payloadBytesCeil = 4 << 20

// checkListen refuses every address beyond loopback: there is no authentication yet, and
// whoever reaches the port may schedule, cancel and execute everything.
func checkListen(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%w: listen address %q: want host:port with a port of 0 to 65535 (0: any free one), for example %s", ErrConfig, listen, ListenDefault)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return beyondLoopback(listen)
}

func beyondLoopback(listen string) error {
	return fmt.Errorf("%w: listen address %q is beyond loopback: whoever reaches it could run and cancel everything, "+
		"so it is refused until authentication exists; use 127.0.0.1, ::1 or localhost", ErrConfig, listen)
}
