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
	"github.com/kinesin-io/kinesin/internal/backup"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/dial"
)

func (a *app) backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FILE|DIR",
		Short: "Back up the embedded store of a running server",
		Long: `Copies the store of a running server as it is at one moment: all that was acknowledged before the command began is in the copy. The server goes on meanwhile.

A directory, or a path that ends in /, becomes one backup of many files; when it holds an earlier one, only what is new is sent. Any other path becomes one archive
(tar). Both carry checksums. They are synced, and take the place of an earlier backup when they are complete: what is interrupted leaves that as it was.

'kinesin restore' makes a data directory of it. A store on DynamoDB is not for this command: use point-in-time recovery of its tables.`,
		Example: `  kinesin backup /backup/kinesin-$(date +%F).tar
  kinesin backup /backup/kinesin/ --server http://10.0.0.5:7070`,
		Args: oneBackup,
	}
	c.RunE = does(func(ctx context.Context, args []string) error {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return a.backup(ctx, args[0])
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

// oneBackup accepts exactly one argument.
func oneBackup(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return usagef("FILE or DIR of the backup is missing")
	case len(args) > 1:
		return usagef("%q is one argument too many: want one FILE or DIR", args[1])
	}
	return nil
}

// backupObject is the result of a backup.
type backupObject struct {
	Path      string `json:"path"`
	Created   string `json:"created"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	SentBytes int64  `json:"sent_bytes"`
}

func (a *app) backup(ctx context.Context, path string) (err error) {
	client, err := a.backupClient()
	if err != nil {
		return err
	}
	w, err := backup.Create(path)
	if err != nil {
		return fmt.Errorf("backup to %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	m, err := receiveBackup(ctx, client, w)
	if err != nil {
		return fmt.Errorf("backup to %s is not complete and was given up: %w", path, a.explain(err))
	}
	if a.json() {
		return printJSON(a.Stdout, backupObject{path, timeText(m.Created), len(m.Files), m.Bytes(), w.SentBytes})
	}
	_, err = fmt.Fprintf(a.Stdout, "backed up to %s: as of %s; %d files, %d bytes, %d of them sent\n", path, timeText(m.Created), len(m.Files), m.Bytes(), w.SentBytes)
	return err
}

// backupClient makes a client for the stream. It looks at the settings as every client does.
func (a *app) backupClient() (kinesinv1connect.BackupServiceClient, error) {
	checked, err := a.client()
	if err != nil {
		return nil, err
	}
	checked.Close()
	clients, err := dial.New(dial.Config{Server: a.server, TokenFile: a.tokenFile, CAFile: a.caFile, Clock: clock.Real()})
	if err != nil {
		return nil, usagef("%v", err)
	}
	return kinesinv1connect.NewBackupServiceClient(clients.Streams, a.server, api.ClientOptions()...), nil
}

// receiveBackup writes what a server sends.
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
			m, err := w.Commit(time.UnixMicro(start.CreatedMicros).UTC())
			_ = stream.Close() // all has come
			return m, err
		default:
			if err := writePart(w, r); err != nil {
				_ = stream.Close()
				return backup.Manifest{}, err
			}
		}
	}
	_ = stream.Close() // fails only where the connection has gone, of which Err tells
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

// cutShort is why a stream ended before the backup was complete.
func cutShort(stream *connect.ServerStreamForClient[kinesinv1.BackupResponse]) error {
	if err := stream.Err(); err != nil {
		return api.FromWire(err)
	}
	return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server ended it")
}
