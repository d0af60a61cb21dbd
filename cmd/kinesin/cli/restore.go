package cli

import (
	"context"
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
		Short: "Make a data directory from a backup",
		Long: `Checks a backup and makes a data directory from it. The directory must be empty or not exist, and no server may use it. If the
backup is damaged, nothing is restored.

The store has the state of the time of the backup: tasks that were scheduled later are unknown, and tasks that ended or were
cancelled later are live again. Tasks that are due start as soon as a server runs on the data, even if they ran already.
'kinesin serve --roles inbound' starts none of them, so that they can be inspected and cancelled first.`,
		Example: `  kinesin restore /backup/kinesin.tar --data /var/lib/kinesin
  kinesin restore /backup/kinesin --data /var/lib/kinesin`,
		Args: one("FILE or DIR"),
	}
	c.Flags().StringVar(&data, "data", "", "`DIR` to restore to; must be empty or not exist")
	log.level = "warn"
	log.add(c.Flags())
	return a.acting(c, func(ctx context.Context, args []string) error {
		if data == "" {
			return usagef("--data is missing: want the directory to restore to, for 'kinesin serve --data'")
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		stopLine := a.waiting("checking and restoring %q", args[0])
		report, err := server.Restore(ctx, args[0], data, log.logger(a.Stderr))
		stopLine()
		if err != nil {
			return err
		}
		return a.printRestore(data, &report)
	})
}

// restoreObject is the result of a restore in JSON.
type restoreObject struct {
	Data    string `json:"data"`
	Created string `json:"created"`
	Age     string `json:"age"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	Live    int64  `json:"live_tasks"`
	Overdue int64  `json:"overdue_tasks"`
}

func (a *app) printRestore(data string, r *server.RestoreReport) error {
	age := clock.Real().Now().Time().Sub(r.Created).Truncate(time.Second)
	o := restoreObject{data, timeText(r.Created), durationText(age), r.Files, r.Bytes, r.Live, r.Overdue}
	err := a.print(o, "restored to %s: as of %s, %s ago; %d files, %d bytes\n%d live tasks, %d of them overdue",
		data, o.Created, formatDuration(age), r.Files, r.Bytes, r.Live, r.Overdue)
	if err == nil && r.Overdue > 0 && !a.json() {
		a.note("overdue tasks start as soon as 'kinesin serve' runs on %s, even those that ran after the backup; to inspect them first, run 'kinesin serve --roles inbound'", data)
	}
	return err
}
