package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// cronLambda is the one of the occurrences of a cron.
const cronLambda = "ticks"

// Ticks is a cron that fires while the faults are there, and how it is changed meanwhile.
type Ticks struct {
	Every   int // seconds
	Overlap admin.Overlap
	Takes   time.Duration
	Changes []TickChange `json:",omitempty"`
	// Backfills are when what has passed by then is backfilled.
	Backfills []time.Duration `json:",omitempty"`
}

// TickChange changes the cron; Every 0 pauses it for a while.
type TickChange struct {
	At    time.Duration
	Every int
	For   time.Duration
}

// ticksOf draws the cron of a plan, apart from everything else.
func ticksOf(seed uint64, span time.Duration) *Ticks {
	r := rand.New(rand.NewPCG(seed, 11))
	if r.IntN(4) > 0 {
		return nil
	}
	t := &Ticks{
		Every: 1 + r.IntN(9), Overlap: []admin.Overlap{admin.OverlapAllow, admin.OverlapSkip, admin.OverlapQueue, admin.OverlapCancel}[r.IntN(4)], Takes: time.Duration(r.IntN(4000)) * time.Millisecond,
	}
	for range r.IntN(3) {
		t.Changes = append(t.Changes, TickChange{
			At: time.Duration(r.Int64N(int64(span))), Every: r.IntN(5), For: time.Duration(1+r.IntN(20)) * time.Second,
		})
	}
	slices.SortFunc(t.Changes, func(a, b TickChange) int { return int(a.At - b.At) })
	for range r.IntN(3) {
		t.Backfills = append(t.Backfills, time.Duration(r.Int64N(int64(span))))
	}
	return t
}

// waits reports whether occurrences may start late by design: because an earlier one runs, or because they
// were missed in a pause.
func (t *Ticks) waits() bool {
	return t.Overlap == "queue" || t.Overlap == "cancel" || len(t.Changes) > 0
}

// ticks is what became of the occurrences.
type ticks struct {
	w     *world
	plan  *Ticks
	first time.Time // the first nominal time
	since time.Time // when the cron is there

	mu   sync.Mutex
	jobs map[string]time.Time     // backfills, and before which time
	runs map[int64]map[string]int // nominal times in Unix seconds, their tasks, and how many attempts began
	// filled are the nominal times of backfills. After a change they may be none of the revision of that
	// time.
	filled map[int64]bool
}

// openTicks creates the cron.
func (w *world) openTicks(c *client) *ticks {
	t := &ticks{w: w, plan: w.plan.Ticks, runs: map[int64]map[string]int{}, jobs: map[string]time.Time{}, filled: map[int64]bool{}}
	if t.plan == nil {
		return t
	}
	w.insist(func() error {
		_, _, err := admin.New(c.sdk).Lambdas.Create(w.ctx, admin.Lambda{Name: cronLambda, Timeout: time.Hour, MaxAttempts: 1000, PoisonBound: 1000, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
		return err
	})
	now := time.Now()
	t.first = now.Truncate(time.Second)
	w.insist(func() error {
		_, _, err := admin.New(c.sdk).Crons.Create(w.ctx, admin.Cron{
			Name: "ticks", Lambda: cronLambda, Schedule: fmt.Sprintf("@every %ds", t.plan.Every), Overlap: t.plan.Overlap,
			CatchUp: "all", CatchUpMax: 100_000, CatchUpWithin: 300 * 24 * time.Hour, Start: t.first, End: now.Add(w.plan.Heal + 10*time.Second).Truncate(time.Second),
		})
		return err
	})
	t.since = time.Now()
	return t
}

// insist makes a call until it succeeds, or comes too late: the cron has ended.
func (w *world) insist(call func() error) {
	for w.ctx.Err() == nil {
		err := call()
		w.trace.note("operator", "cron: %v", err)
		if err == nil || errors.Is(err, sdk.ErrInvalid) {
			return
		}
		time.Sleep(time.Second)
	}
}

// change makes the changes of the plan.
func (t *ticks) change(c *client) {
	began := time.Now()
	for i, change := range t.plan.Changes {
		time.Sleep(time.Until(began.Add(change.At)))
		if change.Every > 0 {
			t.w.insist(func() error {
				cron, err := admin.New(c.sdk).Crons.Get(t.w.ctx, "ticks")
				if err == nil && cron.Pause == nil {
					cron.Schedule = fmt.Sprintf("@every %ds", change.Every)
					_, err = admin.New(c.sdk).Crons.Update(t.w.ctx, cron)
				}
				return err
			})
			t.w.saw("cron changed")
			continue
		}
		var until time.Time
		if i%2 == 0 {
			until = time.Now().Add(change.For + time.Minute) // in case that nobody resumes it
		}
		t.w.insist(func() error {
			_, err := admin.New(c.sdk).Crons.Pause(t.w.ctx, "ticks", "simulated", admin.CronPauseOptions{Until: until})
			return err
		})
		time.Sleep(change.For)
		t.w.insist(func() error {
			_, err := admin.New(c.sdk).Crons.Resume(t.w.ctx, "ticks")
			return err
		})
		t.w.saw("cron paused")
	}
}

// backfill schedules all that has passed and that did not run, beside what the cron itself schedules.
func (t *ticks) backfill(c *client, after time.Duration) {
	time.Sleep(after)
	to := time.Now()
	t.w.insist(func() error {
		job, err := admin.New(c.sdk).Jobs.Create(t.w.ctx, admin.JobSpec{Action: admin.JobBackfill, Cron: "ticks", From: t.first, To: to})
		if err == nil {
			t.mu.Lock()
			t.jobs[job.ID] = to
			t.mu.Unlock()
		}
		return err
	})
}

// backfills returns the backfills that were begun.
func (t *ticks) backfills() map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.jobs)
}

