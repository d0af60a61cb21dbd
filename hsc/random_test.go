package hsc

import (
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// fickle is a worker that runs what it gets for a random time, ends it in a random way, and
// reports until it is acknowledged. Its connection breaks now and then.
type fickle struct {
	*fixture

	id     string
	random *rand.Rand
	slots  int

	mu      sync.Mutex
	holding map[attempt]*kinesinv1.Claimed // not acknowledged
	results map[attempt]*kinesinv1.Result  // of those that ended
	running map[task.ID]bool
	ended   map[task.ID][]uint32 // attempts whose handler ended with success
}

// line is one connection of a fickle worker.
type line struct {
	worker   *fickle
	requests chan *kinesinv1.WorkRequest
	over     chan struct{}
	cut      chan struct{}
	cutOnce  sync.Once
}

var errCut = errors.New("connection cut")

func (l *line) Receive() (*kinesinv1.WorkRequest, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.cut:
	case <-l.over:
	}
	return nil, errCut
}

func (l *line) Send(r *kinesinv1.WorkResponse) error {
	select {
	case <-l.cut:
		return errCut
	default:
	}
	l.worker.take(l, r)
	return nil
}

// take starts tasks and handles acks.
func (w *fickle) take(l *line, r *kinesinv1.WorkResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range r.GetAcks() {
		id, _ := idOf(a.GetTask())
		try := attempt{id, a.GetAttempt()}
		switch {
		case w.holding[try] == nil: // acknowledged twice
		case a.GetProblem().GetReason() == kinesinv1.Reason_REASON_UNAVAILABLE:
			w.resend(l, try)
		case a.GetProblem() != nil:
			w.Errorf("a living worker's report was refused: %v", a)
		default:
			delete(w.holding, try)
			delete(w.results, try)
		}
	}
	for _, c := range r.GetTasks() {
		if w.running[id(c)] {
			w.Errorf("task %v came while it ran", id(c))
		}
		w.running[id(c)] = true
		w.holding[attempt{id(c), c.GetAttempt()}] = c
		go w.run(l, c, time.Duration(w.random.IntN(50))*time.Millisecond, w.random.IntN(10))
	}
	if len(w.running) > w.slots {
		w.Errorf("%d tasks for %d slots", len(w.running), w.slots)
	}
}

func (w *fickle) resend(l *line, try attempt) {
	r := w.results[try]
	go func() {
		time.Sleep(retryAfter)
		l.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
	}()
}

func (w *fickle) run(l *line, c *kinesinv1.Claimed, d time.Duration, dice int) {
	time.Sleep(time.Duration(c.GetHold())*time.Microsecond + d)
	outcome := "success"
	switch dice {
	case 0:
		outcome = "released"
	case 1:
		outcome = "snoozed"
	}
	w.mu.Lock()
	r := result(c, outcome)
	w.results[attempt{id(c), c.GetAttempt()}] = r
	delete(w.running, id(c))
	if outcome == "success" {
		w.ended[id(c)] = append(w.ended[id(c)], c.GetAttempt())
	}
	w.mu.Unlock()
	l.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
}

func (l *line) send(r *kinesinv1.WorkRequest) {
	select {
	case l.requests <- r:
	case <-l.cut:
	case <-l.over:
	}
}

