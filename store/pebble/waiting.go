package pebble

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// waitingLong is how long groups may wait for the disk, and none be done, before that is logged.
	waitingLong = 5 * time.Second
	// waitingLookEvery is how often that is looked at.
	waitingLookEvery = time.Second
)

// waiting tells for how long groups have waited for the disk without one of them getting on: for a sync, a new
// log, or a free memtable. While the disk hangs nothing can be acknowledged, and no call returns an error that
// would say so. Its lock is never held while anything waits.
type waiting struct {
	mu     sync.Mutex
	groups int       // committed or about to be, and not answered
	since  time.Time // when the first one came, or the last one was answered
}

func (w *waiting) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups++; w.groups == 1 {
		w.since = time.Now()
	}
}

func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups--
	w.since = time.Now()
}

// lasts returns for how long no group has got on; 0 when none waits.
func (w *waiting) lasts() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups == 0 {
		return 0
	}
	return time.Since(w.since)
}

// watchDisk logs since when writes wait for the disk, and when that is over.
func (d *Driver) watchDisk(ctx context.Context) {
	look := time.NewTicker(waitingLookEvery)
	defer look.Stop()
	var since time.Time // zero: nothing was logged
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		switch lasts := d.waiting.lasts(); {
		case lasts > waitingLong && since.IsZero():
			since = time.Now().Add(-lasts)
			d.cfg.Logger.ErrorContext(ctx, "the disk does not complete writes: nothing can be acknowledged", slog.String("dir", d.dir),
				slog.Time("since", since), slog.String("hint", "a full queue, a failed device or a lost network disk; the store goes on when the writes complete"))
		case lasts <= waitingLong && !since.IsZero():
			d.cfg.Logger.InfoContext(ctx, "the disk completes writes again", slog.String("dir", d.dir), slog.Duration("after", time.Since(since)))
			since = time.Time{}
		}
	}
}
