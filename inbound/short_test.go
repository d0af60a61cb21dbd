package inbound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/task"
)

// short returns what an id, or the beginning of one, stands for.
func (f *fixture) short(id string) (string, error) {
	whole, err := f.WholeIDs(f.ctx, []string{id})
	if err != nil {
		return "", err
	}
	return whole[0], nil
}

// Wherever a task is, the beginning of its id stands for it as soon as no other id begins so.
func TestTheBeginningOfAnIDStandsForTheTask(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		waits, keyed, sent := f.accept(in(time.Hour)), f.accept(named("mail", "order", time.Hour)), f.accept(in(0))
		ended := f.accept(in(time.Minute))
		if err := f.dispatch(ended); err != nil {
			t.Fatal(err)
		}
		f.claim(ended)
		f.finish(ended, task.OutcomeSuccess)
		moved := f.accept(in(time.Hour))
		f.reschedule(moved, 2*time.Hour, 0)
		all := []string{waits, keyed, sent, ended, moved}
		chars := api.ShortIDChars(all)
		for i, id := range all {
			for _, n := range []int{chars, 23, 40, len(id) - 1} {
				if got, err := f.short(id[:n]); got != id || err != nil {
					t.Errorf("task %d, %d characters: %q, %v", i, n, got, err)
				}
			}
		}
		others := []string{keyed[:api.ShortIDCharsMin], "", waits, waits + "A", "nonsense", "q1" + waits[2:30], "k1AAAAAAAAAA", keyed[:20] + "A", "k1 " + waits[3:20]}
		got, err := f.WholeIDs(f.ctx, others)
		if want := append([]string{keyed}, others[1:]...); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, want %q: %v", got, want, err)
		}
		_, err = f.short(waits[:api.ShortIDCharsMin-1])
		wantError(t, "too short", err, isInvalid, "at least its first 10 characters")
	})
}

// Tasks of one call are made in one millisecond, with which their ids begin.
func TestASharedBeginningIsRefusedWithWhatItMayMean(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		var ids []string
		for range 7 {
			ids = append(ids, f.accept(in(time.Hour)))
		}
		_, err := f.short(ids[0][:api.ShortIDCharsMin])
		wantError(t, "of seven", err, isInvalid, "and others; want more of one")
		named := 0
		for _, id := range ids {
			if strings.Contains(err.Error(), id) {
				named++
			}
		}
		if named != 5 {
			t.Errorf("names %d of them: %v", named, err)
		}
		for _, id := range ids {
			if got, err := f.short(id[:api.ShortIDChars(ids)]); got != id || err != nil {
				t.Errorf("%s: %s, %v", id, got, err)
			}
		}
	})
}

// Whoever may not read a task does not learn from the beginning of its id that there is one.
func TestABeginningTellsNothingOfTasksThatOneMayNotRead(t *testing.T) {
	run(t, func(f *fixture) {
		secret := f.accept(with(in(time.Hour), func(i *item) { i.Collection = "theirs" }))
		open := f.accept(with(in(time.Hour), func(i *item) { i.Collection = "mine" }))
		for _, grants := range [][]string{{"read:mail:mine"}, {"read:mail:mine", "cancel:mail"}} {
			f.as(grants...)
			for i, id := range []string{secret, open} {
				short := id[:api.ShortIDChars([]string{secret, open})]
				if got, err := f.short(short); err != nil || (got == id) != (i == 1) || i == 0 && got != short {
					t.Errorf("%v, task %d: %q, %v", grants, i, got, err)
				}
			}
			if got, err := f.short(open[:api.ShortIDCharsMin]); got != open || err != nil {
				t.Errorf("%v: the other task makes it ambiguous: %q, %v", grants, got, err)
			}
		}
	})
}

func TestTheSearchForAnIDIsBounded(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		id := f.accept(in(time.Minute))
		var more []*kinesinv1.ScheduleItem
		for i := range 9000 {
			more = append(more, named("mail", fmt.Sprint(i), time.Hour))
		}
		for some := range slices.Chunk(more, 1000) {
			f.schedule(some...)
		}
		if got, err := f.short(id[:20]); got != id || err != nil {
			t.Errorf("got %q, want %q: %v", got, id, err)
		}
		c := f.Config
		c.Store = metered{f.rows}
		_, err := inbound.New(c).WholeIDs(f.ctx, []string{id[:20]})
		wantError(t, "where reads cost money", err, kinesinv1.Reason_REASON_UNSUPPORTED, "at most 8000 tasks", "whole id")
	})
}
