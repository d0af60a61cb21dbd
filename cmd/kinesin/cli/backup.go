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
	return a.callingWith(&cobra.Command{
		Use:   "backup FILE|DIR",
		Short: "Back up the embedded store of a running server",
		Long: `Makes a consistent copy of the store of a running server, with everything that was acknowledged before the command began. The
server continues to serve.

A path that is a directory or ends in / gets a backup of many files; if it holds an earlier backup, only new files are sent. Any
other path becomes one tar archive. Both have checksums, are synced, and replace an earlier backup only when they are complete.

'kinesin restore' makes a data directory from it. For a store on DynamoDB use point-in-time recovery of its tables instead.`,
		Example: `  kinesin backup /backup/kinesin-$(date +%F).tar
  kinesin backup /backup/kinesin/ --server http://10.0.0.5:7070`,
		Args: one("FILE or DIR"),
	}, func(ctx context.Context, _ *sdk.Client, args []string) error {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return a.backup(ctx, args[0])
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

func (a *app) backup(ctx context.Context, path string) (err error) {
	clients, err := a.connections()
	if err != nil {
		return err
	}
	defer clients.CloseIdle()
	client := kinesinv1connect.NewBackupServiceClient(clients.Streams, clients.Base, api.ClientOptions()...)
	w, err := backup.Create(path)
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
	o := backupObject{path, timeText(m.Created), len(m.Files), m.Bytes(), w.SentBytes}
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
			m, err := w.Commit(time.UnixMicro(start.Created).UTC())
			_ = stream.Close() // the backup is complete
			return m, err
		default:
			if err := writePart(w, r); err != nil {
				_ = stream.Close()
				return backup.Manifest{}, err
			}
		}
	}
	_ = stream.Close() // fails only if the connection is lost, which Err reports
	return backup.Manifest{}, cutShort(stream)
}

func writePart(w *backup.Writer, r *kinesinv1.BackupResponse) error {
	var err error
	switch {
	case r.File != nil && len(r.File.Sha256) > 0:
		err = w.Keep(r.File.Name, r.File.Sha256)
	case r.File != nil:
		err = w.Begin(r.File.Name, r.File.Bytes)
	}
	if err == nil && len(r.Data) > 0 {
		_, err = w.Write(r.Data)
	}
	if err == nil && len(r.Sha256) > 0 {
		err = w.End(r.Sha256)
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
