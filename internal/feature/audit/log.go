package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	kindPrefix = "audit-"
	kindForm   = kindPrefix + "20060102" // a day, in UTC
	headKind   = "audit"
	headName   = "head"

	// KeepDefault is how long records are kept.
	KeepDefault = 90 * 24 * time.Hour
	// sweepDays is how many days before those that are kept are looked for: as long as no process ran.
	sweepDays = 31
	// mergeEvery is for how long acts that programs do often become one record.
	mergeEvery = 10 * time.Second
	// mergedMax bounds the records that are merged at a time, rowRecordsMax those of a row.
	mergedMax     = 1024
	rowRecordsMax = 64
	// refusalsMax bounds those of them that are of refused calls of one identity, or of nobody: whoever makes
	// them chooses their targets. All others are one record. An identity that had few before may have
	// refusalsBurstMax at once.
	refusalsMax, refusalsBurstMax = 8, 64
	// identitiesMax bounds the identities whose refusals are told apart.
	identitiesMax = 64
	// writeMax bounds the write of a record, for which its act waits.
	writeMax = 5 * time.Second
	// textBytesMax bounds a text of a record, such as the names of a call.
	textBytesMax = 512
	// changeBytesMax bounds what is kept of the state before and after a change.
	changeBytesMax = 16 << 10
)

// Config configures a Log. Rows, Clock and Log are required.
type Config struct {
	Rows  store.ControlRows
	Clock clock.Clock
	Log   *slog.Logger
	// Chained links the records. It needs a process that has the store to itself.
	Chained bool
	Pages   task.Seal     // seals the cursors of lists
	Keep    time.Duration // how long records are kept; KeepDefault
	// Written is called with each record that was written, in order. It may be nil.
	Written func(Record)
	// Lost is called with the number of acts whose record could not be written. It may be nil.
	Lost func(acts int)
}

// Log writes and reads records. It is safe for concurrent use.
type Log struct {
	Config

	process string // a part of the names of its rows

	writing chan struct{} // holds a token while one call writes; guards what follows
	rows    uint64        // written here
	swept   string        // the day of the last sweep
	rowAt   task.Instant  // of the newest row; it never goes back, so that days are in the order of the chain
	head    Record        // of the chain: Seq and Hash; of Seq 0 before it is read
	headRow store.Control

	mu       sync.Mutex
	merged   map[act]*Record // not written yet
	refusals map[string]int  // by identity, without those that stand for others; forgive takes from them
	left     int             // acts that found no room since the last flush
}

const (
	nobody = "-"      // the identity of a call that showed none
	others = "others" // stands for addresses, actions and targets
)

// act is what records that are merged have in common.
type act struct{ identity, from, action, target, outcome, after string }

// New returns a log.
func New(c Config) *Log {
	c.Keep = cmp.Or(c.Keep, KeepDefault)
	return &Log{
		Config: c, process: fmt.Sprintf("%08x", uint32(c.Clock.Uint64())), writing: make(chan struct{}, 1), merged: map[act]*Record{}, refusals: map[string]int{},
	}
}

// Run writes what was merged every mergeEvery, and once more when ctx ends.
func (l *Log) Run(ctx context.Context) error {
	for clock.Sleep(ctx, l.Clock, mergeEvery) == nil {
		l.Flush(ctx)
		l.forgive()
	}
	l.Flush(context.WithoutCancel(ctx))
	return nil
}

// forgive gives each identity room for as many records of refusals as it may make in mergeEvery.
func (l *Log) forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for identity, n := range l.refusals {
		if l.refusals[identity] = n - refusalsMax; n <= refusalsMax {
			delete(l.refusals, identity)
		}
	}
}

// Note writes a record before it returns, behind those that are merged, which are older. A record that cannot
// be written is in the process's log only.
func (l *Log) Note(ctx context.Context, r Record) {
	ctx = context.WithoutCancel(ctx) // the act is done, whether or not its caller waits
	// The merged records are of other calls, and so are not logged with the id of this one.
	l.Flush(context.Background())
	l.complete(&r)
	if err := l.write(ctx, []Record{r}); err != nil {
		l.lost(ctx, []Record{r}, err)
	}
}

// NoteOften notes an act that is done often: equal ones become one record within mergeEvery.
func (l *Log) NoteOften(r Record) {
	l.complete(&r)
	key := act{r.Identity, r.From, r.Action, r.Target, r.Outcome, r.After}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Outcome != OK && l.merged[key] == nil {
		room := refusalsMax
		if len(l.merged) < mergedMax/2 { // the rest is for the acts of others
			room = refusalsBurstMax
		}
		if n := l.refusals[r.Identity]; n < room && (n > 0 || len(l.refusals) < identitiesMax) {
			l.refusals[r.Identity]++
		} else {
			r.From, r.Action, r.Target = others, others, others
			if n == 0 {
				r.Identity = others
			}
			key = act{r.Identity, r.From, r.Action, r.Target, r.Outcome, r.After}
		}
	}
	switch known := l.merged[key]; {
	case known != nil:
		known.Count += r.Count
	case len(l.merged) < mergedMax:
		l.merged[key] = &r
	default:
		l.left += int(r.Count)
	}
}

