package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/store"
)

// Defaults and limits of the continuous backup.
const (
	BackupEveryDefault = 10 * time.Second
	BackupKeepDefault  = 7 * 24 * time.Hour
	backupEveryMin     = time.Second
	backupKeepMin      = time.Hour
)

func (c Config) checkBackup() error {
	var errs []error
	if c.BackupTo != "" && c.Store != StorePebble {
		errs = append(errs, fmt.Errorf("a place of backups with store %s: only an embedded store is backed up by its server; leave --backup-to out, "+
			"and turn on point-in-time recovery of the tables", c.Store))
	}
	if c.BackupTo == "" && (c.BackupEvery != 0 || c.BackupKeep != 0) {
		errs = append(errs, errors.New("how often and how long to back up, but not where: set --backup-to to a directory or s3://BUCKET/PREFIX"))
	}
	if c.BackupEvery != 0 && c.BackupEvery < backupEveryMin {
		errs = append(errs, fmt.Errorf("a recovery point every %v: want %v at least", c.BackupEvery, backupEveryMin))
	}
	if c.BackupKeep != 0 && c.BackupKeep < backupKeepMin {
		errs = append(errs, fmt.Errorf("recovery points kept for %v: want %v at least", c.BackupKeep, backupKeepMin))
	}
	return errors.Join(errs...)
}

// backupSeries are the metrics of the continuous backup.
type backupSeries struct {
	point        prometheus.Gauge
	sent, failed prometheus.Counter
}

func newBackupSeries(m *node.Metrics) backupSeries {
	return backupSeries{
		point: m.Gauge("kinesin_backup_point_timestamp_seconds",
			"Unix time up to which all that was acknowledged is in the place of backups; at first that of the start; 0 without --backup-to."),
		sent:   m.Counter("kinesin_backup_sent_bytes_total", "Bytes that were put into the place of backups."),
		failed: m.Counter("kinesin_backup_failures_total", "Recovery points that could not be put; each is tried again."),
	}
}

// backedUp is an embedded store as the continuous backup sees it.
type backedUp struct{ can store.Capabilities }

func (b backedUp) Snapshot(ctx context.Context) (store.Snapshot, error) { return b.can.Snapshot(ctx) }

func (b backedUp) Writes() uint64 { return b.can.Writes() }

// openBackup claims the place of backups for the data directory, before anything runs.
func (d *drivers) openBackup(ctx context.Context, c *Config, i *backup.Identity, m backupSeries) error {
	place, err := backup.OpenPlace(ctx, c.BackupTo)
	if err != nil {
		return fmt.Errorf("%w: backups: %w", ErrConfig, err)
	}
	m.point.Set(float64(time.Now().Unix()))
	d.place, d.backedUp = place, &atomic.Pointer[time.Time]{}
	d.backedUp.Store(new(time.Now()))
	d.shipper, err = backup.NewShipper(ctx, backup.Config{
		Place: place, Source: backedUp{d.store.Capabilities()}, Identity: i, Claim: newClaim(c.DataDir, i), Clock: clock.Real(), Log: c.Log,
		Every: cmp.Or(c.BackupEvery, BackupEveryDefault), Keep: cmp.Or(c.BackupKeep, BackupKeepDefault),
		Pointed: func(at time.Time) {
			d.backedUp.Store(&at)
			m.point.Set(float64(at.UnixMicro()) / 1e6)
		},
		Sent:   func(bytes int64) { m.sent.Add(float64(bytes)) },
		Failed: m.failed.Inc,
	})
	if err != nil {
		return fmt.Errorf("backups: %w", err)
	}
	return nil
}

// newClaim returns the claim of a data directory, without a number.
func newClaim(dir string, i *backup.Identity) backup.Claim {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return backup.Claim{Data: i.Data, Host: hostName(), Dir: dir, At: clock.Real().Now().Time().UTC()}
}

// lastPoint puts the last recovery point, after all that could write has ended.
func (s *Server) lastPoint(ctx context.Context) {
	if s.drivers.shipper == nil {
		return
	}
	ctx, cancel := clock.Within(context.WithoutCancel(ctx), clock.Real(), s.config.DrainMax)
	defer cancel()
	if err := s.drivers.shipper.Last(ctx); err != nil {
		s.config.Log.WarnContext(ctx, "what was written last is not in the place of backups", slog.Any("error", err))
	}
}
