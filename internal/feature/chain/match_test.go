package chain_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// slot is one of a worker that waits.
type slot struct{ outcomes *[]error }

func (slot) IsIdle(time.Duration) bool { return true }

func (s slot) Reserve(*catalog.Entry) dispatcher.Slot { return s }

func (s slot) Worker() string       { return "waiting" }
func (s slot) Lease() time.Duration { return time.Minute }

func (s slot) Settle(_ *task.Task, outcome error) { *s.outcomes = append(*s.outcomes, outcome) }

// lambdas knows those of the world.
type lambdas struct{}

func (lambdas) ByRef(ref uint32) *catalog.Entry { return &catalog.Entry{Lambda: lambdaOf(ref)} }

// Follow-ups that are due are claimed for workers that wait, in the commit that ends their parent. An end
// that is refused claims nothing, and gives the slots back.
func TestFollowUpsMatchedWithTheEnd(t *testing.T) {
	for name, refused := range map[string]bool{"applied": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			var outcomes []error
			var sent []task.ID
			told := map[task.ID]int{}
			c := w.keeper(w.mem, told).Config
			c.Log = slog.New(slog.DiscardHandler)
			waiting := &dispatcher.Register{}
			for _, name := range []string{"l1", "l2", "l3"} {
				waiting.Add(name, slot{&outcomes})
			}
			c.Starter = dispatcher.NewStarter(dispatcher.StarterConfig{
				Queue: queue.New(queuemem.New(w.clock, queuemem.Config{}), queue.Config{}), Lambdas: lambdas{}, Clock: w.clock, Register: waiting,
				Enqueued: func(t *task.Task) { sent = append(sent, t.ID) },
			})
			k := chain.New(c)

			ops := w.end(task.OutcomeSuccess)
			if refused {
				ops[0].From = 99
			}
			if _, err := k.Apply(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
			ended := ops[0].Task
			matched := []task.ID{task.FollowupID(&ended, task.Then, 0), task.FollowupID(&ended, task.Then, 1), task.FollowupID(&ended, task.Finally, 0)}
			rows, err := k.Tasks(t.Context(), matched)
			if err != nil || len(outcomes) != len(matched) {
				t.Fatalf("%d slots settled, %v", len(outcomes), err)
			}
			for i := range rows {
				if claimed := rows[i].State == task.Claimed && rows[i].Worker == "waiting"; claimed == refused {
					t.Errorf("follow-up %d: %s of %q", i, rows[i].State, rows[i].Worker)
				}
				if (outcomes[i] == nil) == refused || refused && errors.Is(outcomes[i], store.ErrUnknown) {
					t.Errorf("slot %d: %v", i, outcomes[i])
				}
			}
			if want := map[bool]int{false: len(matched)}[refused]; len(sent) != want {
				t.Errorf("the scheduler heard of %d claimed tasks, want %d", len(sent), want)
			}
			if len(told) != 0 {
				t.Errorf("the scheduler heard of %d tasks that wait", len(told))
			}
		})
	}
}