// filling is how many backfills have not ended.
func (t *ticks) filling(c *client) (live int) {
	for id := range t.backfills() {
		if job, err := admin.New(c.sdk).Jobs.Get(t.w.ctx, id); err != nil || !job.State.IsEnd() {
			live++
		}
	}
	return live
}

// judgeBackfills says whether all ran that a backfill promised. A job fails when the cron was changed
// meanwhile.
func (t *ticks) judgeBackfills(c *client) {
	for id, to := range t.backfills() {
		var job admin.Job
		t.w.insist(func() (err error) {
			job, err = admin.New(c.sdk).Jobs.Get(t.w.ctx, id)
			return err
		})
		t.w.saw("backfill " + string(job.State))
		if len(t.plan.Changes) > 0 {
			continue
		}
		if job.State != admin.JobDone {
			t.w.breach("I19: backfill %s is %s: %s", id, job.State, job.Problem)
		}
		for at := t.first; at.Before(to); at = at.Add(time.Duration(t.plan.Every) * time.Second) {
			t.mu.Lock()
			ran := len(t.runs[at.Unix()]) > 0
			t.mu.Unlock()
			if !ran && t.plan.Overlap != "cancel" && job.Outcomes["waits"] == 0 { // those may be skipped yet
				t.w.breach("I19: occurrence %d did not run, and backfill %s was to run it", at.Unix(), id)
			}
		}
	}
}

// handleTick runs an occurrence.
func (k *worker) handleTick(ctx context.Context, task *sdk.Task[[]byte]) error {
	if k.isDead() || k.step(context.Background(), 0) != nil {
		return errDead
	}
	t, o := k.w.ticks, task.Occurrence
	if o == nil {
		k.w.breach("I19: task %s of a cron is no occurrence", task.ID)
		return nil
	}
	t.mu.Lock()
	at := o.Nominal.Unix()
	if t.runs[at] == nil {
		t.runs[at] = map[string]int{}
	}
	t.runs[at][taskOf(task.ID)]++
	t.filled[at] = t.filled[at] || o.Backfill
	t.mu.Unlock()
	k.w.trace.note(k.name, "occurrence %d of revision %d, task %s attempt %d", at, o.Revision, taskOf(task.ID), task.Attempt)
	if clock.Sleep(ctx, k.clock, t.plan.Takes) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// pending is how many occurrences have not ended.
func (t *ticks) pending(c *client) (live int) {
	if t.plan == nil {
		return 0
	}
	cron, err := admin.New(c.sdk).Crons.Get(t.w.ctx, "ticks")
	if err != nil {
		return 1
	}
	all, err := t.history(c, cron.End)
	if err != nil || time.Now().Before(cron.End.Add(t.w.plan.stepsBack())) { // a server whose clock is behind fires later
		return 1
	}
	for i := range all {
		if all[i].Outcome != "ran" && all[i].Outcome != "skipped" {
			live++
		}
	}
	return live + t.filling(c)
}

// history reads what became of all nominal times until end, a page of the answer's bound at a time.
func (t *ticks) history(c *client, end time.Time) (all []admin.CronOccurrence, err error) {
	const page = 1000
	for {
		next, err := admin.New(c.sdk).Crons.History(t.w.ctx, "ticks", admin.CronHistoryOptions{To: end, Limit: page})
		if err != nil {
			return nil, err
		}
		all = append(all, next...)
		if len(next) < page {
			return all, nil
		}
		end = next[len(next)-1].Nominal.Add(-time.Microsecond)
	}
}

// judge is invariant I19, once all tasks have ended: each nominal time has one task, which ran, unless the
// overlap policy skipped or cancelled it.
func (t *ticks) judge() {
	if t.plan == nil {
		return
	}
	c := t.w.client(4)
	var all []admin.CronOccurrence
	var end time.Time
	t.w.insist(func() error {
		cron, err := admin.New(c.sdk).Crons.Get(t.w.ctx, "ticks")
		if err == nil {
			end = cron.End
			all, err = t.history(c, end)
		}
		return err
	})
	if t.w.plan.stepsBack()+t.w.plan.stepsForward() == 0 {
		t.judgeBackfills(c)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[int64]bool{}
	for _, o := range all {
		at := o.Nominal.Unix()
		if known[at] {
			t.w.breach("I19: two revisions are in charge of %d", at)
		}
		known[at] = true
		ran := len(t.runs[at]) > 0
		switch o.Outcome {
		case "ran":
			if !ran && t.plan.Overlap != "cancel" {
				t.w.breach("I19: occurrence %d is said to have run, and nobody saw it", at)
			}
		case "skipped":
			if t.plan.Overlap != "skip" && t.plan.Overlap != "cancel" && t.w.plan.stepsForward() == 0 {
				t.w.breach("I19: occurrence %d was skipped: %s", at, o.Reason)
			}
		default:
			t.w.breach("I19: occurrence %d of revision %d: %s %s", at, o.Revision, o.Outcome, o.Reason)
		}
		t.w.saw("occurrence " + string(o.Outcome))
	}
	if t.w.plan.stepsBack()+t.w.plan.stepsForward() > 0 {
		return // a server may not see that another revision is in charge
	}
	for at, tasks := range t.runs {
		if len(tasks) > 1 || !known[at] && !t.filled[at] {
			t.w.breach("I19: occurrence %d ran as %d tasks, known: %v", at, len(tasks), known[at])
		}
	}
	if len(t.plan.Changes) == 0 {
		for at := t.first; at.Before(end); at = at.Add(time.Duration(t.plan.Every) * time.Second) {
			if at.After(t.since.Add(10*time.Second)) && !known[at.Unix()] {
				t.w.breach("I19: nothing is known of occurrence %d", at.Unix())
			}
		}
	}
}
