package objective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// kindWaiting is the kind of the rows with what waits late, one of each process that shares the store.
	kindWaiting = "objective-waiting"
	// waitingFor is how long such a row holds: its process may have ended, and others look at its partitions.
	waitingFor = 2 * KeepEvery
	// waitingKeptFor is how long it is kept, beyond all differences of clocks.
	waitingKeptFor = time.Hour
)

// lookout counts what waits late, one look at a time.
type lookout struct {
	sync.Mutex

	looked  bool
	began   time.Duration // of the last look, by clock.Mono
	version uint64        // of the row of this process
	stored  bool          // its row has counts
}

// waitingRow is what a process stores.
type waitingRow struct {
	At task.Instant     `json:"at"`
	Of map[uint32]int64 `json:"of"` // tasks, by the reference of their lambda
}

// look counts the tasks that are late and have not started, and adds those of the other processes. Whoever
// waits for a look that began after he asked needs none of his own.
func (k *Keeper) look(ctx context.Context) error {
	asked := clock.Mono(k.Clock)
	k.looking.Lock()
	defer k.looking.Unlock()
	objectives := k.objectives()
	if k.looking.looked && k.looking.began > asked || len(objectives) == 0 {
		return nil
	}
	k.looking.looked, k.looking.began = true, clock.Mono(k.Clock)
	all := map[uint32]int64{}
	if k.Late != nil {
		for ref, o := range objectives {
			n, err := k.Late(ctx, o)
			if err != nil {
				return fmt.Errorf("count what waits late: %w", err)
			}
			if n > 0 {
				all[ref] = n
			}
		}
	}
	if k.Shared {
		if err := errors.Join(k.tellWaiting(ctx, all), k.addOthers(ctx, all)); err != nil {
			return err
		}
	}
	k.known.Lock()
	defer k.known.Unlock()
	k.waits = all
	return nil
}

// tellWaiting stores what waits here for the other processes.
func (k *Keeper) tellWaiting(ctx context.Context, here map[uint32]int64) error {
	if len(here) == 0 && !k.looking.stored {
		return nil
	}
	value, _ := json.Marshal(waitingRow{k.Clock.Now(), here}) // of numbers
	version, err := k.put(ctx, store.Control{Kind: kindWaiting, Name: k.process, Version: k.looking.version + 1, Value: value})
	if err != nil {
		return fmt.Errorf("store what waits late: %w", err)
	}
	k.looking.version, k.looking.stored = version, len(here) > 0
	return nil
}

// addOthers adds what waits at the other processes, and deletes rows that processes have left.
func (k *Keeper) addOthers(ctx context.Context, all map[uint32]int64) error {
	rows, err := k.Rows.Controls(ctx, kindWaiting)
	if err != nil {
		return fmt.Errorf("read what waits late: %w", err)
	}
	now := k.Clock.Now()
	for i := range rows {
		var told waitingRow
		switch err := json.Unmarshal(rows[i].Value, &told); {
		case rows[i].Name == k.process:
		case err != nil:
			k.Log.ErrorContext(ctx, "skipping counts of late tasks that cannot be read", slog.String("row", rows[i].Name), slog.Any("error", err))
		case now.Sub(told.At) > waitingKeptFor:
			if err := k.Rows.DeleteControl(ctx, rows[i]); err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		case now.Sub(told.At) <= waitingFor:
			for ref, n := range told.Of {
				all[ref] += n
			}
		}
	}
	return nil
}
