package audit

import (
	"context"
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

func (c cursor) String() string { return c.kind + "/" + c.name + "/" + strconv.Itoa(c.index) }

func parseCursor(text string) (cursor, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		index, err := strconv.Atoi(parts[2])
		if _, day := time.Parse(kindForm, parts[0]); err == nil && day == nil {
			return cursor{parts[0], parts[1], index}, nil
		}
	}
	return cursor{}, fmt.Errorf("%w cursor %q: want what the page before returned", task.ErrInvalid, text)
}

// List returns up to limit records from since until before until, oldest first, that come after a cursor; an
// empty one means from the beginning. next is the cursor for the records that follow; empty: there are none.
func (l *Log) List(ctx context.Context, since, until task.Instant, after string, limit int) (records []Record, next string, err error) {
	until = min(until, l.Clock.Now().Add(24*time.Hour)) // those of a clock that was set back included
	since = min(max(since, l.oldest()), until)
	from := cursor{kind: kindOf(since)}
	if after != "" {
		if from, err = parseCursor(after); err != nil {
			return nil, "", err
		}
	} else {
		l.Flush(ctx)
	}
	var last cursor
	for place, r := range l.places(ctx, from, until, &err) {
		if r.At < since || r.At >= until || after != "" && !place.isAfter(from) {
			continue
		}
		if len(records) == limit {
			return records, last.String(), nil
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

// places yields the records from the row of a cursor on. An error ends it.
func (l *Log) places(ctx context.Context, from cursor, until task.Instant, failed *error) iter.Seq2[cursor, Record] {
	return func(yield func(cursor, Record) bool) {
		day, _ := time.Parse(kindForm, from.kind)
		for _, kind := range daysBetween(min(max(task.InstantOf(day), l.oldest()), until), until) {
			rows, err := l.Rows.Controls(ctx, kind)
			if err != nil {
				*failed = fmt.Errorf("read audit records: %w", err)
				return
			}
			for i := range rows {
				if kind == from.kind && rows[i].Name < from.name {
					continue
				}
				records, err := decode(&rows[i])
				if err != nil {
					*failed = err
					return
				}
				for n, r := range records {
					if !yield(cursor{kind, rows[i].Name, n}, r) {
						return
					}
				}
			}
		}
	}
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
