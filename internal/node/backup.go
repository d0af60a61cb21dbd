package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

const (
	// backupPieceBytes is how much of a file one message holds.
	backupPieceBytes = 256 << 10
	// backupBytesPerSecond bounds how fast a backup reads, so that it leaves disk and CPU to the tasks.
	backupBytesPerSecond = 64 << 20
	// backupHaveMax bounds how many files a caller may name as already present.
	backupHaveMax = 1 << 17
	// busyMax is how long a backup waits while another snapshot is there, and busyPause how long between two looks.
	busyMax   = 30 * time.Second
	busyPause = 200 * time.Millisecond
)

// backups serves backups of the store, whatever roles the node has.
type backups struct {
	node *Node

	mu   sync.Mutex
	sums map[string]backupSum // of the immutable files of the newest snapshot, by name
}

// backupSum is the checksum of a file that was read.
type backupSum struct {
	bytes int64
	sum   [sha256.Size]byte
}

func newBackups(n *Node) *backups { return &backups{node: n, sums: map[string]backupSum{}} }

// Backup implements the BackupService.
func (b *backups) Backup(ctx context.Context, r *kinesinv1.BackupRequest, to *connect.ServerStream[kinesinv1.BackupResponse]) error {
	n := b.node
	if len(r.Have) > backupHaveMax {
		return api.Errorf(kinesinv1.Reason_REASON_INVALID, "%d files are named as already present: want %d at most", len(r.Have), backupHaveMax)
	}
	began := n.clock.Now()
	snapshot, err := b.snapshot(ctx)
	switch {
	case errors.Is(err, store.ErrBusy):
		return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "another backup of this server is under way: try again when it has ended")
	case err != nil:
		return err
	case snapshot == nil:
		return api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "this server's store is not embedded, so it has nothing to back up: "+
			"on DynamoDB turn on point-in-time recovery of the tables, which the Terraform modules do by default")
	}
	send := &backupSend{backups: b, snapshot: snapshot, to: to, have: haveOf(r), buffer: make([]byte, backupPieceBytes), began: clock.Mono(n.clock)}
	err = errors.Join(send.all(ctx, began.Time().UnixMicro()), snapshot.Close())
	n.log.InfoContext(ctx, "backup ended", slog.Int("files", len(snapshot.Files())), slog.Int64("sent_bytes", send.sent),
		slog.Duration("took", n.clock.Now().Sub(began)), slog.Bool("complete", err == nil))
	return err
}

// snapshot takes a snapshot, and waits for another that is soon done with, as those of the continuous backup are.
func (b *backups) snapshot(ctx context.Context) (store.Snapshot, error) {
	for waited := time.Duration(0); ; waited += busyPause {
		snapshot, err := b.node.store.Snapshot(ctx)
		if !errors.Is(err, store.ErrBusy) || waited >= busyMax {
			return snapshot, err
		}
		if err := clock.Sleep(ctx, b.node.clock, busyPause); err != nil {
			return nil, err
		}
	}
}

func haveOf(r *kinesinv1.BackupRequest) map[string]*kinesinv1.BackupFile {
	have := make(map[string]*kinesinv1.BackupFile, len(r.Have))
	for _, f := range r.Have {
		have[f.Name] = f
	}
	return have
}

// backupSend sends one snapshot.
type backupSend struct {
	*backups

	snapshot store.Snapshot
	to       *connect.ServerStream[kinesinv1.BackupResponse]
	have     map[string]*kinesinv1.BackupFile
	buffer   []byte
	began    time.Duration // in monotonic time
	read     int64         // bytes
	sent     int64
}

func (s *backupSend) all(ctx context.Context, created int64) error {
	start := &kinesinv1.BackupStart{Created: created}
	for _, f := range s.snapshot.Files() {
		start.Files = append(start.Files, &kinesinv1.BackupFile{Name: f.Name, Bytes: f.Bytes})
	}
	if err := s.to.Send(&kinesinv1.BackupResponse{Start: start}); err != nil {
		return err
	}
	sums := map[string]backupSum{}
	for _, f := range s.snapshot.Files() {
		sum, err := s.file(ctx, f)
		if err != nil {
			return err
		}
		if f.Immutable {
			sums[f.Name] = backupSum{f.Bytes, sum}
		}
	}
	s.mu.Lock()
	s.sums = sums
	s.mu.Unlock()
	return s.to.Send(&kinesinv1.BackupResponse{Complete: true})
}

// file sends a file, or the notice that the caller has it.
func (s *backupSend) file(ctx context.Context, f store.SnapshotFile) (sum [sha256.Size]byte, err error) {
	announced := &kinesinv1.BackupFile{Name: f.Name, Bytes: f.Bytes}
	if have := s.have[f.Name]; have != nil && have.Bytes == f.Bytes && f.Immutable {
		if sum, err = s.sumOf(ctx, f); err != nil {
			return sum, err
		}
		if string(have.Sha256) == string(sum[:]) {
			announced.Sha256 = have.Sha256
			return sum, s.to.Send(&kinesinv1.BackupResponse{File: announced})
		}
	}
	if err := s.to.Send(&kinesinv1.BackupResponse{File: announced}); err != nil {
		return sum, err
	}
	sum, err = s.through(ctx, f, func(piece []byte) error {
		s.sent += int64(len(piece))
		return s.to.Send(&kinesinv1.BackupResponse{Data: piece})
	})
	if err != nil {
		return sum, err
	}
	return sum, s.to.Send(&kinesinv1.BackupResponse{Sha256: sum[:]})
}

// sumOf returns the checksum of an immutable file, which is cached from an earlier backup.
func (s *backupSend) sumOf(ctx context.Context, f store.SnapshotFile) ([sha256.Size]byte, error) {
	s.mu.Lock()
	known, found := s.sums[f.Name]
	s.mu.Unlock()
	if found && known.bytes == f.Bytes {
		return known.sum, nil
	}
	return s.through(ctx, f, func([]byte) error { return nil })
}

// through reads a file piece by piece, and returns its checksum.
func (s *backupSend) through(ctx context.Context, f store.SnapshotFile, each func(piece []byte) error) (sum [sha256.Size]byte, err error) {
	file, err := s.snapshot.Open(f.Name)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	for {
		n, err := io.ReadFull(file, s.buffer)
		if n > 0 {
			_, _ = hash.Write(s.buffer[:n]) // never fails
			if err := errors.Join(each(s.buffer[:n]), s.pace(ctx, n)); err != nil {
				return sum, err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return [sha256.Size]byte(hash.Sum(nil)), nil
		}
		if err != nil {
			return sum, err
		}
	}
}

// pace waits until n more bytes may have been read. It ends the backup if the server stops.
func (s *backupSend) pace(ctx context.Context, n int) error {
	if s.node.draining.Load() {
		return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server is stopping: make the backup again when it is back")
	}
	s.read += int64(n)
	due := s.began + time.Duration(float64(s.read)/backupBytesPerSecond*float64(time.Second))
	if early := due - clock.Mono(s.node.clock); early > 0 {
		return clock.Sleep(ctx, s.node.clock, early)
	}
	return ctx.Err()
}
