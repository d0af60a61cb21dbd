package audit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// cursor is the place of a record: the day and name of its row, and its index there.
type cursor struct {
	kind, name string
	index      int
}

// sealCursor returns a cursor of one direction as callers get it.
func (l *Log) sealCursor(c cursor, walk direction) string {
	position := c.kind + "/" + c.name + "/" + strconv.Itoa(c.index)
	return base64.RawURLEncoding.EncodeToString(l.Pages.Seal(walk.list(), []byte(position)))
}

// openCursor returns the cursor behind a text that sealCursor made for the same direction.
func (l *Log) openCursor(ctx context.Context, text string, walk direction) (cursor, error) {
	token, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		position, err := l.Pages.Open(ctx, walk.list(), token)
		if parts := strings.Split(string(position), "/"); err == nil && len(parts) == 3 {
			index, err := strconv.Atoi(parts[2])
			return cursor{parts[0], parts[1], index}, err
		}
	}
	return cursor{}, fmt.Errorf("%w cursor %.100q: want next of the page before, in the same order", task.ErrInvalid, text)
}

// List returns up to limit records from since until before until, oldest first, that come after a cursor; an
// empty one means from the beginning. next is the cursor for the records that follow; empty: there are none.
func (l *Log) List(ctx context.Context, since, until task.Instant, after string, limit int) (records []Record, next string, err error) {
	return l.list(ctx, since, until, after, limit, false)
}

// ListNewest is List with the newest records first. Records that are noted meanwhile come before the first
// page, so pages hold still.
func (l *Log) ListNewest(ctx context.Context, since, until task.Instant, after string, limit int) (records []Record, next string, err error) {
	return l.list(ctx, since, until, after, limit, true)
}

func (l *Log) list(ctx context.Context, since, until task.Instant, after string, limit int, newest bool) (records []Record, next string, err error) {
	until = min(until, l.Clock.Now().Add(24*time.Hour)) // those of a clock that was set back included
	since = min(max(since, l.oldest()), until)
	from := cursor{kind: kindOf(since)}
	begin, end, walk := since, until, forwards
	if newest {
		from, walk = cursor{kind: kindOf(until)}, backwards
	}
	if after != "" {
		if from, err = l.openCursor(ctx, after, walk); err != nil {
			return nil, "", err
		}
	} else {
		l.Flush(ctx)
	}
	if day, known := time.Parse(kindForm, from.kind); known == nil && newest {
		end = min(until, task.InstantOf(day))
	} else if known == nil {
		begin = min(max(task.InstantOf(day), l.oldest()), until)
	}
	var last cursor
	for place, r := range l.places(ctx, daysBetween(min(begin, end), end), walk, &err) {
		if r.At < since || r.At >= until || after != "" && (place == from || place.isAfter(from) == newest) {
			continue
		}
		if len(records) == limit {
			return records, l.sealCursor(last, walk), nil
		}
		records, last = append(records, r), place
	}
	return records, "", err
}

func (c cursor) isAfter(other cursor) bool {
	if c.kind != other.kind {
		return c.kind > other.kind
	}
	if c.name != other.name {
		return c.name > other.name
	}
	return c.index > other.index
}

// oldest returns a time before which nothing is kept.
func (l *Log) oldest() task.Instant { return l.Clock.Now().Add(-l.Keep - sweepDays*24*time.Hour) }

// between yields all records of the days of a span, oldest first, and an error for each row that cannot be
// read.
func (l *Log) between(ctx context.Context, begin, end task.Instant) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, kind := range daysBetween(begin, end) {
			rows, err := l.Rows.Controls(ctx, kind)
			if err != nil {
				yield(Record{}, fmt.Errorf("read audit records: %w", err))
				return
			}
			for i := range rows {
				records, err := decode(&rows[i])
				if err != nil && !yield(Record{}, err) {
					return
				}
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// direction is the order in which records are read.
type direction bool

const (
	forwards  direction = false
	backwards direction = true
)

// list names the list of a direction for the seal of its cursors.
func (d direction) list() string { return fmt.Sprintf("audit %t", d) }

// places yields the records of some days, which are in the order of time. An error ends it.
func (l *Log) places(ctx context.Context, kinds []string, walk direction, failed *error) iter.Seq2[cursor, Record] {
	if walk == backwards {
		slices.Reverse(kinds)
	}
	return func(yield func(cursor, Record) bool) {
		for _, kind := range kinds {
			rows, err := l.Rows.Controls(ctx, kind)
			if err != nil {
				*failed = fmt.Errorf("read audit records: %w", err)
				return
			}
			for i := range rows {
				row := &rows[walk.index(i, len(rows))]
				records, err := decode(row)
				if err != nil {
					*failed = err
					return
				}
				for n := range records {
					n = walk.index(n, len(records))
					if !yield(cursor{kind, row.Name, n}, records[n]) {
						return
					}
				}
			}
		}
	}
}

func (d direction) index(i, count int) int {
	if d == backwards {
		return count - 1 - i
	}
	return i
}

// daysBetween returns the kinds of all days from begin to end.
func daysBetween(begin, end task.Instant) []string {
	var kinds []string
	for day := begin; ; day = day.Add(24 * time.Hour) {
		kind := kindOf(min(day, end))
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
		if day >= end {
			return kinds
		}
	}
}

func decode(row *store.Control) ([]Record, error) {
	var records []Record
	if err := json.Unmarshal(row.Value, &records); err != nil {
		return nil, fmt.Errorf("%w: audit row %s/%s: %w", store.ErrCorrupt, row.Kind, row.Name, err)
	}
	return records, nil
}

func sortByTime(records []Record) {
	slices.SortStableFunc(records, func(a, b Record) int { return int(min(max(a.At-b.At, -1), 1)) })
}
