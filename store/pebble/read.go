package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks implements store.Driver.
func (d *Driver) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	unreadable := func(i int) (task.Task, bool) { return task.Task{ID: ids[i]}, len(ids) > 1 }
	begun := d.seen.begun.Load()
	rows, err := d.rows(ctx, len(ids), store.DecodeTask, unreadable, func(dst []byte, i int) []byte { return appendIDKey(dst, taskSpace, ids[i]) })
	d.seen.add(rows, begun)
	return rows, err
}

// Wakeups implements store.Driver.
func (d *Driver) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	unreadable := func(int) (none task.Task, stands bool) { return none, false } // it must not look missing
	return d.rows(ctx, len(keys), store.DecodeWakeup, unreadable, func(dst []byte, i int) []byte {
		return appendIndexKey(dst, wakeSpace, keys[i].Partition, position{keys[i].Wake, keys[i].ID})
	})
}

// decoder is store.DecodeTask, or store.DecodeWakeup where rows may be bare.
type decoder func(row []byte) (task.Task, error)

// rows reads n rows by their keys. unreadable returns what stands for a row that is damaged or of a newer
// version; without that the call fails.
func (d *Driver) rows(
	ctx context.Context, n int, decode decoder, unreadable func(i int) (task.Task, bool), appendKey func(dst []byte, i int) []byte,
) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	found := make([]task.Task, n)
	err := d.lookEach(n, appendKey, func(i int, key []byte, find finder) error {
		err := readRow(find, key, &found[i], decode)
		if store.IsUnreadable(err) {
			if instead, stands := unreadable(i); stands {
				found[i], err = instead, nil
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, d.awaitDurable()
}

// lookEach calls read for each of n keys, with the way to look it up. Many keys are looked up in their order,
// by one iterator: that opens no table twice, and of rows side by side each block once.
func (d *Driver) lookEach(n int, appendKey func(dst []byte, i int) []byte, read func(i int, key []byte, find finder) error) (err error) {
	if n < seekRowsMin {
		key := make([]byte, 0, indexKeyLen)
		for i := 0; i < n && err == nil; i++ {
			key = appendKey(key[:0], i)
			err = read(i, key, d.look)
		}
		return err
	}
	type place struct {
		key []byte
		i   int
	}
	buf, places := make([]byte, 0, n*indexKeyLen), make([]place, n)
	for i := range places {
		from := len(buf)
		buf = appendKey(buf, i)
		places[i] = place{buf[from:], i}
	}
	slices.SortFunc(places, func(a, b place) int { return bytes.Compare(a.key, b.key) })
	it, err := d.db.NewIter(&pebbledb.IterOptions{UseL6Filters: true})
	if err != nil {
		return d.readError(err)
	}
	find := func(key []byte, see func([]byte) error) (bool, error) { return d.seekBy(it, key, see) }
	for k := 0; k < n && err == nil; k++ {
		err = read(places[k].i, places[k].key, find)
	}
	return errors.Join(err, it.Close())
}

// readRow reads a row into t, and leaves t as it is when there is no row.
func readRow(find finder, key []byte, t *task.Task, decode decoder) error {
	_, err := find(key, func(value []byte) (err error) {
		if *t, err = decode.own(value); err != nil {
			return fmt.Errorf("row %x: %w", key, err)
		}
		return nil
	})
	return err
}

// own decodes a row into memory of its own.
func (decode decoder) own(value []byte) (task.Task, error) {
	t, err := decode(value)
	t.Payload = bytes.Clone(t.Payload)
	return t, err
}

// awaitDurable waits until everything visible is on disk.
func (d *Driver) awaitDurable() error {
	d.durable.wait()
	return d.failure()
}

// Payload implements store.Driver.
func (d *Driver) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	var payload []byte
	found, err := d.look(appendIDKey(nil, payloadSpace, id), func(value []byte) error {
		payload = bytes.Clone(value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("payload of %s: %w", id, store.ErrNotFound)
	}
	return payload, d.awaitDurable()
}

// Controls implements store.Driver.
func (d *Driver) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	var rows []store.Control
	add := func(key, value []byte) (more bool, err error) {
		c, err := decodeControl(key, value)
		rows = append(rows, c)
		return true, err
	}
	key := appendControlKey(nil, kind, name)
	var err error
	if name == "" {
		err = d.each(key, after(key), add)
	} else {
		_, err = d.look(key, func(value []byte) error { _, err := add(key, value); return d.readError(err) })
	}
	if err != nil {
		return nil, err
	}
	return rows, d.awaitDurable()
}

// each visits the keys of [lower, upper) in order until visit returns false. Key and value are valid only
// during the visit.
func each(from pebbledb.Reader, lower, upper []byte, visit func(key, value []byte) (more bool, err error)) error {
	it, err := from.NewIter(&pebbledb.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	more := true
	for valid := it.First(); valid && more && err == nil; valid = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			more, err = visit(it.Key(), value)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

func (d *Driver) each(lower, upper []byte, visit func(key, value []byte) (more bool, err error)) error {
	return d.readError(each(d.db, lower, upper, visit))
}
