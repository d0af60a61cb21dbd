package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/store/pebble"
)

// States of a Finding.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // a server runs, and not as well as it could
	FindingWrong   = "wrong"   // a server does not start, or does not work
)

// Finding is what Diagnose found in one respect.
type Finding struct {
	Check string `json:"check"` // what was looked at, such as "disk"
	State string `json:"state"` // one of Finding…
	Found string `json:"found"` // and, where the state is not ok, what to do
}

// syncSlow is a median latency of synced writes from which Diagnose warns: a task is acknowledged after a sync.
const syncSlow = 20 * time.Millisecond

// Diagnose looks whether a server with a configuration would run well on this machine, and changes nothing. running
// says that there is a server already, which may have its port and data.
func Diagnose(ctx context.Context, c Config, running bool) (found []Finding) {
	note := func(check, state, format string, args ...any) {
		found = append(found, Finding{check, state, fmt.Sprintf(format, args...)})
	}
	if err := c.Validate(); err != nil {
		note("settings", FindingWrong, "%v", err)
		return found
	}
	c = c.withDefaults()
	if err := readCredentials(ctx, c); err != nil {
		note("settings", FindingWrong, "%v", err)
	} else {
		note("settings", FindingOK, "the settings, and the files that they name, are valid")
	}
	found = append(found, checkClock(), checkDescriptors(&c))
	if !running {
		found = append(found, checkPort(ctx, &c))
	}
	if c.Store == StorePebble {
		found = append(found, checkDisk(c.DataDir, running)...)
	}
	if c.onAWS() {
		found = append(found, diagnoseAWS(ctx, &c)...)
	}
	return found
}

// readCredentials reads the files of tokens, identities and certificates.
func readCredentials(ctx context.Context, c Config) error {
	s := &Server{config: c, metrics: node.NewMetrics(node.MetricsConfig{})}
	asked, err := s.openCredentials(ctx)
	_, tlsErr := s.openTLS(ctx, asked)
	return errors.Join(err, tlsErr)
}

// checkClock asks the kernel whether something keeps the clock of this machine right.
func checkClock() Finding {
	synchronised, known := clockSynchronised()
	switch {
	case !known:
		return Finding{"clock", FindingOK, "this system does not say whether its clock is synchronised"}
	case !synchronised:
		return Finding{"clock", FindingWarning, "the kernel says that nothing synchronises the clock of this machine, by which tasks start: run chrony or systemd-timesyncd"}
	}
	return Finding{"clock", FindingOK, "the kernel says that the clock is synchronised"}
}

func checkDescriptors(c *Config) Finding {
	allowed, err := allowedFiles()
	var shares descriptors
	if err == nil {
		shares, err = shareFiles(allowed, c)
	}
	if err != nil {
		return Finding{"open files", FindingWrong, err.Error()}
	}
	return Finding{"open files", FindingOK, fmt.Sprintf("%d allowed, of which %d for connections", allowed, shares.connections)}
}

func checkPort(ctx context.Context, c *Config) Finding {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return Finding{"port", FindingWrong, c.Listen + " is in use by another process that is no server of Kinesin: stop it, or choose another port with --listen"}
	case err != nil:
		return Finding{"port", FindingWrong, fmt.Sprintf("cannot listen on %s: %v", c.Listen, err)}
	}
	if err := listener.Close(); err != nil {
		return Finding{"port", FindingWrong, err.Error()}
	}
	return Finding{"port", FindingOK, c.Listen + " is free"}
}

func checkDisk(dir string, running bool) []Finding {
	d, err := pebble.Examine(dir)
	if err != nil {
		return []Finding{{"data", FindingWrong, fmt.Sprintf("%s cannot be used by this user: %v", dir, err)}}
	}
	data := Finding{"data", FindingOK, dir + " holds a store"}
	switch {
	case d.InUse && running:
		data.Found += ", which the server has open"
	case d.InUse:
		data.State, data.Found = FindingWrong, dir+" is in use by another process: stop that one, or choose another --data"
	case !d.HoldsStore:
		data.Found = dir + " can be created"
		if d.Dir == dir {
			data.Found = dir + " can be used, and holds no store yet"
		}
	}
	space := Finding{"space", FindingOK, fmt.Sprintf("%d MiB free", d.FreeBytes>>20)}
	if d.FreeBytes < d.ReserveBytes {
		space.State = FindingWrong
		space.Found += fmt.Sprintf(", with less than %d MiB a server accepts no new tasks: make room", d.ReserveBytes>>20)
	}
	sync := Finding{"sync", FindingOK, fmt.Sprintf("a synced write takes %v, at most %v", d.SyncMedian.Round(time.Microsecond), d.SyncMax.Round(time.Microsecond))}
	if d.SyncMedian > syncSlow {
		sync.State = FindingWarning
		sync.Found += fmt.Sprintf("; no task is acknowledged faster: a disk with less than %v is better", syncSlow)
	}
	return []Finding{data, space, sync}
}

// diagnoseAWS looks at the tables and queues, at the clock of AWS, and, for a server with all roles, at what it may
// do; processes with some roles may need less.
func diagnoseAWS(ctx context.Context, c *Config) (found []Finding) {
	wrong := func(err error) {
		found = append(found, Finding{"AWS", FindingWrong, awsclient.Explain(err).Error()})
	}
	report, err := SetupAWS(ctx, SetupConfig{Prefix: c.AWSPrefix, DryRun: true, NoQueuePolicies: true, Log: c.Log})
	missing := 0
	for i := range report.Items {
		if item := &report.Items[i]; item.Outcome != SetupUnchanged {
			missing++
			found = append(found, Finding{"AWS", FindingWrong, fmt.Sprintf("%s %s %s: `kinesin aws setup --aws-prefix %s --dry-run` says more", item.Kind, item.Name, item.Outcome, c.AWSPrefix)})
		}
	}
	if err != nil {
		wrong(err)
		return found
	}
	if missing == 0 && len(c.Roles) == len(Roles()) {
		clients, err := awsclient.New(ctx, clock.Real())
		if err != nil {
			wrong(err)
			return found
		}
		defer clients.Close()
		for _, err := range dynamo.CheckRights(ctx, clients.DynamoDB, c.AWSPrefix) {
			wrong(err)
		}
	}
	if len(found) == 0 {
		found = append(found, Finding{"AWS", FindingOK, fmt.Sprintf("%d tables and queues are as they should be, %s", len(report.Items), report.Where)})
	}
	return found
}
