package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// swarm lists the faults, of which each run has some, and their highest rates.
var swarm = awsfake.Swarm{
	{awsfake.Any, awsfake.Throttled, 0.2},
	{"Statement", awsfake.Throttled, 0.3},
	{awsfake.Any, awsfake.Refused, 0.1},
	{awsfake.Any, awsfake.BrokenAfter, 0.1},
	{awsfake.Any, awsfake.LostRequest, 0.1},
	{awsfake.Any, awsfake.LostAnswer, 0.1},
	{awsfake.Any, awsfake.Stalled, 0.1},
	{"BatchExecuteStatement", awsfake.Partial, 0.2},
	{"BatchExecuteStatement", awsfake.PartialDone, 0.2},
	{"BatchGetItem", awsfake.Partial, 0.3},
}

// TestSwarm has processes compete for rows in a service with all kinds of faults. No state of a row has two
// winners, no process reads an older row than before, what was acknowledged is there in the end, and every
// live task row has the wake-up row that it names. Without a Store above the driver every state has a winner,
// whose result was success or unknown. (A Store that reads back takes a write for lost when another has
// followed it.)
func TestSwarm(t *testing.T) {
	t.Parallel()
	swarm.Run(t, 40, func(t *testing.T, seed uint64) *awsfake.Faults {
		t.Helper()
		r := newRace(t, seed)
		r.run()
		return r.db.Faults
	})
}

// race is one run of the test.
type race struct {
	*testing.T

	v  *clock.Virtual
	db *fakedynamo.DB

	mu      sync.Mutex // guards all below
	random  *rand.Rand
	bare    bool             // without a Store
	winners map[win][]string // "a", or "a?" for one that cannot tell
	wakeups map[int]string   // "there", "gone", or "?" for either
}

// win names a state of a row.
type win struct {
	row string
	seq uint64
}

const (
	processes  = 3
	racers     = 12
	raceRows   = 4
	raceRounds = 25
	// firstWakeup separates the ids of wake-up rows from those of task rows.
	firstWakeup = 1000
	// firstMoved is the first id of the tasks that move, of which each racer has one.
	firstMoved = 2000
)

func newRace(t *testing.T, seed uint64) *race {
	t.Helper()
	v := clock.NewVirtual(epoch, seed)
	v.Settle(synctest.Wait)
	first := openFake(t, fakedynamo.Config{Clock: v.Process(0), Seed: seed, BaseLag: 5 * time.Second, IndexLag: 5 * time.Second}, dynamo.Config{})
	r := &race{T: t, v: v, db: first.db, random: rand.New(rand.NewPCG(seed, 7)), winners: map[win][]string{}, wakeups: map[int]string{}}
	r.bare = seed%2 == 0
	swarm.Begin(r.db.Faults, r.random)
	return r
}

