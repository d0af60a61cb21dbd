package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// fixture is a log over a store in memory, in virtual time.
type fixture struct {
	*testing.T

	clock *clock.Virtual
	rows  *store.Store
	logs  bytes.Buffer
	lost  int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	v := clock.NewVirtual(task.InstantOf(time.Date(2026, 11, 23, 23, 59, 50, 0, time.UTC)), 1)
	return &fixture{T: t, clock: v, rows: store.New(mem.New(), store.Config{Clock: v.Process(0)})}
}

// open returns the log of a process.
func (f *fixture) open(chained bool) *Log {
	ring, err := task.NewKeyring(task.Ring{Keys: []task.Key{{Number: 1, Secret: bytes.Repeat([]byte("a"), task.TokenKeyBytes)}}, Seals: 1})
	if err != nil {
		f.Fatal(err)
	}
	return New(Config{
		Pages: ring.Pages(),
		Rows:  f.rows, Clock: f.clock.Process(0), Log: slog.New(slog.NewTextHandler(&f.logs, nil)), Chained: chained,
		Lost: func(n int) { f.lost += n },
	})
}

func (f *fixture) all(l *Log) []Record {
	f.Helper()
	var all []Record
	after := ""
	for {
		page, next, err := l.List(f.Context(), 0, f.clock.Now().Add(48*time.Hour), after, 3)
		if err != nil {
			f.Fatal(err)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		after = next
	}
}

func (f *fixture) verify(l *Log) Verification {
	f.Helper()
	v, err := l.Verify(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return v
}

func TestRecordsAreListedInOrderOverDays(t *testing.T) {
	for _, chained := range []bool{true, false} {
		f := newFixture(t)
		l := f.open(chained)
		for i := range 8 {
			l.Note(t.Context(), Record{Identity: "ops", From: "::1\xff", Action: "lambda.update", Target: fmt.Sprint(i), Outcome: OK, Before: `{"a":"<1>"}`})
			f.clock.Advance(5 * time.Second) // over midnight
		}
		for i, r := range f.all(f.open(chained)) {
			if r.Target != fmt.Sprint(i) || r.From != "::1\uFFFD" || r.Before != `{"a":"\u003c1\u003e"}` || r.Count != 1 || (r.Seq != 0) != chained {
				t.Errorf("record %d is %+v", i, r)
			}
		}
		if n := len(f.all(l)); n != 8 {
			t.Errorf("%d records, want 8", n)
		}
		var newest []string
		for after, more := "", true; more; more = after != "" {
			page, next, err := l.ListNewest(t.Context(), 0, f.clock.Now(), after, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				newest = append(newest, r.Target)
			}
			if after == "" { // what comes later is on no later page
				l.Note(t.Context(), Record{Identity: "ops", Action: "lambda.update", Target: "later", Outcome: OK})
			}
			after = next
		}
		if got := strings.Join(newest, " "); got != "7 6 5 4 3 2 1 0" {
			t.Errorf("newest first: %s", got)
		}
		since, _, err := l.List(t.Context(), f.clock.Now().Add(-12*time.Second), f.clock.Now(), "", 10)
		if err != nil || len(since) != 2 {
			t.Errorf("of 12 s: %d records, %v, want 2", len(since), err)
		}
		_, next, err := l.List(t.Context(), 0, f.clock.Now(), "", 3)
		if err != nil || next == "" {
			t.Fatalf("%q, %v", next, err)
		}
		bare := kindOf(f.clock.Now()) + "/" + l.process + "-1" + "/0"
		for what, after := range map[string]string{
			"nonsense": "nonsense", "a position": bare, "an encoded position": base64.RawURLEncoding.EncodeToString([]byte(bare)), "JSON": "{}",
			"cut": next[:len(next)-1], "changed": "B" + next[1:],
		} {
			if _, _, err := l.List(t.Context(), 0, f.clock.Now(), after, 10); !errors.Is(err, task.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, _, err := l.ListNewest(t.Context(), 0, f.clock.Now(), next, 10); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("a cursor of the other order: %v", err)
		}
	}
}

func TestWhatIsDoneOftenBecomesOneRecord(t *testing.T) {
	f := newFixture(t)
	l := f.open(true)
	for range 500 {
		l.NoteOften(Record{Identity: "shop", Action: "task.cancel", Target: "mail", Outcome: OK, Count: 2})
	}
	l.NoteOften(Record{Identity: "shop", Action: "task.cancel", Target: "other", Outcome: Denied})
	all := f.all(l) // what is merged is written before it is listed
	if len(all) != 2 || all[0].Count+all[1].Count != 1001 {
		t.Errorf("%+v", all)
	}
	for i := range 1000 { // of nobody, and of one whose token was revoked
		l.NoteOften(Record{From: fmt.Sprint(i), Action: "call", Target: fmt.Sprint("/", i), Outcome: Unauthenticated})
		l.NoteOften(Record{Identity: "gone", From: fmt.Sprint(i), Action: "call", Target: fmt.Sprint("/", i), Outcome: Unauthenticated})
	}
	all = f.all(l)
	rest := slices.IndexFunc(all, func(r Record) bool { return r.Target == others })
	if len(all) != 2+2*(refusalsBurstMax+1) || rest < 0 || all[rest].Count != 1000-refusalsBurstMax {
		t.Errorf("of strangers: %+v", all[2:])
	}
	l.forgive()
	for i := range 100 { // who was refused much a moment ago may be refused less
		l.NoteOften(Record{From: fmt.Sprint(i), Action: "call", Target: fmt.Sprint("/", i), Outcome: Unauthenticated})
	}
	if more := f.all(l)[len(all):]; len(more) != refusalsMax+1 {
		t.Errorf("%d records of more refusals, want %d and one for the others", len(more), refusalsMax)
	}
	if testing.Short() {
		return // what follows writes thousands of records
	}
	all = f.all(l)
	written := len(all)
	for i := range mergedMax + 7 {
		l.NoteOften(Record{Identity: "shop", Action: "call", Target: fmt.Sprint(i), Outcome: OK})
	}
	l.Flush(t.Context())
	if n := len(f.all(l)); n != written+mergedMax || f.lost != 7 {
		t.Errorf("%d records, and %d acts lost, want %d and 7", n, f.lost, written+mergedMax)
	}
	if v := f.verify(l); v.Problem != "" {
		t.Error(v.Problem)
	}
}

// A merged record does not come behind what was done later.
func TestRecordsAreInTheOrderOfTime(t *testing.T) {
	for _, chained := range []bool{true, false} {
		f := newFixture(t)
		l := f.open(chained)
		for i := range 20 {
			l.NoteOften(Record{Identity: "shop", Action: "task.cancel", Target: fmt.Sprint(i), Outcome: Denied})
			f.clock.Advance(time.Millisecond)
			l.Note(t.Context(), Record{Identity: "ops", Action: "a", Target: fmt.Sprint(i), Outcome: OK})
			f.clock.Advance(time.Millisecond)
		}
		all := f.all(l)
		if len(all) != 40 || !slices.IsSortedFunc(all, func(a, b Record) int { return cmp.Compare(a.At, b.At) }) {
			t.Errorf("%d records: %+v", len(all), all)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	f := newFixture(t)
	l := f.open(true)
	l.Note(t.Context(), Record{Identity: "a", Target: strings.Repeat("ü", 5000), After: `"` + strings.Repeat("x", changeBytesMax) + `"`, Before: "{no json"})
	r := f.all(l)[0]
	if len(r.Target) > textBytesMax+4 || r.After != `"too long"` || r.Before != `"too long"` {
		t.Errorf("target of %d bytes, after %.30s, before %s", len(r.Target), r.After, r.Before)
	}
}

func TestTheChainGoesOnAfterARestart(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		l := f.open(true)
		l.Note(t.Context(), Record{Identity: "ops", Action: "a", Target: fmt.Sprint(i), Outcome: OK})
		if i == 1 { // as if the process had ended before it wrote the head
			row, err := f.rows.Control(t.Context(), headKind, headName)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.rows.DeleteControl(t.Context(), row); err != nil {
				t.Fatal(err)
			}
		}
		f.clock.Advance(time.Minute)
	}
	if v := f.verify(f.open(true)); v.Problem != "" || v.Records != 3 || v.First != 1 || v.Last != 3 {
		t.Errorf("%+v", v)
	}
}

func TestEveryChangeOfTheChainIsNoticed(t *testing.T) {
	edit := func(change func(*Record)) func(*fixture, store.Control) {
		return func(f *fixture, row store.Control) {
			records, err := decode(&row)
			if err != nil {
				f.Fatal(err)
			}
			change(&records[0])
			row.Value, err = json.Marshal(records)
			if err != nil {
				f.Fatal(err)
			}
			row.Version++
			if err := f.rows.PutControl(f.Context(), row); err != nil {
				f.Fatal(err)
			}
		}
	}
	remove := func(f *fixture, row store.Control) {
		if err := f.rows.DeleteControl(f.Context(), row); err != nil {
			f.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		at   int // which of five
		how  func(*fixture, store.Control)
		says string
	}{
		"identity":     {2, edit(func(r *Record) { r.Identity = "somebody" }), "record 3 is not the one"},
		"outcome":      {0, edit(func(r *Record) { r.Outcome = Denied }), "record 1 is not the one"},
		"time":         {4, edit(func(r *Record) { r.At++ }), "record 5 is not the one"},
		"count":        {1, edit(func(r *Record) { r.Count = 9 }), "record 2 is not the one"},
		"after":        {1, edit(func(r *Record) { r.After = `{}` }), "record 2 is not the one"},
		"a hash":       {2, edit(func(r *Record) { r.Hash[0]++ }), "record 3 is not the one"},
		"a place":      {2, edit(func(r *Record) { r.Seq = 7 }), "record 2 is followed by record 7"},
		"one is gone":  {2, remove, "record 2 is followed by record 4"},
		"last is gone": {4, remove, "ends with record 4, and 5 was written last"},
		"no JSON": {3, func(f *fixture, row store.Control) {
			row.Value, row.Version = []byte("x"), row.Version+1
			_ = f.rows.PutControl(f.Context(), row)
		}, "after record 3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			l := f.open(true)
			for i := range 5 {
				l.Note(t.Context(), Record{Identity: "ops", From: "::1", Action: "act", Target: fmt.Sprint(i), Outcome: OK})
			}
			if v := f.verify(l); v.Problem != "" || v.Records != 5 || v.Last != 5 {
				t.Fatalf("untouched: %+v", v)
			}
			rows, err := f.rows.Controls(t.Context(), kindOf(f.clock.Now()))
			if err != nil || len(rows) != 5 {
				t.Fatal(len(rows), err)
			}
			c.how(f, rows[c.at])
			if v := f.verify(l); !strings.Contains(v.Problem, c.says) {
				t.Errorf("this process says %q, want %q", v.Problem, c.says)
			}
			if v, err := f.open(true).Verify(t.Context()); err == nil && v.Problem == "" {
				t.Error("after a restart nothing is wrong")
			}
		})
	}
}

func TestOldRecordsAreDeletedAndTheRestIsStillVerified(t *testing.T) {
	f := newFixture(t)
	l := f.open(true)
	for range 5 {
		l.Note(t.Context(), Record{Identity: "ops", Action: "act", Outcome: OK})
		f.clock.Advance(30 * 24 * time.Hour)
	}
	l.Note(t.Context(), Record{Identity: "ops", Action: "act", Outcome: OK})
	v := f.verify(l)
	if v.Problem != "" || v.First < 2 || v.Last != 6 || v.Records != int64(v.Last-v.First+1) {
		t.Errorf("%+v, want the last records up to 6", v)
	}
	if _, err := f.open(false).Verify(t.Context()); !errors.Is(err, ErrNotChained) {
		t.Errorf("unchained: %v", err)
	}
}

// failing is a store that refuses writes of records.
type failing struct {
	*store.Store

	err   error
	write bool // although it says otherwise
}

func (s failing) PutControl(ctx context.Context, c store.Control) error {
	if !strings.HasPrefix(c.Kind, kindPrefix) {
		return s.Store.PutControl(ctx, c)
	}
	if s.write {
		if err := s.Store.PutControl(ctx, c); err != nil {
			return err
		}
	}
	return s.err
}

func TestARecordThatCannotBeStoredIsLoggedAndCounted(t *testing.T) {
	f := newFixture(t)
	l := f.open(true)
	l.Rows = failing{f.rows, store.ErrFull, false}
	l.Note(t.Context(), Record{Identity: "ops", Action: "lambda.delete", Target: "mail", Outcome: OK})
	if f.lost != 1 || !strings.Contains(f.logs.String(), "lambda.delete") {
		t.Errorf("%d lost, log %s", f.lost, f.logs.String())
	}
	l.Rows = failing{f.rows, store.ErrUnknown, true}
	l.Note(t.Context(), Record{Identity: "ops", Action: "backup", Outcome: OK})
	l.Rows = f.rows
	l.Note(t.Context(), Record{Identity: "ops", Action: "backup", Outcome: OK})
	if v := f.verify(l); v.Problem != "" || v.Records != 2 || f.lost != 1 {
		t.Errorf("%+v, %d lost", v, f.lost)
	}
}
