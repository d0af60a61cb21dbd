package inbound

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

func TestWhatHoldsALambdaBack(t *testing.T) {
	const start = task.Instant(1_700_000_000_000_000)
	quotas := []StartLimit{{Rate: 100}, {Priority: "low", Class: 1, Rate: 0.5}}
	pause := &hold.Gate{ID: "1", Action: hold.Pause, Reason: "db"}
	for name, c := range map[string]struct {
		gates    hold.Gates
		held     HeldBack
		noWorker bool
		late     bool
		deliver  bool
		want     string // reason, text and number of tasks of each
	}{
		"nothing":          {held: HeldBack{Limits: quotas}},
		"a gate":           {gates: hold.Gates{pause}, held: HeldBack{Gates: 7}, want: `gate: gate 1 "db" pauses all tasks: 7`},
		"a gate, unread":   {gates: hold.Gates{pause}, want: `gate: gate 1 "db" pauses all tasks: ?`},
		"an expired gate":  {gates: hold.Gates{{ID: "1", Action: hold.Pause, Reason: "db", Until: start - 1}}, held: HeldBack{Gates: 7}},
		"a gate that ends": {gates: hold.Gates{{ID: "1", Action: hold.Pause, Reason: "db", Until: start + 1_000_000}}, want: `gate: gate 1 "db" until 2023-11-14T22:13:21Z pauses all tasks: ?`},
		"gates": {
			gates: hold.Gates{
				{ID: "1", Action: hold.Pause, Reason: "db", Priority: "low"},
				{ID: "2", Action: hold.Drop, Reason: "bad", Collection: "c"},
				{ID: "3", Action: hold.Pause, Reason: "x", TagName: "a", TagValue: "b", Resumed: 1, Pace: 5},
			},
			held: HeldBack{Gates: 7},
			want: `gate: gate 1 "db" pauses tasks of priority low: ?; gate: gate 2 "bad" drops tasks of collection c: ?; gate: gate 3 "x" resumes, at 5 a second, tasks with the tag a=b: ?`,
		},
		"a quota":                    {held: HeldBack{Limits: quotas, Quotas: [task.PrioritiesMax]int64{3}}, want: `quota: the quota of the lambda, 100 starts a second, of which this server used 12.5 in the last minute: 3`},
		"two quotas":                 {held: HeldBack{Limits: quotas, Quotas: [task.PrioritiesMax]int64{3, 4}}, want: `quota: the quota of the lambda, 100 starts a second, of which this server used 12.5 in the last minute: 7; quota: the quota of priority low, 0.5 starts a second, of which this server used 0.5 in the last minute: 4`},
		"running at once":            {held: HeldBack{Limits: []StartLimit{{Concurrency: 5}}, Quotas: [task.PrioritiesMax]int64{3}}, want: "quota: the quota of the lambda, 5 running at once: 3"},
		"no worker":                  {noWorker: true, late: true, want: "no worker: no worker: none is connected for lambda mail: ?"},
		"no worker, nothing is late": {noWorker: true},
		"a consumer instead":         {noWorker: true, late: true, deliver: true},
		"nothing that is known":      {held: HeldBack{Unexplained: 9}, want: "unexplained: nothing that this server knows of, and yet they do not start: its log may say more: 9"},
		"a full queue":               {held: HeldBack{QueueFull: [task.PrioritiesMax]bool{false, true}}, want: "queue full: the queue of priority low is full: workers take its messages more slowly than tasks come due: ?"},
		"a queue that a quota fills": {held: HeldBack{QueueFull: [task.PrioritiesMax]bool{true}, Quotas: [task.PrioritiesMax]int64{3}, Limits: quotas[:1]}, want: `quota: the quota of the lambda, 100 starts a second, of which this server used 12.5 in the last minute: 3`},
	} {
		t.Run(name, func(t *testing.T) {
			v := clock.NewVirtual(start, 1)
			l := &catalog.Entry{Lambda: task.Lambda{Ref: 7, Name: "mail", Priorities: []string{"high", "low"}}}
			if c.deliver {
				l.Mode = task.Deliver
			}
			in := &Inbound{Config: Config{
				Intake: &intake.Intake{Config: intake.Config{Clock: v.Process(0)}}, Gates: func(uint32) hold.Gates { return c.gates }, HeldBack: func(uint32) HeldBack { return c.held },
				NoWorker: func(*catalog.Entry) bool { return c.noWorker },
				Rates: func(uint32) Rates {
					return Rates{Priorities: [task.PrioritiesMax]PriorityRates{{Spent: 12}, {Spent: 0.5}}}
				},
			}}
			var got []string
			for _, h := range in.heldBy(l, c.late) {
				tasks := "?"
				if h.Tasks != nil {
					tasks = string(rune('0' + *h.Tasks))
				}
				got = append(got, h.Reason+": "+h.Text+": "+tasks)
			}
			if joined := strings.Join(got, "; "); joined != c.want {
				t.Errorf("\n%s, want\n%s", joined, c.want)
			}
		})
	}
}
