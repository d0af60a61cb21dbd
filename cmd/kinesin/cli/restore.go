package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/server"
)

func (a *app) restoreCommand() *cobra.Command {
	var data string
	var log logFlags
	c := &cobra.Command{
		Use:   "restore FILE|DIR --data DIR",
		Short: "Make a data directory of a backup",
		Long: `Checks a backup and makes a data directory of it, which must be empty or not there. No server may run on that meanwhile. When something is wrong with the
backup, nothing is restored.

The store goes back to when the backup was made: what was scheduled later is unknown, and what ended or was cancelled later is live again. Tasks that are due by then
start as soon as a server runs on the data, also if they ran already. 'kinesin serve --roles inbound' fires nothing, so that it can be looked at and cancelled first.`,
		Example: `  kinesin restore /backup/kinesin.tar --data /var/lib/kinesin
  kinesin restore /backup/kinesin --data /var/lib/kinesin`,
		Args: oneBackup,
	}
	c.Flags().StringVar(&data, "data", "", "`DIR` to restore to; empty, or made when it is not there")
	log.level = "warn"
	log.add(c.Flags())
	c.RunE = does(func(ctx context.Context, args []string) error {
		if data == "" {
			return usagef("--data is missing: want the directory to restore to, as 'kinesin serve --data' will name it")
		}
		logger, err := log.logger(a.Stderr)
		if err != nil {
			return err
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		report, err := server.Restore(ctx, args[0], data, logger)
		if err != nil {
			return err
		}
		return a.printRestore(data, &report)
	})
	a.outputFlag(c.Flags())
	return c
}

// restoreObject is the result of a restore.
type restoreObject struct {
	Data       string `json:"data"`
	Created    string `json:"created"`
	AgeSeconds int64  `json:"age_seconds"`
	Files      int    `json:"files"`
	Bytes      int64  `json:"bytes"`
	Live       int64  `json:"live_tasks"`
	Overdue    int64  `json:"overdue_tasks"`
}

func (a *app) printRestore(data string, r *server.RestoreReport) error {
	age := clock.Real().Now().Time().Sub(r.Created).Truncate(time.Second)
	if a.json() {
		return printJSON(a.Stdout, restoreObject{
			Data: data, Created: timeText(r.Created), AgeSeconds: int64(age.Seconds()), Files: r.Files, Bytes: r.Bytes, Live: r.Live, Overdue: r.Overdue,
		})
	}
	_, err := fmt.Fprintf(a.Stdout, "restored to %s: as of %s, %s ago; %d files, %d bytes\n%d live tasks, %d of them overdue\n",
		data, timeText(r.Created), formatDuration(age), r.Files, r.Bytes, r.Live, r.Overdue)
	if err == nil && r.Overdue > 0 {
		a.note("overdue tasks start as soon as 'kinesin serve' runs on %s, also those that ran after the backup was made; 'kinesin serve --roles inbound' fires nothing, to look at them first", data)
	}
	return err
}