func (r *race) run() {
	r.Helper()
	var wg sync.WaitGroup
	var drivers []*dynamo.Driver
	for range processes {
		d := dynamo.New(r.db, dynamo.Config{Prefix: fakePrefix, Clock: r.v.Process(0), RequestsMax: 3}) // for full batches
		r.Cleanup(func() { _ = d.Close() })
		drivers = append(drivers, d)
	}
	for n := range racers {
		d := drivers[n%processes]
		p := &racer{race: r, name: string(rune('a' + n)), driver: d, store: store.New(d, store.Config{Clock: r.v.Process(0)}), seen: map[int]uint64{}}
		wg.Go(func() { p.run(n) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for range 100_000 {
		synctest.Wait()
		select {
		case <-done:
			r.db.Faults.Off()
			r.judge()
			return
		default:
			r.v.Advance(20 * time.Millisecond)
		}
	}
	r.Fatal("the race does not end")
}

// roll draws a number in [0, n).
func (r *race) roll(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// racer is one process.
type racer struct {
	*race

	name   string
	driver *dynamo.Driver
	store  *store.Store
	seen   map[int]uint64 // the latest state of each task row
}

func (p *racer) run(n int) {
	for round := range raceRounds {
		row := p.roll(raceRows)
		switch p.roll(4) {
		case 0:
			p.advanceTask(row)
		case 1:
			p.advanceControl(row)
		case 2:
			p.move(firstMoved + n)
		default:
			p.queue(n*raceRounds + round)
		}
	}
}

// note records the result of a write.
func (p *racer) note(row string, seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.winners[win{row, seq}] = append(p.winners[win{row, seq}], p.name)
	case errors.Is(err, store.ErrUnknown):
		p.winners[win{row, seq}] = append(p.winners[win{row, seq}], p.name+"?")
	case !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrThrottled):
		p.Errorf("write of %s: %v", row, err)
	}
}

func (p *racer) apply(op store.Op) error {
	apply := p.store.Apply
	if p.bare {
		apply = p.driver.Apply
	}
	results, err := apply(context.Background(), []store.Op{op})
	if results == nil {
		return err
	}
	return results[0]
}

// advanceTask reads the task rows and writes the next state of one.
func (p *racer) advanceTask(row int) {
	wake := epoch.Add(time.Duration(1+p.roll(1000)) * time.Millisecond)
	var ids []task.ID
	for n := range raceRows {
		op := taskRow(n, hot, wake)
		ids = append(ids, op.Task.ID)
	}
	rows, err := p.store.Tasks(context.Background(), ids)
	if err != nil {
		return
	}
	for n := range rows {
		if now := rows[n].Seq; now < p.seen[n] {
			p.Errorf("%s read task %d at seq %d after seq %d", p.name, n, now, p.seen[n])
		}
		p.seen[n] = rows[n].Seq
	}
	op := taskRow(row, hot, wake)
	if !rows[row].ID.IsZero() {
		op.Kind, op.Task.Seq = store.ReplaceTask, rows[row].Seq+1
	}
	op.Task.Worker = p.name
	p.note(fmt.Sprint("task ", row), op.Task.Seq, p.apply(op))
}

// move stores a task, moves it to one of a few instants, or ends it.
func (p *racer) move(n int) {
	ops := store.FirstWithRow(taskRow(n, hot, epoch).Task)
	rows, err := p.store.Tasks(context.Background(), []task.ID{ops[0].Task.ID})
	if err != nil {
		return
	}
	switch now := rows[0]; {
	case now.State.IsEnd():
		return
	case !now.ID.IsZero() && p.roll(16) == 0:
		ops = store.Change(over(now, task.Success, epoch), false, true)
	case !now.ID.IsZero():
		ops = store.Change(step(now, task.RetriableFailure, epoch.Add(time.Duration(1+p.roll(3))*time.Second)), true, true)
	}
	apply := p.store.Apply
	if p.bare {
		apply = p.driver.Apply
	}
	results, err := apply(context.Background(), ops)
	for i := range results {
		if result := results[i]; result != nil && !errors.Is(result, store.ErrUnknown) && !errors.Is(result, store.ErrConflict) &&
			!errors.Is(result, store.ErrThrottled) && !errors.Is(result, store.ErrSkipped) {
			p.Errorf("op %d on task %d: %v", i, n, result)
		}
	}
	if err != nil && p.bare {
		p.Error(err)
	}
}

// judgeMoved checks that each live task has its wake-up row.
func (r *race) judgeMoved(d *dynamo.Driver) {
	r.Helper()
	live := 0
	for n := range racers {
		op := taskRow(firstMoved+n, hot, epoch)
		rows, err := d.Tasks(context.Background(), []task.ID{op.Task.ID})
		if err != nil {
			r.Fatal(err)
		}
		if rows[0].ID.IsZero() || rows[0].State.IsEnd() {
			continue
		}
		live++
		wakeups, err := d.Wakeups(context.Background(), []store.WakeKey{store.KeyOf(&rows[0])})
		if err != nil || wakeups[0].ID.IsZero() || wakeups[0].WakeRow.Seq < rows[0].WakeRow.Seq {
			r.Errorf("%v: task %d names the wake-up row %+v, there is %+v", err, n, rows[0].WakeRow, wakeups[0])
		}
	}
	if live == 0 {
		r.Error("no task is live")
	}
}

func (p *racer) advanceControl(row int) {
	name := fmt.Sprint(row)
	current, err := p.store.Control(context.Background(), "race", name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return
	}
	c := store.Control{Kind: "race", Name: name, Version: current.Version + 1, Value: []byte(p.name)}
	p.note("control "+name, c.Version, p.apply(store.Op{Kind: store.PutControl, Control: c}))
}

// queue puts a wake-up row and sometimes deletes it.
func (p *racer) queue(n int) {
	op := wakeupRow(firstWakeup+n, hot, 10)
	outcome := func(err error, is, isNot string) string {
		switch {
		case err == nil:
			return is
		case errors.Is(err, store.ErrUnknown):
			return "?"
		}
		return isNot
	}
	state := outcome(p.apply(op), "there", "gone")
	if state == "there" && p.roll(2) == 0 {
		op.Kind = store.DeleteWakeup
		state = outcome(p.apply(op), "gone", "there")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeups[n] = state
}

func (r *race) judge() {
	r.Helper()
	d := dynamo.New(r.db, dynamo.Config{Prefix: fakePrefix, Clock: r.v.Process(0)})
	defer func() { _ = d.Close() }()
	for w, names := range r.winners {
		known := 0
		for _, name := range names {
			if len(name) == 1 {
				known++
			}
		}
		if known > 1 {
			r.Errorf("%s at seq %d was won by %v", w.row, w.seq, names)
		}
	}
	r.judgeRows(d)
	r.judgeMoved(d)
	rows, err := d.ScanSchedule(context.Background(), hot, store.WakeKey{}, epoch.Add(time.Hour), store.ScanMax)
	if err != nil {
		r.Fatal(err)
	}
	there := map[task.ID]bool{}
	for i := range rows {
		there[rows[i].ID] = true
	}
	for n, state := range r.wakeups {
		op := wakeupRow(firstWakeup+n, hot, 0)
		if is := there[op.Task.ID]; state != "?" && is != (state == "there") {
			r.Errorf("wake-up row %d is there %v, want %s", n, is, state)
		}
	}
}

// judgeRows compares the final rows with the recorded winners.
func (r *race) judgeRows(d *dynamo.Driver) {
	r.Helper()
	for row := range raceRows {
		op := taskRow(row, hot, 1)
		tasks, err := d.Tasks(context.Background(), []task.ID{op.Task.ID})
		if err != nil {
			r.Fatal(err)
		}
		r.judgeRow(fmt.Sprint("task ", row), tasks[0].Seq, tasks[0].Worker)
		controls, err := d.Controls(context.Background(), "race", fmt.Sprint(row))
		if err != nil {
			r.Fatal(err)
		}
		for _, c := range controls {
			r.judgeRow(fmt.Sprint("control ", row), c.Version, string(c.Value))
		}
	}
}

func (r *race) judgeRow(row string, last uint64, owner string) {
	r.Helper()
	for seq := uint64(1); seq <= last; seq++ {
		if r.bare && len(r.winners[win{row, seq}]) == 0 {
			r.Errorf("%s came to seq %d, which nobody wrote", row, seq)
		}
	}
	if names := r.winners[win{row, last + 1}]; len(names) > 0 && len(names[0]) == 1 {
		r.Errorf("%s is at seq %d in the end, but %v wrote the next", row, last, names)
	}
	for _, name := range r.winners[win{row, last}] {
		if name == owner || name == owner+"?" {
			return
		}
	}
	if last > 0 && r.bare {
		r.Errorf("%s is %s's at seq %d, which was won by %v", row, owner, last, r.winners[win{row, last}])
	}
}
