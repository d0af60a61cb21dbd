package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/server"
)

func (a *app) backupCommand() *cobra.Command {
	keep := server.BackupKeepDefault
	c := &cobra.Command{
		Use:   "backup FILE|PLACE",
		Short: "Back up the embedded store of a running server",
		Long: `Makes a consistent copy of the embedded store of a running server, with everything acknowledged before the command began. A
PLACE (s3://BUCKET/PREFIX, a directory, or a path that ends in /) gets one more recovery point, for which only what is new
is sent. Any other path becomes one tar archive. 'kinesin serve --backup-to' backs up by itself, every few seconds.`,
		Example: `  kinesin backup /backup/kinesin-$(date +%F).tar
  kinesin backup /backup/kinesin/ --server http://10.0.0.5:7070
  kinesin backup s3://backups/kinesin --keep 30d`,
		Args: one("FILE or PLACE"),
	}
	c.Flags().Var(durationValue{d: &keep, min: time.Hour}, "keep", "how long recovery points in a PLACE stay, after the first hour one for each hour")
	return a.callingWith(c, func(ctx context.Context, _ *sdk.Client, args []string) error {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return a.backup(ctx, args[0], keep)
	})
}

// backupObject is the result of a backup in JSON.
type backupObject struct {
	Path      string `json:"path"`
	Created   string `json:"created"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	SentBytes int64  `json:"sent_bytes"`
}

func (a *app) backup(ctx context.Context, path string, keep time.Duration) (err error) {
	clients, err := a.connections()
	if err != nil {
		return err
	}
	defer clients.CloseIdle()
	client := kinesinv1connect.NewBackupServiceClient(clients.Streams, clients.Base, api.ClientOptions()...)
	w, err := backup.Create(ctx, path, keep)
	if err != nil {
		return fmt.Errorf("backup to %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	stop := a.waiting("backing up to %q", path)
	m, err := receiveBackup(ctx, client, w)
	stop()
	if err != nil {
		return fmt.Errorf("backup to %s is not complete and was discarded: %w", path, a.conn.Explain(err))
	}
	o := backupObject{path, timeText(m.Created), len(m.Files), m.Bytes(), w.SentBytes()}
	return a.print(o, "backed up to %s: as of %s; %d files, %d bytes, %d of them sent", o.Path, o.Created, o.Files, o.Bytes, o.SentBytes)
}

// receiveBackup writes the files that a server sends.
func receiveBackup(ctx context.Context, client kinesinv1connect.BackupServiceClient, w *backup.Writer) (backup.Manifest, error) {
	request := &kinesinv1.BackupRequest{}
	for _, f := range w.Have() {
		sum, err := hex.DecodeString(f.SHA256)
		if err != nil {
			return backup.Manifest{}, err
		}
		request.Have = append(request.Have, &kinesinv1.BackupFile{Name: f.Name, Bytes: f.Bytes, Sha256: sum})
	}
	stream, err := client.Backup(ctx, request)
	if err != nil {
		return backup.Manifest{}, api.FromWire(err)
	}
	var start *kinesinv1.BackupStart
	for stream.Receive() {
		r := stream.Msg()
		switch {
		case r.Start != nil:
			start = r.Start
		case r.Complete && start != nil:
			m, err := w.Commit(ctx, time.UnixMicro(start.Created).UTC())
			_ = stream.Close() // the backup is complete
			return m, err
		default:
			if err := writePart(ctx, w, r); err != nil {
				_ = stream.Close()
				return backup.Manifest{}, err
			}
		}
	}
	_ = stream.Close() // fails only if the connection is lost, which Err reports
	return backup.Manifest{}, cutShort(stream)
}

func writePart(ctx context.Context, w *backup.Writer, r *kinesinv1.BackupResponse) error {
	var err error
	switch {
	case r.File != nil && len(r.File.Sha256) > 0:
		err = w.Keep(r.File.Name, r.File.Sha256)
	case r.File != nil:
		err = w.Begin(ctx, r.File.Name, r.File.Bytes)
	}
	if err == nil && len(r.Data) > 0 {
		err = w.Write(ctx, r.Data)
	}
	if err == nil && len(r.Sha256) > 0 {
		err = w.End(ctx, r.Sha256)
	}
	return err
}

// cutShort returns why a stream ended before the backup was complete.
func cutShort(stream *connect.ServerStreamForClient[kinesinv1.BackupResponse]) error {
	if err := stream.Err(); err != nil {
		return api.FromWire(err)
	}
	return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server ended the stream")
}

func (a *app) restoreCommand() *cobra.Command {
	var data, from, asked string
	var log logFlags
	c := &cobra.Command{
		Use:   "restore --from FILE|PLACE --data DIR",
		Short: "Make a data directory from a backup",
		Long: `Checks a backup, which is an archive or a recovery point of a place, and makes a data directory from it. If the backup is
damaged, nothing is restored.

The store is that of the time of the backup: later tasks are unknown, and tasks that ended later are live again. What is due
starts as soon as a server runs on it, even if it ran before; 'kinesin serve --roles inbound' starts none, so that you can
cancel tasks first. To replace a lost server use 'kinesin standby --promote'.`,
		Example: `  kinesin restore --from /backup/kinesin.tar --data /var/lib/kinesin
  kinesin restore --from s3://backups/kinesin --data /var/lib/kinesin --at 2026-11-30T12:00:00Z`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%q is one argument too many: want the place of the backup with --from", args[0])
			}
			return nil
		},
	}
	c.Flags().StringVar(&from, "from", "", "archive, directory or s3://BUCKET/PREFIX, `PLACE` of the backup")
	c.Flags().StringVar(&data, "data", "", "`DIR` to restore to; must be empty or not exist")
	c.Flags().StringVar(&asked, "at", "", "`TIME`: the newest recovery point that is not later; the newest of all when not set")
	log.level = "warn"
	log.add(c.Flags())
	return a.acting(c, func(ctx context.Context, _ []string) error {
		if data == "" {
			return usagef("--data is missing: want the directory to restore to, for 'kinesin serve --data'")
		}
		if from == "" {
			return usagef("--from is missing: want the archive or the place of the backup, as 'kinesin backup' and 'kinesin serve --backup-to' name it")
		}
		var at time.Time
		if asked != "" {
			var err error
			if at, err = parseTime(asked); err != nil {
				return usagef("--at: %v", err)
			}
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		stopLine := a.waiting("checking and restoring %q", from)
		report, err := server.Restore(ctx, from, at, data, log.logger(a.Stderr))
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

// restored returns the result of a restore in JSON, and as text.
func restored(data string, r *server.RestoreReport) (o restoreObject, text string) {
	age := clock.Real().Now().Time().Sub(r.Created).Truncate(time.Second)
	o = restoreObject{data, timeText(r.Created), formatDuration(age), r.Files, r.Bytes, r.Live, r.Overdue}
	return o, fmt.Sprintf("%s: as of %s, %s ago; %d files, %d bytes\n%d live tasks, %d of them overdue",
		data, o.Created, formatDuration(age), r.Files, r.Bytes, r.Live, r.Overdue)
}

func (a *app) printRestore(data string, r *server.RestoreReport) error {
	o, text := restored(data, r)
	err := a.print(o, "restored to %s", text)
	if err == nil && r.Overdue > 0 && !a.json() {
		a.note("overdue tasks start as soon as 'kinesin serve' runs on %s, even those that ran after the backup; to inspect them first, run 'kinesin serve --roles inbound'", data)
	}
	return err
}
