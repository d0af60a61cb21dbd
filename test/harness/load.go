package harness

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/job"
)

// callsAtOnceMax bounds the calls that wait for a server that is away.
const callsAtOnceMax = 256

// loadCallMax is how long one call of a load may take, outages included.
const loadCallMax = 90 * time.Second

// runsForMax is how long a task runs at most.
const runsForMax = 40 * time.Millisecond

// LoadOptions say what a load is. The zero value is 15 tasks a second, due within 3 s.
type LoadOptions struct {
	CallEvery       time.Duration // 200 ms if zero
	TasksPerCallMax int           // from 1 on, all as likely; 5 if zero
	DueAfter        time.Duration
	DueWithin       time.Duration // of DueAfter; 3 s if zero
}

func (o LoadOptions) withDefaults() LoadOptions {
	o.CallEvery = cmp.Or(o.CallEvery, 200*time.Millisecond)
	o.TasksPerCallMax = cmp.Or(o.TasksPerCallMax, 5)
	o.DueWithin = cmp.Or(o.DueWithin, 3*time.Second)
	return o
}

// Load schedules tasks until it is stopped: mostly ones that succeed, some that fail first, have a key,
// another priority, or are cancelled.
type Load struct {
	client  *Client
	options LoadOptions
	random  *rand.Rand // owned by run
	end     context.CancelFunc
	all     sync.WaitGroup
	slots   chan struct{}

	mu    sync.Mutex
	acked []sdk.ID
}

// Load starts a load, and says its seed.
func (c *Client) Load(o LoadOptions) *Load {
	c.site.T.Helper()
	seed := rand.Uint64()
	c.site.T.Logf("load seed %d", seed)
	ctx, cancel := context.WithCancel(c.site.T.Context())
	l := &Load{
		client: c, options: o.withDefaults(), end: cancel, slots: make(chan struct{}, callsAtOnceMax),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	l.all.Go(func() { l.run(ctx) })
	return l
}

// Stop ends the load, waits for the calls in flight and returns what was acknowledged.
func (l *Load) Stop() []sdk.ID {
	l.end()
	l.all.Wait()
	return l.acked
}

func (l *Load) run(ctx context.Context) {
	tick := time.NewTicker(l.options.CallEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wanted := make([]Wanted, 1+l.random.IntN(l.options.TasksPerCallMax))
		for i := range wanted {
			wanted[i] = l.wanted()
		}
		cancelled := l.random.IntN(20) == 0
		select {
		case l.slots <- struct{}{}:
			l.all.Go(func() { l.call(wanted, cancelled) })
		default: // the server is away; those who wait are enough
		}
	}
}

// wanted is a random task.
func (l *Load) wanted() Wanted {
	w := Wanted{Job: job.Job{Millis: l.random.Int64N(runsForMax.Milliseconds())}}
	due := sdk.In(l.options.DueAfter + time.Duration(l.random.Int64N(int64(l.options.DueWithin))))
	if l.random.IntN(10) == 0 {
		w.Job.Do, w.Job.Times = job.Failing, 1
	}
	if l.random.IntN(10) == 0 {
		w.Options = append(w.Options, sdk.Key(strconv.FormatUint(l.random.Uint64(), 36)))
	}
	if l.random.IntN(4) == 0 {
		w.Options = append(w.Options, sdk.Priority([]string{"high", "low"}[l.random.IntN(2)]))
	}
	w.Options = append(w.Options, due)
	return w
}

func (l *Load) call(wanted []Wanted, cancelled bool) {
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeout(context.Background(), loadCallMax)
	defer cancel()
	tasks, err := l.client.Try(ctx, wanted...)
	l.mu.Lock()
	l.acked = append(l.acked, tasks...)
	l.mu.Unlock()
	if err != nil || !cancelled || len(tasks) == 0 {
		return
	}
	id := tasks[0]
	l.client.site.History.Add(checker.Event{Kind: checker.Cancelling, Task: string(id)})
	if outcome, err := l.client.Cancel(ctx, id); err == nil && outcome == sdk.CancelDone {
		l.client.site.History.Add(checker.Event{Kind: checker.Cancelled, Task: string(id)})
	}
}
