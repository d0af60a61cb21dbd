package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// fires notes when occurrences started: their payload, and how late.
type fires struct {
	mu   sync.Mutex
	seen []string
	runs int // at once now
	most int
	late time.Duration

	wrong    []string    // occurrences that say of themselves what they are not
	previous []time.Time // what they say of the one before
}

func (f *fires) handler(work time.Duration) sdk.Handler {
	return func(ctx context.Context, t *sdk.Task[[]byte]) error {
		now := time.Now()
		nominal, err := time.Parse(time.RFC3339, string(t.Payload))
		if err != nil {
			return err
		}
		if o := t.Occurrence; o == nil || o.Cron != "tick" || !o.Nominal.Equal(nominal) || o.Revision == 0 || !o.PreviousSuccess.Before(nominal) {
			f.wrong = append(f.wrong, fmt.Sprintf("%s: %+v", t.Payload, o))
		}
		f.mu.Lock()
		f.previous = append(f.previous, t.Occurrence.PreviousSuccess)
		f.seen = append(f.seen, nominal.UTC().Format("15:04:05"))
		f.runs++
		f.most, f.late = max(f.most, f.runs), max(f.late, now.Sub(nominal))
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			f.runs--
			f.mu.Unlock()
		}()
		select {
		case <-time.After(work):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fires) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.seen)
	return strings.Join(f.seen, " ")
}

// cron stores a cron by a node that fires each ten seconds, unless change says otherwise.
func (r *rig) cron(i int, change func(s *cron.Spec)) {
	r.Helper()
	l, err := r.nodes[i].node.catalog.Find(r.ctx, "mail")
	if err != nil {
		r.Fatal(err)
	}
	now := task.InstantOf(time.Now())
	_, err = r.nodes[i].node.firing.Change(r.ctx, "tick", func(c *cron.Cron) (control.Do, error) {
		*c = cron.Cron{Name: "tick", Lambda: "mail", Ref: l.Ref, Created: now, Updated: now, Revisions: []cron.Revision{{
			Number: 1, From: now, Spec: cron.Spec{Schedule: "*/10 * * * * *", Class: 1, Payload: []byte("{{nominal}}")},
		}}}
		if change != nil {
			change(&c.Revisions[0].Spec)
		}
		return control.Store, nil
	})
	if err != nil {
		r.Fatal(err)
	}
}

func TestACronFires(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inRig(t, drivers{}, nodes, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail"})
				var f fires
				r.work(r.nodes[0], "mail", f.handler(time.Second), sdk.Slots(5))
				r.cron(nodes-1, nil)
				time.Sleep(61 * time.Second)
				if got, want := f.all(), "00:00:10 00:00:20 00:00:30 00:00:40 00:00:50 00:01:00"; got != want || f.late > 100*time.Millisecond {
					t.Errorf("fired %s, want %s; %v late", got, want, f.late)
				}
				if n := len(f.previous); len(f.wrong) > 0 || f.previous[n-1].UTC().Format("15:04:05") != "00:00:50" || !f.previous[0].IsZero() {
					t.Errorf("%v, %v", f.wrong, f.previous)
				}
			})
		})
	}
}

func TestWhatOverlaps(t *testing.T) {
	for _, c := range []struct {
		overlap cron.Overlap
		want    string
		most    int
	}{
		{cron.OverlapSkip, "00:00:10 00:00:40", 1},
		{cron.OverlapAllow, "00:00:10 00:00:20 00:00:30 00:00:40 00:00:50 00:01:00", 3},
		{cron.OverlapQueue, "00:00:10 00:00:30 00:01:00", 1},
		{cron.OverlapCancel, "00:00:10 00:00:20 00:00:30 00:00:40 00:00:50 00:01:00", 1},
		{cron.OverlapReplace, "00:00:10 00:00:30 00:01:00", 1},
	} {
		t.Run(string(c.overlap), func(t *testing.T) {
			inRig(t, drivers{}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail"})
				var f fires
				r.work(r.nodes[0], "mail", f.handler(25*time.Second), sdk.Slots(5))
				r.cron(0, func(s *cron.Spec) { s.Overlap = c.overlap })
				time.Sleep(64 * time.Second)
				if got := f.all(); got != c.want || f.most != c.most {
					t.Errorf("fired %s, %d at once; want %s, %d", got, f.most, c.want, c.most)
				}
			})
		})
	}
}

