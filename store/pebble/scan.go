package pebble

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// ScanSchedule implements store.Driver.
func (d *Driver) ScanSchedule(ctx context.Context, p task.Partition, from store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	s := scan{prefix: appendPrefix(nil, wakeSpace, p), floor: &d.parts.get(p).wakeups}
	if from.Wake != 0 || !from.ID.IsZero() {
		s.from = position{from.Wake, from.ID}.next()
	}
	var rows []task.Task
	err := d.scan(&s, through, func(_ position, value []byte) (bool, error) {
		t, err := decoder(store.DecodeWakeup).own(value)
		if len(rows) == cap(rows) { // doubled: append would copy a full page some five times
			rows = slices.Grow(rows, min(len(rows)+16, limit-len(rows)))
		}
		rows = append(rows, t)
		return len(rows) < limit, err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func appendPrefix(dst []byte, space byte, p task.Partition) []byte {
	return store.AppendPartition(append(dst, space), p)
}

// scan says where to walk over an index.
type scan struct {
	prefix []byte
	floor  *floor
	from   position // the first that may be visited; zero for the head
}

// scan visits the entries of an index from s.from on and at or before through.
func (d *Driver) scan(s *scan, through task.Instant, visit func(at position, value []byte) (bool, error)) error {
	if through < 0 {
		return nil
	}
	low, raises := s.floor.start(s.from)
	end := position{at: through + 1}
	if end.at < 0 {
		end = last
	}
	head, seen := end, false
	err := d.each(appendPosition(s.prefix, low), appendPosition(bytes.Clone(s.prefix), end),
		func(key, value []byte) (bool, error) {
			at := decodePosition(key[len(key)-positionLen:])
			if !seen {
				head, seen = at, true
			}
			return visit(at, value)
		})
	if raises {
		if err != nil && !seen {
			head = position{}
		}
		s.floor.raise(head)
	}
	return err
}

// examinedMax bounds the entries that one page of ScanEnded looks at.
const examinedMax = 16384

// ScanEnded implements store.Driver. Dead letters come in order of (partition, ended), other ends in
// order of their expiry. The cursor is the last key that the page looked at.
func (d *Driver) ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	prefix, wanted := []byte{expirySpace}, filterEnded(p, s)
	if s == task.Dead {
		prefix, wanted = []byte{deadSpace}, nil
		if p != nil {
			prefix = appendPrefix(nil, deadSpace, *p)
		}
	}
	lower := prefix
	if len(cursor) > 0 {
		if !bytes.HasPrefix(cursor, prefix) || len(cursor) < expiryLen {
			return nil, nil, fmt.Errorf("%w cursor", store.ErrMalformed)
		}
		lower = append(bytes.Clone(cursor), 0)
	}
	return d.endedPage(lower, after(prefix), wanted, s, limit)
}

// filterEnded returns a function that reports by the value of an expiry entry whether its row is wanted.
func filterEnded(p *task.Partition, s task.State) func(value []byte) bool {
	return func(value []byte) bool {
		return len(value) == store.PartitionLen+1 &&
			(s == task.Unknown || task.State(value[store.PartitionLen]) == s) &&
			(p == nil || store.DecodePartition(value) == *p)
	}
}

// endedPage may have less rows than limit although more follow: some may have changed meanwhile.
func (d *Driver) endedPage(lower, upper []byte, wanted func([]byte) bool, s task.State, limit int) ([]task.Task, []byte, error) {
	ids, next, err := d.endedIDs(lower, upper, wanted, limit)
	if err != nil {
		return nil, nil, err
	}
	rows, err := d.endedRows(ids, s)
	if err != nil {
		return nil, nil, err
	}
	return rows, next, nil
}

// endedIDs returns ids of an index of ended rows, and the last key that it looked at, nil at the end.
func (d *Driver) endedIDs(lower, upper []byte, wanted func([]byte) bool, limit int) (ids []task.ID, next []byte, err error) {
	examined := 0
	err = d.each(lower, upper, func(key, value []byte) (bool, error) {
		examined++
		if wanted == nil || wanted(value) {
			ids = append(ids, decodePosition(key[len(key)-positionLen:]).id)
		}
		if len(ids) < limit && examined < examinedMax {
			return true, nil
		}
		next = bytes.Clone(key)
		return false, nil
	})
	return ids, next, err
}

// endedRows returns, in their order, the rows of ids that have ended, in a state if one is given. The others
// have changed since their ids were read.
func (d *Driver) endedRows(ids []task.ID, s task.State) ([]task.Task, error) {
	begun, rows := d.seen.begun.Load(), make([]task.Task, len(ids))
	err := d.lookEach(len(ids), func(dst []byte, i int) []byte { return appendIDKey(dst, taskSpace, ids[i]) },
		func(i int, key []byte, find finder) error { return readRow(find, key, &rows[i], store.DecodeTask) })
	if err != nil {
		return nil, err
	}
	d.seen.add(rows, begun)
	return slices.DeleteFunc(rows, func(t task.Task) bool { return !t.State.IsEnd() || s != task.Unknown && t.State != s }), nil
}

// Sweep implements store.Driver.
func (d *Driver) Sweep(ctx context.Context, now task.Instant, limit int) (int, error) {
	r, err := d.expired(ctx, now, limit)
	if err != nil {
		return 0, err
	}
	if len(r.rows) < limit {
		defer d.freeSpace(ctx)
	}
	if len(r.rows) == 0 {
		return 0, nil
	}
	results, err := d.submit(ctx, r)
	if err != nil {
		return 0, err
	}
	swept := 0
	for _, err := range results {
		if err == nil {
			swept++
		}
	}
	return swept, nil
}

// expired returns a request that deletes the first expired rows.
func (d *Driver) expired(ctx context.Context, now task.Instant, limit int) (*request, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	r := d.newRequest(0)
	s := scan{prefix: []byte{expirySpace}, floor: &d.expiry}
	err := d.scan(&s, now, func(at position, _ []byte) (bool, error) {
		r.addSweep(at)
		return len(r.rows) < limit, nil
	})
	r.results = make([]error, len(r.rows))
	return r, err
}