func (l *Log) complete(r *Record) {
	r.At, r.Count = l.Clock.Now(), max(r.Count, 1)
	r.Identity = cmp.Or(r.Identity, nobody)
	for _, text := range []*string{&r.From, &r.Action, &r.Target, &r.Outcome} {
		if len(*text) > textBytesMax {
			*text = strings.ToValidUTF8((*text)[:textBytesMax], "") + "…"
		}
		*text = strings.ToValidUTF8(*text, "\uFFFD") // a target may come from a path
	}
	for _, change := range []*string{&r.Before, &r.After} {
		if len(*change) > changeBytesMax || *change != "" && !json.Valid([]byte(*change)) {
			*change = `"too long"`
		}
	}
}

// Flush writes what was merged.
func (l *Log) Flush(ctx context.Context) {
	l.mu.Lock()
	merged, left := l.merged, l.left
	l.merged, l.left = map[act]*Record{}, 0
	l.mu.Unlock()
	if left > 0 {
		l.Log.WarnContext(ctx, "too many different acts for the audit log", slog.Int("not_recorded", left))
		l.count(left)
	}
	if len(merged) == 0 {
		return
	}
	records := make([]Record, 0, len(merged))
	for _, r := range merged {
		records = append(records, *r)
	}
	sortByTime(records)
	for part := range slices.Chunk(records, rowRecordsMax) {
		if err := l.write(ctx, part); err != nil {
			l.lost(ctx, part, err)
		}
	}
}

func (l *Log) lost(ctx context.Context, records []Record, err error) {
	for i := range records {
		l.Log.ErrorContext(ctx, "cannot store an audit record", slog.Any("record", records[i]), slog.Any("error", err))
	}
	l.count(len(records))
}

func (l *Log) count(acts int) {
	if l.Lost != nil {
		l.Lost(acts)
	}
}

// write stores records in a row, and links them to the chain.
func (l *Log) write(ctx context.Context, records []Record) error {
	ctx, cancel := clock.Within(ctx, l.Clock, writeMax)
	defer cancel()
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.Chained {
		if err := l.chain(ctx, records); err != nil {
			return err
		}
	}
	value, err := json.Marshal(records)
	if err != nil {
		return err
	}
	l.rowAt = max(l.rowAt, l.Clock.Now())
	if err := l.put(ctx, store.Control{Kind: kindOf(l.rowAt), Name: l.nameOf(records[0].Seq), Version: 1, Value: value}); err != nil {
		l.headRow = store.Control{} // the row may be there: read where the chain ends
		return err
	}
	if l.Chained {
		l.head = records[len(records)-1]
		l.moveHead(ctx)
	}
	if l.Written != nil {
		for i := range records {
			l.Written(records[i])
		}
	}
	l.sweep(ctx, l.rowAt)
	return nil
}

// nameOf returns the name of a new row, by the place of its first record in the chain. Within a day names are
// in the order of the chain, or else of time.
func (l *Log) nameOf(seq uint64) string {
	if l.Chained {
		return fmt.Sprintf("%016d", seq)
	}
	l.rows++
	return fmt.Sprintf("%016d-%s-%08d", int64(l.rowAt), l.process, l.rows)
}

// put writes a new row. If the outcome of the write is unknown it reads the row back.
func (l *Log) put(ctx context.Context, row store.Control) error {
	err := l.Rows.PutControl(ctx, row)
	if errors.Is(err, store.ErrUnknown) {
		if _, readErr := l.Rows.Control(ctx, row.Kind, row.Name); readErr == nil {
			return nil
		}
	}
	return err
}

func kindOf(at task.Instant) string { return at.Time().UTC().Format(kindForm) }

// sweep deletes records that are older than Keep, once a day. The next sweep tries again what it cannot
// delete.
func (l *Log) sweep(ctx context.Context, now task.Instant) {
	today := kindOf(now)
	if l.swept == today {
		return
	}
	l.swept = today
	for day := range sweepDays {
		old := now.Add(-l.Keep - time.Duration(day+1)*24*time.Hour)
		rows, err := l.Rows.Controls(ctx, kindOf(old))
		if err != nil {
			l.Log.WarnContext(ctx, "cannot delete old audit records", slog.Any("error", err))
			l.swept = ""
			return
		}
		for _, row := range rows {
			_ = l.Rows.DeleteControl(ctx, row)
		}
	}
}