// change changes the cron by what is stored.
func (r *rig) change(change func(c *cron.Cron, now task.Instant) error) {
	r.Helper()
	_, err := r.nodes[0].node.firing.Change(r.ctx, "tick", func(c *cron.Cron) (control.Do, error) {
		c.Updated = task.InstantOf(time.Now())
		return control.Store, change(c, c.Updated)
	})
	if err != nil {
		r.Fatal(err)
	}
}

// A change does not forget an occurrence that runs, though the last occurrence before the change was skipped.
func TestAnOccurrenceThatOutlivesChanges(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var f fires
		r.work(r.nodes[0], "mail", f.handler(95*time.Second), sdk.Slots(5))
		began := time.Now().Truncate(time.Minute)
		r.cron(0, nil)
		recollect := func(name string) func(c *cron.Cron, now task.Instant) error {
			return func(c *cron.Cron, now task.Instant) error {
				s := c.Now().Spec
				s.Collection, s.Class = name, 3-s.Class
				return c.Change(s, now)
			}
		}
		for at, change := range slices.All([]func(c *cron.Cron, now task.Instant) error{
			recollect("one"),
			recollect("two"),
			func(c *cron.Cron, now task.Instant) error {
				return c.PauseAt(cron.Pause{Reason: "test", At: now}, now)
			},
			(*cron.Cron).Resume,
		}) {
			time.Sleep(time.Until(began.Add(32*time.Second + time.Duration(at)*10*time.Second)))
			r.change(change)
		}
		time.Sleep(time.Until(began.Add(220 * time.Second)))
		if got, want := f.all(), "00:00:10 00:01:50 00:03:30"; got != want || f.most != 1 {
			t.Errorf("fired %s, %d at once; want %s, 1", got, f.most, want)
		}
		if previous := f.previous[1].UTC().Format("15:04:05"); previous != "00:00:10" {
			t.Errorf("the previous success is of %s", previous)
		}
	})
}

func TestAPausedCron(t *testing.T) {
	for _, until := range []time.Duration{0, 45 * time.Second} {
		t.Run(until.String(), func(t *testing.T) {
			inRig(t, drivers{}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail"})
				var f fires
				r.work(r.nodes[0], "mail", f.handler(time.Second), sdk.Slots(5))
				began := time.Now().Truncate(time.Minute)
				r.cron(0, nil)
				time.Sleep(time.Until(began.Add(12 * time.Second)))
				r.change(func(c *cron.Cron, now task.Instant) error {
					p := cron.Pause{Reason: "db maintenance", At: now}
					if until > 0 {
						p.Until = now.Add(until)
					}
					return c.PauseAt(p, now)
				})
				time.Sleep(time.Until(began.Add(58 * time.Second)))
				if until == 0 {
					if got, want := f.all(), "00:00:10"; got != want {
						t.Errorf("fired %s while it was paused, want %s", got, want)
					}
					r.change((*cron.Cron).Resume)
				}
				time.Sleep(time.Until(began.Add(82 * time.Second)))
				// The last one of the pause is caught up with, unless the next is due when its end is seen.
				got, want := f.all(), "00:00:10 00:00:50 00:01:00 00:01:10 00:01:20"
				if until > 0 {
					got, want = strings.Replace(got, "00:00:50 ", "", 1), strings.Replace(want, "00:00:50 ", "", 1)
				}
				if got != want {
					t.Errorf("fired %s, want %s", got, want)
				}
			})
		})
	}
}

func TestFailuresPauseACron(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", MaxAttempts: 1})
		var f fires
		r.work(r.nodes[0], "mail", func(ctx context.Context, t *sdk.Task[[]byte]) error {
			return errors.Join(f.handler(0)(ctx, t), errors.New("not this time"))
		})
		r.cron(0, func(s *cron.Spec) { s.FailuresMax = 3 })
		time.Sleep(2 * time.Minute)
		if got, want := f.all(), "00:00:10 00:00:20 00:00:30"; got != want {
			t.Errorf("fired %s, want %s", got, want)
		}
		c, err := cron.NewBook(r.nodes[0].node.firing.Store, r.nodes[0].node.firing.Clock).Find(r.ctx, "tick")
		if err != nil || c.Now().Pause == nil || !strings.Contains(c.Now().Pause.Reason, "3 occurrences in a row") {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
