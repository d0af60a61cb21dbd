package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/server"
)

func (a *app) standbyCommand() *cobra.Command {
	s := server.StandbyConfig{Every: server.StandbyEveryDefault}
	var promote bool
	wait := server.PromoteWaitDefault
	var log logFlags
	c := &cobra.Command{
		Use:   "standby --from PLACE --data DIR",
		Short: "Keep a warm copy of a server's store, or make a server of it",
		Long: `Keeps a copy of the newest recovery point of a place to which a server backs up (kinesin serve --backup-to), and logs how
far behind it is, until Ctrl-C. No server runs on the copy.

With --promote it makes a data directory of the copy, or of an empty directory, and ends. It claims the place first: a
server that works sees that, puts its last recovery point, stops, and never starts again on its data, so nothing is lost.
End a server that cannot reach the place by hand.`,
		Example: `  kinesin standby --from s3://backups/kinesin --data /var/lib/kinesin
  kinesin standby --from s3://backups/kinesin --data /var/lib/kinesin --promote`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&s.From, "from", "", "directory or s3://BUCKET/PREFIX, `PLACE` of the backups")
	c.Flags().StringVar(&s.DataDir, "data", "", "`DIR` of the copy")
	c.Flags().Var(durationValue{d: &s.Every, min: time.Second}, "every", "how often to look for a new recovery point")
	c.Flags().BoolVar(&promote, "promote", false, "take the server's place: claim PLACE, and make a data directory")
	c.Flags().Var(durationValue{d: &wait}, "wait", "how long a promotion waits for the server to stop")
	log.add(c.Flags())
	return a.acting(c, func(ctx context.Context, _ []string) error {
		if s.From == "" || s.DataDir == "" {
			return usagef("--from and --data are needed: the place of the backups, as 'kinesin serve --backup-to' names it, and the directory of the copy")
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		s.Log = log.logger(a.Stderr)
		if !promote {
			return server.Standby(ctx, s)
		}
		stopLine := a.waiting("promoting %q", s.DataDir)
		report, err := server.Promote(ctx, s, wait)
		stopLine()
		if err != nil {
			return err
		}
		return a.printPromoted(s.From, s.DataDir, wait, &report)
	})
}

// promoteObject is the result of a promotion in JSON.
type promoteObject struct {
	restoreObject

	Claim    int    `json:"claim"`
	Replaced string `json:"replaced,omitempty"` // whose place it was
	Answered bool   `json:"answered"`
}

func (a *app) printPromoted(from, data string, wait time.Duration, r *server.PromoteReport) error {
	object, text := restored(data, &r.RestoreReport)
	o := promoteObject{object, r.Claim, "", r.Answered}
	before := "no server had the place"
	if r.Before.Number > 0 {
		o.Replaced = r.Before.String()
		before = fmt.Sprintf("the server of %s did not say within %s that it stopped: what it did after that moment is lost, and it must not run any more", o.Replaced, formatDuration(wait))
	}
	if r.Answered {
		before = fmt.Sprintf("the server of %s has stopped: nothing is lost", o.Replaced)
	}
	return a.print(o, "promoted %s\n%s\nnow run: kinesin serve --data %s --backup-to %s", text, before, data, from)
}
