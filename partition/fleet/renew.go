package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

func (m *Membership) row(version uint64, r record) store.Control {
	m.beat++
	r.Run, r.Beat, r.Wall, r.Format = m.run, m.beat, int64(m.Clock.Now()), format
	value, _ := json.Marshal(r) // strings and numbers never fail
	return store.Control{Kind: Kind, Name: m.Config.Self, Version: version, Value: value}
}

// renew writes our row, and notes if somebody else had deleted it.
func (m *Membership) renew(ctx context.Context) (err error) {
	m.attempted, m.renewed = true, clock.Mono(m.Clock)
	r := m.desired()
	for range casTriesMax {
		next := m.version + 1
		err = m.Rows.PutControl(ctx, m.row(next, r))
		if err == nil {
			m.version, m.owned, m.published = next, true, r
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		have, readErr := m.current(ctx, err)
		switch {
		case errors.Is(readErr, store.ErrNotFound):
			m.rowDeleted, m.version = m.rowDeleted || m.version > 0, 0
		case readErr != nil:
			return fmt.Errorf("read the membership of %s: %w", m.Config.Self, readErr)
		case decode(&have).Run == m.run: // our own write, whose answer was lost
			m.version = have.Version
		default:
			m.owned, m.version = false, 0
			return fmt.Errorf("%w: %s", errNameTaken, m.Config.Self)
		}
	}
	return fmt.Errorf("renew the membership of %s: %w", m.Config.Self, err)
}

// errNameTaken keeps this process without partitions until the other one is silent and its row deleted.
var errNameTaken = errors.New("another process is a member of the same name; give each one of its own")

// current returns our row from the conflict, or reads it.
func (m *Membership) current(ctx context.Context, conflict error) (store.Control, error) {
	if seen, ok := errors.AsType[*store.ConflictError](conflict); ok && seen.Control != nil {
		return *seen.Control, nil
	}
	return m.Rows.Control(ctx, Kind, m.Config.Self)
}

// leave deletes our row, if it is ours. Should that fail, its lease ends.
func (m *Membership) leave(ctx context.Context) {
	if !m.owned {
		return
	}
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	m.owned = false
	err := m.Rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: m.Config.Self, Version: m.version})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		m.Log.WarnContext(ctx, "member row not deleted; its lease ends by itself", slog.Any("error", err))
	}
}
