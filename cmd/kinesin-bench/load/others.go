package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

const (
	// othersEvery is how often tasks of the other lambda are scheduled, and othersAhead how long before the
	// first of them is due.
	othersEvery = 100 * time.Millisecond
	othersAhead = time.Second
	// othersAlone is how long they are measured without a job.
	othersAlone = 10 * time.Second
)

// Others is how a steady load of another lambda fared in a period. Times are in milliseconds.
type Others struct {
	Tasks       int     `json:"tasks"`
	LatenessP50 float64 `json:"lateness_p50_ms"`
	LatenessP99 float64 `json:"lateness_p99_ms"`
	LatenessMax float64 `json:"lateness_max_ms"`
	BoundP99    float64 `json:"bound_p99_ms,omitempty"` // 1.2 × that without a job + 5 ms
	Within      bool    `json:"within"`
	Lost        int     `json:"lost"`
}

// others is the load. Its tasks carry their due times.
type others struct {
	client *sdk.Client
	lambda string
	rate   float64

	mu     sync.Mutex
	due    []int64         // of the tasks that were accepted, in microseconds; rising from batch to batch
	starts map[int64]int64 // first starts by due time
}

// startOthers begins the load, unless its rate is 0. stop ends it, and returns why it ended before that.
func (r *run) startOthers(ctx context.Context) (o *others, stop func() error, err error) {
	o = &others{client: r.Client, lambda: r.Lambda + "-others", rate: r.OthersRate, starts: map[int64]int64{}}
	if r.OthersRate == 0 {
		return nil, func() error { return nil }, nil
	}
	if _, _, err := admin.New(r.Client).Lambdas.Create(ctx, admin.Lambda{Name: o.lambda, Priorities: []string{"normal"}}); err != nil {
		return nil, nil, err
	}
	w := sdk.NewWorker(r.Client, sdk.Slots(othersSlots), sdk.Grace(time.Second))
	sdk.NewLambda[[]byte](o.lambda).Handle(w, func(_ context.Context, t *sdk.Task[[]byte]) error {
		o.start(int64(binary.LittleEndian.Uint64(t.Args)), time.Now())
		return nil
	})
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- w.Run(running) }()
	go func() { ended <- o.schedule(running) }()
	return o, func() error {
		end()
		err := errors.Join(<-ended, <-ended)
		if !r.Keep {
			_, deleteErr := admin.New(r.Client).Lambdas.Delete(context.WithoutCancel(ctx), o.lambda, admin.LambdaDeleteOptions{DropTasks: true})
			err = errors.Join(err, deleteErr)
		}
		return err
	}, nil
}

const othersSlots = 100

// schedule schedules tasks until ctx ends, each due at a moment of its own.
func (o *others) schedule(ctx context.Context) error {
	began := time.Now()
	for sent := 0; ctx.Err() == nil; {
		var items []sdk.Item
		var due []int64
		for upTo := int(time.Since(began).Seconds() * o.rate); sent < upTo; sent++ {
			at := began.Add(othersAhead + othersEvery + time.Duration(float64(sent)/o.rate*float64(time.Second))).Truncate(time.Millisecond)
			due = append(due, at.UnixMicro())
			items = append(items, sdk.Item{Lambda: o.lambda, At: at, Payload: binary.LittleEndian.AppendUint64(nil, uint64(at.UnixMicro()))})
		}
		if len(items) > 0 {
			if _, err := o.client.ScheduleMany(ctx, items); err != nil {
				if ctx.Err() != nil {
					return nil //nolint:nilerr // the run is over
				}
				return fmt.Errorf("schedule tasks of the other lambda: %w", err)
			}
			o.mu.Lock()
			o.due = append(o.due, due...)
			o.mu.Unlock()
		}
		_ = clock.Sleep(ctx, clock.Real(), othersEvery) // the loop looks at ctx
	}
	return nil
}

func (o *others) start(due int64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.starts[due]; !again {
		o.starts[due] = now.UnixMicro()
	}
}

// between returns how the tasks fared that were due in a period, when all of them have started or had time
// to. alone is the period without a job; nil for that itself.
func (o *others) between(ctx context.Context, from, to time.Time, alone *Others) (*Others, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // there is no such load
	}
	for over := to.Add(patienceBase); ; {
		result, late := o.seen(from.UnixMicro(), to.UnixMicro())
		if result.Lost == 0 && time.Since(to) > othersEvery || time.Now().After(over) {
			slices.Sort(late)
			result.LatenessP50, result.LatenessP99, result.LatenessMax = percentile(late, .50), percentile(late, .99), percentile(late, 1)
			result.Within = true
			if alone != nil {
				result.BoundP99 = boundFactor*alone.LatenessP99 + boundExtraMS
				result.Within = result.LatenessP99 <= result.BoundP99
			}
			return &result, nil
		}
		if err := clock.Sleep(ctx, clock.Real(), othersEvery); err != nil {
			return nil, err
		}
	}
}

// seen returns the tasks that were due in a period, and the lateness of those that have started.
func (o *others) seen(from, to int64) (result Others, late []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, due := range o.due {
		if due < from || due >= to {
			continue
		}
		if result.Tasks++; o.starts[due] == 0 {
			result.Lost++
			continue
		}
		late = append(late, o.starts[due]-due)
	}
	return result, late
}

// alone measures the load without a job.
func (o *others) alone(ctx context.Context) (*Others, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // there is no such load
	}
	from := time.Now().Add(2 * othersAhead) // the first tasks wait for the worker to register
	if err := clock.Sleep(ctx, clock.Real(), time.Until(from.Add(othersAlone))); err != nil {
		return nil, err
	}
	return o.between(ctx, from, from.Add(othersAlone), nil)
}