// live connects again and again, until all is done.
func (w *fickle) live(done chan struct{}) {
	for {
		l := &line{worker: w, requests: make(chan *kinesinv1.WorkRequest), over: make(chan struct{}), cut: make(chan struct{})}
		go l.hello()
		w.mu.Lock()
		life := time.Duration(50+w.random.IntN(300)) * time.Millisecond
		w.mu.Unlock()
		timer := time.AfterFunc(life, func() { l.cutOnce.Do(func() { close(l.cut) }) })
		_ = w.svc.serveStream(w.ctx, l)
		timer.Stop()
		close(l.over)
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (l *line) hello() {
	w := l.worker
	w.mu.Lock()
	hello := &kinesinv1.Hello{Worker: w.id, Groups: []*kinesinv1.SlotGroup{slots(uint32(w.slots), "mail")}}
	again := &kinesinv1.WorkRequest{}
	for _, c := range w.holding {
		hello.Held = append(hello.Held, held(c))
	}
	for r := range maps.Values(w.results) {
		again.Results = append(again.Results, r)
	}
	w.mu.Unlock()
	l.send(&kinesinv1.WorkRequest{Hello: hello})
	l.send(again)
}

// Whatever breaks between workers, HSC and store, no task is lost, none succeeds twice, and nobody is
// charged. The test acts as the scheduler for wake-ups.
func TestNothingIsLostOrDoubledWhateverBreaks(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(f *fixture) {
			random := rand.New(rand.NewPCG(seed, 1))
			tasks := f.enqueueMany("mail", 150)
			for i := range 50 { // these come one by one, so that some find a worker that waits
				tasks = append(tasks, f.waiting("mail", func(t *task.Task) { t.Due = t.Due.Add(time.Duration(i) * 50 * time.Millisecond) }))
				f.put(tasks[150+i])
			}
			var matched atomic.Int32
			f.svc.Hooks.Matched = func(*catalog.Entry, *task.Task) { matched.Add(1) }
			done := make(chan struct{})
			var workers []*fickle
			var all sync.WaitGroup
			for i := range uint64(3) {
				w := &fickle{
					fixture: f, id: f.register(), random: rand.New(rand.NewPCG(seed, 2+i)), slots: 5,
					holding: map[attempt]*kinesinv1.Claimed{}, results: map[attempt]*kinesinv1.Result{},
					running: map[task.ID]bool{}, ended: map[task.ID][]uint32{},
				}
				workers = append(workers, w)
				all.Go(func() { w.live(done) })
			}
			for round := 0; f.left(tasks) > 0; round++ {
				if round == 2000 {
					t.Errorf("seed %d: %d tasks are left", seed, f.left(tasks))
					break
				}
				if round < 200 && random.IntN(3) == 0 {
					quarters := random.IntN(5) // of the writes come through; a part of a chain, too
					f.store.failPart(random.IntN(3), func(n int) int { return n * quarters / 4 })
					f.fires(time.Duration(random.IntN(2))*16*time.Second - 1)
				}
				time.Sleep(20 * time.Millisecond)
				if round%100 == 0 {
					for _, w := range workers {
						f.heartbeat(w.id)
					}
				}
				f.wake(tasks)
				f.wantAllWatched(tasks)
			}
			f.store.failApply(0, false)
			close(done)
			for _, sess := range f.svc.all() {
				if st := sess.current(); st != nil {
					st.stop(errStreamDone)
				}
			}
			all.Wait()
			time.Sleep(time.Second) // for what the workers had under way
			synctest.Wait()
			for _, one := range tasks {
				row := f.wantState(one.ID, task.Success)
				n := 0
				for _, w := range workers {
					n += len(w.ended[one.ID])
				}
				if n != 1 || row.Failures != 0 || row.Lost != 0 {
					t.Errorf("seed %d: task %v succeeded %d times, failures %d, lost %d", seed, one.ID, n, row.Failures, row.Lost)
				}
				f.wantLeftoversOf(row)
			}
			if matched.Load() == 0 {
				t.Errorf("seed %d: nothing was matched", seed)
			}
		})
	}
}

func (f *fixture) left(tasks []task.Task) int {
	n := 0
	for _, one := range tasks {
		if !f.row(one.ID).State.IsEnd() {
			n++
		}
	}
	return n
}

// wantAllWatched checks that each live task has the wake-up row that its task row names, while others write.
func (f *fixture) wantAllWatched(tasks []task.Task) {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	before, err := f.store.Store.Tasks(f.ctx, ids)
	if err != nil {
		f.Fatal(err)
	}
	keys := make([]store.WakeKey, len(before))
	for i := range before {
		keys[i] = store.KeyOf(&before[i])
	}
	rows, err := f.store.Wakeups(f.ctx, keys)
	if err != nil {
		f.Fatal(err)
	}
	after, err := f.store.Store.Tasks(f.ctx, ids)
	if err != nil {
		f.Fatal(err)
	}
	for i, row := range after {
		if !row.State.IsEnd() && row.Seq == before[i].Seq && rows[i].ID.IsZero() {
			f.Errorf("task %s is %s and its wake-up row %+v is not there", row.ID, row.State, row.WakeRow)
		}
	}
}

// hand acts as the dispatcher for a task that a worker waits for; false when none does.
func (f *fixture) hand(row task.Task) bool {
	slot, next := f.match(row)
	if slot == nil {
		return false
	}
	next.WakeRow = row.WakeRow
	results, _ := f.store.Apply(f.ctx, store.Change(next, false, false))
	slot.Settle(&next, results[0])
	return true
}

// wake acts as the scheduler for wake-ups that are due.
func (f *fixture) wake(tasks []task.Task) {
	now := f.clock.Now()
	for _, one := range tasks {
		row := f.row(one.ID)
		if row.Wake.IsZero() || row.Wake > now {
			continue
		}
		switch row.State {
		case task.Scheduled:
			if !f.hand(row) {
				f.send(f.change(one.ID, task.Event{Kind: task.Enqueue}))
			}
		case task.Enqueued:
			f.send(f.change(one.ID, task.Event{Kind: task.Enqueue}))
		default:
			if now.Sub(row.ClaimedAt) >= task.ClaimTimeout && row.State == task.Claimed {
				f.send(f.change(one.ID, task.Event{Kind: task.Unconfirmed, Worker: row.Worker, Attempt: row.Attempt}))
			}
		}
	}
}
