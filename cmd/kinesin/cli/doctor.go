package cli

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/server"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// skewMax is how far the clock of this machine may be from a server's: as far as from that of AWS.
	skewMax = 2 * time.Second
	// dateResolution is the precision of the Date of an answer.
	dateResolution = time.Second
	// askMax bounds a question to a server.
	askMax = 5 * time.Second
)

func (a *app) doctorCommand() *cobra.Command {
	var s serveFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with this machine, its settings or its server",
		Long: `Checks whether a server runs well here with the settings of 'kinesin serve': settings and their files, the clock, open
files, the port, the data directory, and tables, queues and rights on AWS. Takes the flags of 'kinesin serve' and of a
client; changes nothing.

Prints a line for each check: ok, warning or wrong. Exit 1 when something is wrong.`,
		Example: `  kinesin doctor
  kinesin doctor --data /var/lib/kinesin --listen 0.0.0.0:7070 --auth-token-file tokens
  kinesin doctor --server https://kinesin-2:7070 --token-file token -o json`,
		Args: cobra.NoArgs,
	}
	s.add(c.Flags())
	_ = c.Flags().Set("log-level", "error")
	client := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.conn.AddTo(client)
	c.Flags().AddFlagSet(client)
	return a.acting(c, func(ctx context.Context, _ []string) error {
		config := s.config(a, c.Flags())
		named := c.Flags().Changed("server")
		if !named {
			a.conn.Server = config.Listen
			if config.TLSCertFile != "" {
				a.conn.Server = "https://" + config.Listen
			}
		}
		if a.conn.TokenFile == "" {
			a.conn.TokenFile = config.AuthTokenFile
		}
		running, answered := a.checkServer(ctx, named)
		found := append(server.Diagnose(ctx, config, answered), running...)
		return a.printFindings(found)
	})
}

// doctorObject is what a doctor found in JSON.
type doctorObject struct {
	OK       bool             `json:"ok"` // nothing is wrong
	Findings []server.Finding `json:"findings"`
}

func (a *app) printFindings(found []server.Finding) error {
	o := doctorObject{OK: true, Findings: found}
	for _, f := range found {
		o.OK = o.OK && f.State != server.FindingWrong
	}
	if a.json() {
		if err := printJSON(a.Stdout, o); err != nil {
			return err
		}
	} else {
		t := newTable(a.Stdout)
		for _, f := range found {
			t.row(f.State, f.Check, f.Found)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if !o.OK {
		return errReported
	}
	return nil
}

var buildVersion = regexp.MustCompile(`(?m)^kinesin_build_info\{.*\bversion="([^"]*)"`)

// checkServer asks the server for its version and its clock. answered says that there is one. Where named is false
// there need not be one.
func (a *app) checkServer(ctx context.Context, named bool) (found []server.Finding, answered bool) {
	ctx, cancel := clock.Within(ctx, clock.Real(), askMax)
	defer cancel()
	note := func(check, state, format string, args ...any) {
		found = append(found, server.Finding{Check: check, State: state, Found: fmt.Sprintf(format, args...)})
	}
	if _, err := a.client(); err != nil { // it checks the settings of the connection
		note("server", server.FindingWrong, "%v", err)
		return found, false
	}
	began := clock.Real().Now()
	got, err := a.ask(ctx, http.MethodGet, "/metrics")
	ended := clock.Real().Now()
	switch {
	case err != nil && named:
		note("server", server.FindingWrong, "no server answers at %s: %v", a.conn.Server, err)
		return found, false
	case err != nil:
		note("server", server.FindingOK, "no server answers at %s yet", a.conn.Server)
		return found, false
	}
	if date, err := http.ParseTime(got.header.Get("Date")); err == nil {
		ahead := clock.Ahead(began, ended, task.InstantOf(date), dateResolution)
		if ahead.Abs() > skewMax {
			note("clock of the server", server.FindingWrong, "this machine's clock and that of %s differ by %v: want at most %v; synchronise both (chrony, systemd-timesyncd)",
				a.conn.Server, ahead.Abs().Round(time.Second), skewMax)
		} else {
			note("clock of the server", server.FindingOK, "it agrees with this machine's")
		}
	}
	version := buildVersion.FindSubmatch(got.text)
	switch {
	case got.code == http.StatusUnauthorized || got.code == http.StatusForbidden:
		note("server", server.FindingWarning, "%s does not tell its version: --token-file needs a token that may read metrics (%s)", a.conn.Server, got.status)
		return found, true
	case version == nil:
		note("server", server.FindingWrong, "what answers at %s is no server of Kinesin: %s", a.conn.Server, got.status)
		return found, false
	case string(version[1]) != a.version():
		note("server", server.FindingWarning, "%s has version %s, this program %s: use the same on both", a.conn.Server, version[1], a.version())
	default:
		note("server", server.FindingOK, "%s has version %s, as this program", a.conn.Server, a.version())
	}
	return found, true
}
