package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// toldQueue is a queue that is a service if it is told so, and in which as much waits as it is told. It notes
// what it is asked and what it is sent.
type toldQueue struct {
	queue.Driver

	service bool

	mu    sync.Mutex
	waits map[uint8]queue.Depth // by priority
	notes []string
}

func (q *toldQueue) Durable() bool { return q.service }

func (q *toldQueue) Room(name queue.Name) <-chan struct{} {
	if q.service {
		return nil
	}
	return q.Driver.Room(name)
}

func (q *toldQueue) Depth(_ context.Context, name queue.Name) (queue.Depth, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notes = append(q.notes, fmt.Sprintf("depth%d", name.Priority))
	return q.waits[name.Priority], nil
}

func (q *toldQueue) Send(ctx context.Context, messages []queue.Message) []error {
	q.mu.Lock()
	for i := range messages {
		q.notes = append(q.notes, "send-"+messages[i].Task.State.String())
	}
	q.mu.Unlock()
	return q.Driver.Send(ctx, messages)
}

// tell says what waits from now on, and forgets what was noted.
func (q *toldQueue) tell(waits map[uint8]queue.Depth) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits, q.notes = waits, nil
}

func (q *toldQueue) noted() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.notes, " ")
}

// TestWhoStartsATask has one line for each way in which starts differ by who starts the task: how early a
// task may get a slot, which queues are asked for their depth, whether before or after a slot is found, and
// what becomes of a task without a slot. A message goes without a task row (scheduled) or with one
// (enqueued). No message goes for a task that gets a slot.
func TestWhoStartsATask(t *testing.T) {
	const (
		owner    = time.Minute           // the owner of the partition, when the task is due
		near     = time.Duration(0)      // inbound, with the call
		followup = -time.Minute          // the end of the task before it
		high     = uint8(0)              // the priority of what waits
		low      = uint8(1)              // that of the task, unless it says otherwise
		matchMax = 40 * time.Millisecond // before its due time
	)
	few, many := queue.Depth{Visible: 1, Oldest: time.Second}, queue.Depth{Visible: 32, Oldest: time.Second}
	full := queue.Depth{Visible: 4097, Oldest: time.Second}
	for name, c := range map[string]struct {
		in       time.Duration // owner and followup, or how long before its due time inbound gets it
		after    time.Duration // the end of the task before it
		service  bool
		waits    map[uint8]queue.Depth
		weights  map[string]int
		priority string // low
		noWorker bool
		counted  bool // the lambda has a gate
		want     string
	}{
		"owner":                             {in: owner, want: "depth1 depth0 depth1"},
		"owner, others wait":                {in: owner, waits: map[uint8]queue.Depth{low: few}, want: "depth1 depth0 depth1 send-scheduled"},
		"owner, others wait before":         {in: owner, waits: map[uint8]queue.Depth{high: few}, want: "depth1 depth0 send-scheduled"},
		"owner, others wait behind":         {in: owner, priority: "high", waits: map[uint8]queue.Depth{low: few}, want: "depth0 depth0"},
		"owner, others have turns":          {in: owner, priority: "high", weights: map[string]int{"high": 2, "low": 1}, waits: map[uint8]queue.Depth{low: few}, want: "depth0 depth0 depth1 send-scheduled"},
		"owner, no worker":                  {in: owner, noWorker: true, want: "depth1 depth0 depth1 send-enqueued"},
		"owner, of a gated lambda":          {in: owner, counted: true, want: "depth1 depth0 depth1"},
		"owner, service":                    {in: owner, service: true, want: "depth1"},
		"owner, service, few wait":          {in: owner, service: true, waits: map[uint8]queue.Depth{low: few}, want: "depth1"},
		"owner, service, many wait":         {in: owner, service: true, waits: map[uint8]queue.Depth{low: many}, want: "depth1 send-enqueued"},
		"owner, service, no worker":         {in: owner, service: true, noWorker: true, want: "depth1 send-enqueued"},
		"near":                              {in: near, want: "depth1 depth0"},
		"near, early":                       {in: matchMax, want: "depth1 depth0"},
		"near, too early":                   {in: matchMax + time.Millisecond, want: "depth1 send-enqueued"},
		"near, others wait":                 {in: near, waits: map[uint8]queue.Depth{low: few}, want: "depth1 send-enqueued"},
		"near, others wait before":          {in: near, waits: map[uint8]queue.Depth{high: few}, want: "depth1 depth0 send-enqueued"},
		"near, others wait behind":          {in: near, priority: "high", waits: map[uint8]queue.Depth{low: few}, want: "depth0"},
		"near, others have turns":           {in: near, priority: "high", weights: map[string]int{"high": 2, "low": 1}, waits: map[uint8]queue.Depth{low: few}, want: "depth0 depth1 send-enqueued"},
		"near, full":                        {in: near, waits: map[uint8]queue.Depth{low: full}, want: "depth1 depth1 depth0 depth1 send-scheduled"},
		"near, no worker":                   {in: near, noWorker: true, want: "depth1 depth0 send-enqueued"},
		"near, of a gated lambda":           {in: near, counted: true, want: "depth1 depth0 depth1"},
		"near, service":                     {in: near, service: true, want: "depth1"},
		"near, service, few wait":           {in: near, service: true, waits: map[uint8]queue.Depth{low: few}, want: "depth1 send-enqueued"},
		"near, service, others wait before": {in: near, service: true, waits: map[uint8]queue.Depth{high: many}, want: "depth1"},
		"near, service, others have turns":  {in: near, service: true, priority: "high", weights: map[string]int{"high": 2, "low": 1}, waits: map[uint8]queue.Depth{low: few}, want: "depth0 depth1 send-enqueued"},
		"follow-up":                         {in: followup, want: "depth0 depth1"},
		"follow-up, early":                  {in: followup, after: time.Millisecond, want: "depth1 depth0 depth1"},
		"follow-up, others wait":            {in: followup, waits: map[uint8]queue.Depth{low: few}, want: "depth0 depth1 depth1 depth0 depth1 send-scheduled"},
		"follow-up, others wait before":     {in: followup, waits: map[uint8]queue.Depth{high: few}, want: "depth0 depth1 depth0 send-scheduled"},
		"follow-up, no worker":              {in: followup, noWorker: true, want: "depth1 depth0 depth1 send-enqueued"},
		"follow-up, of a gated lambda":      {in: followup, counted: true, want: "depth1 depth0 depth1"},
		"follow-up, service":                {in: followup, service: true, want: ""},
		"follow-up, service, many wait":     {in: followup, service: true, waits: map[uint8]queue.Depth{low: many}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			told := &toldQueue{service: c.service}
			inRig(t, drivers{queue: func() queue.Driver {
				told.Driver = queuemem.New(clock.Real(), queuemem.Config{DepthMax: 1 << 20})
				return told
			}}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "first", Priorities: []string{"only"}})
				r.lambda(admin.Lambda{Name: "mail", Priorities: []string{"high", "low"}, PriorityWeights: c.weights})
				if c.counted {
					if _, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "mail", Collection: "others", Reason: "x"}); err != nil {
						t.Fatal(err)
					}
				}
				if !c.noWorker {
					r.work(r.nodes[0], "mail", quick)
				}
				r.work(r.nodes[0], "first", func(context.Context, *sdk.Task[[]byte]) error {
					told.tell(c.waits)
					return nil
				})
				time.Sleep(10*time.Second + 7*time.Millisecond) // at a moment of its own, at which slots wait for nothing
				item := sdk.Item{Lambda: "mail", Priority: "low", In: max(c.in, 0)}
				if c.priority != "" {
					item.Priority = c.priority
				}
				if c.in == followup {
					item.In = c.after
					item = sdk.Item{Lambda: "first", Then: []sdk.Item{item}}
				}
				told.tell(c.waits)
				if _, err := r.client.Schedule(r.ctx, item); err != nil {
					t.Fatal(err)
				}
				time.Sleep(max(c.in, 0) + time.Millisecond)
				if got := told.noted(); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}
