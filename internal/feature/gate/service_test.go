package gate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// depths is a queue service with messages, or one that does not answer.
type depths struct {
	visible int
	err     error
}

func (d *depths) Depth(context.Context, queue.Name) (queue.Depth, error) {
	return queue.Depth{Visible: d.visible}, d.err
}

// fixture is a server over a store in memory, in virtual time.
type fixture struct {
	*gate.Service
	*inboundtest.World

	in    *inbound.Inbound
	book  *gate.Book
	queue *depths
}

func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	inboundtest.Run(t, func(w *inboundtest.World) {
		f := &fixture{World: w, queue: &depths{}}
		f.book = gate.NewBook(f.Store, f.Clock, slog.New(slog.DiscardHandler))
		f.in = w.Inbound(inbound.Config{Gates: f.book.OfLambda}, 0)
		f.Create(task.Lambda{Name: "mail", Shards: 3})
		f.Create(task.Lambda{Name: "pay", Shards: 1})
		f.Service = f.serving(f.Store)
		test(f)
	})
}

func (f *fixture) stored() *control.Book[hold.Gate] {
	return control.NewBook(f.Store, gate.AsRows, f.Clock)
}

// serving returns another process over the same store.
func (f *fixture) serving(rows gate.Store) *gate.Service {
	return gate.New(gate.Config{
		Store: rows, Book: f.book, Tasks: f.in, Lambdas: f.Catalog, Queue: f.queue, Clock: f.Clock, Log: slog.New(slog.DiscardHandler),
	})
}

// tidying runs the loop of the service until the test ends.
func (f *fixture) tidying() {
	runtest.Start(f.T, func(ctx context.Context) error {
		_ = f.Run(ctx)
		return nil
	})
}

func (f *fixture) sleep(d time.Duration) {
	f.T.Helper()
	f.Time.Advance(d)
	synctest.Wait()
}

// schedule schedules a task that is due so long from now, and returns its id.
func (f *fixture) schedule(item *kinesinv1.ScheduleItem, in time.Duration) string {
	f.T.Helper()
	item.Delay = in.Microseconds()
	r, err := f.in.Schedule(f.Ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item}})
	if err != nil || r.Results[0].Problem != nil {
		f.T.Fatal(r, err)
	}
	return r.Results[0].Id
}

func (f *fixture) task(id string) *kinesinv1.Task {
	f.T.Helper()
	r, err := f.in.Get(f.Ctx, &kinesinv1.GetRequest{Ids: []string{id}})
	if err != nil || r.Results[0].Task == nil {
		f.T.Fatal(r, err)
	}
	return r.Results[0].Task
}

func pause(change ...func(*kinesinv1.Gate)) *kinesinv1.Gate {
	g := &kinesinv1.Gate{Action: "pause", Lambda: "mail", Reason: "db maintenance"}
	for _, c := range change {
		c(g)
	}
	return g
}

func (f *fixture) set(g *kinesinv1.Gate) *kinesinv1.Gate {
	f.T.Helper()
	r, err := f.SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: g})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Gate
}

func (f *fixture) dry(g *kinesinv1.Gate) *kinesinv1.Gate {
	f.T.Helper()
	r, err := f.SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: g, DryRun: true})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Gate
}

func (f *fixture) resume(id string, pace uint32) *kinesinv1.Gate {
	f.T.Helper()
	r, err := f.ResumeGate(f.Ctx, &kinesinv1.ResumeGateRequest{Id: id, Pace: pace})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Gate
}

func (f *fixture) gate(id string) *kinesinv1.Gate {
	f.T.Helper()
	r, err := f.GetGate(f.Ctx, &kinesinv1.GetGateRequest{Id: id})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Gate
}

// listed returns the gates of a list, each with its state.
func (f *fixture) listed(lambda string, ended bool) string {
	f.T.Helper()
	r, err := f.ListGates(f.Ctx, &kinesinv1.ListGatesRequest{Lambda: lambda, Ended: ended})
	if err != nil {
		f.T.Fatal(err)
	}
	var all []string
	for _, g := range r.Gates {
		all = append(all, g.Id+" "+g.State)
	}
	return strings.Join(all, ", ")
}

// rows returns the names of the gates of a kind in the store.
func (f *fixture) rows(kind string) string {
	f.T.Helper()
	rows, err := f.Store.Controls(f.T.Context(), kind)
	if err != nil {
		f.T.Fatal(err)
	}
	var names []string
	for _, row := range rows {
		names = append(names, row.Name)
	}
	return strings.Join(names, " ")
}

func TestAGateFromPauseToEnd(t *testing.T) {
	run(t, func(f *fixture) {
		f.tidying()
		g := f.set(pause())
		if g.Id != "1" || g.State != "active" || g.Owner != "ops" || g.Created != int64(inboundtest.Start) || g.Note != "" {
			t.Errorf("set: %v", g)
		}
		entry, err := f.Catalog.Lambda("mail")
		if err != nil || !f.book.Has(entry.Ref) {
			t.Error("a gate that was set here is not in force here at once")
		}
		if again := f.set(pause(func(g *kinesinv1.Gate) { g.Action, g.Lambda = "drop", "pay" })); again.Id != "2" {
			t.Errorf("the second gate is %s", again.Id)
		}
		if got := f.listed("", false); got != "2 active, 1 active" {
			t.Error(got)
		}
		if got := f.listed("mail", false); got != "1 active" {
			t.Error(got)
		}
		f.sleep(time.Second)
		if g = f.resume("1", 2000); g.State != "resuming" || g.Pace != 2000 {
			t.Errorf("at a pace: %v", g)
		}
		first := f.gate("1")
		f.sleep(time.Second)
		if g = f.resume("1", 100); g.Pace != 100 || g.EndedBy != "ops" || first.EndedBy != "ops" {
			t.Errorf("at another pace: %v", g)
		}
		stored, err := f.stored().Find(f.Ctx, "1")
		if err != nil || stored.Resumed != inboundtest.Start.Add(time.Second) {
			t.Errorf("another pace holds what came due since: %v %v", stored, err)
		}
		f.As("bob", "*:*")
		if g = f.resume("1", 0); g.State != "ended" || g.EndedBy != "bob" || g.Ended != int64(inboundtest.Start.Add(2*time.Second)) {
			t.Errorf("at once: %v", g)
		}
		if f.book.Has(entry.Ref) || f.rows(gate.Kind) != "2" || f.rows(gate.KindEnded) != "1" {
			t.Errorf("after the end: active %s, ended %s", f.rows(gate.Kind), f.rows(gate.KindEnded))
		}
		if g = f.resume("1", 0); g.State != "ended" || g.Ended != int64(inboundtest.Start.Add(2*time.Second)) || !strings.Contains(g.Note, "had ended before") {
			t.Errorf("again: %v", g)
		}
		if got := f.listed("", false) + "; " + f.listed("", true); got != "2 active; 2 active, 1 ended" {
			t.Error(got)
		}
		f.sleep(gate.KeptFor + time.Hour)
		if got := f.listed("", true); got != "2 active" {
			t.Errorf("30 days later: %s", got)
		}
	})
}

func TestWhatAGateThatIsRefusedIsTold(t *testing.T) {
	run(t, func(f *fixture) {
		f.Create(task.Lambda{Name: "urgent", Priorities: []string{"now", "soon"}})
		tooLong := strings.Repeat("r", gate.ReasonBytesMax+1)
		for name, c := range map[string]struct {
			change func(*kinesinv1.Gate)
			says   []string
		}{
			"no lambda":       {func(g *kinesinv1.Gate) { g.Lambda = "" }, []string{"lambda name"}},
			"unknown lambda":  {func(g *kinesinv1.Gate) { g.Lambda = "nail" }, []string{"nail"}},
			"action":          {func(g *kinesinv1.Gate) { g.Action = "stop" }, []string{`"stop"`, "pause or drop"}},
			"no reason":       {func(g *kinesinv1.Gate) { g.Reason = " " }, []string{"reason", "empty"}},
			"long reason":     {func(g *kinesinv1.Gate) { g.Reason = tooLong }, []string{"reason", "at most 512"}},
			"past":            {func(g *kinesinv1.Gate) { g.Until = int64(inboundtest.Start) }, []string{"expiry", "has passed"}},
			"other priority":  {func(g *kinesinv1.Gate) { g.Lambda, g.Priority = "urgent", "high" }, []string{`"high"`, "now, soon"}},
			"two ways":        {func(g *kinesinv1.Gate) { g.Priority, g.Collection = "high", "c" }, []string{"at most one of priority, collection and tag"}},
			"tag":             {func(g *kinesinv1.Gate) { g.Tag = "tenant" }, []string{"NAME=VALUE"}},
			"tag name":        {func(g *kinesinv1.Gate) { g.Tag = "a b=c" }, []string{"tag name", "spaces"}},
			"long collection": {func(g *kinesinv1.Gate) { g.Collection = strings.Repeat("c", 129) }, []string{"collection", "at most 128"}},
		} {
			for _, dryRun := range []bool{false, true} {
				_, err := f.SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause(c.change), DryRun: dryRun})
				if err == nil {
					t.Errorf("%s: it was taken", name)
					continue
				}
				for _, says := range c.says {
					if text := api.ProblemOf(err).GetText(); !strings.Contains(text, says) {
						t.Errorf("%s: %q does not say %q", name, text, says)
					}
				}
			}
		}
		f.set(pause(func(g *kinesinv1.Gate) { g.Action = "drop" }))
		for says, r := range map[string]*kinesinv1.ResumeGateRequest{
			"an id is a number":  {Id: "maintenance"},
			"no gate 7":          {Id: "7"},
			"1 to 1000000 tasks": {Id: "1", Pace: 1_000_001},
			"drops tasks":        {Id: "1", Pace: 7},
		} {
			if _, err := f.ResumeGate(f.Ctx, r); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v, want %q", r, err, says)
			}
		}
		if _, err := f.SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause(), RequestId: []byte("short")}); err == nil || !strings.Contains(err.Error(), "UUID of 16") {
			t.Error(err)
		}
		if _, err := f.ListGates(f.Ctx, &kinesinv1.ListGatesRequest{Lambda: "nail"}); err == nil {
			t.Error("gates of an unknown lambda were listed")
		}
		if got := f.rows(gate.Kind); got != "1" {
			t.Errorf("rows of refused gates: %s", got)
		}
	})
}

func TestADryRunCountsAndSetsNothing(t *testing.T) {
	run(t, func(f *fixture) {
		for i := range 30 {
			item := &kinesinv1.ScheduleItem{Lambda: "mail", Priority: []string{"high", "low"}[i%2]}
			if i%3 == 0 {
				item.Collection = "c 'quoted\""
			}
			if i%5 == 0 {
				item.Tags = map[string]string{"(odd": "a=b"}
			}
			f.schedule(item, time.Duration(i)*10*time.Minute) // 0, 10, … 290 min
		}
		f.schedule(&kinesinv1.ScheduleItem{Lambda: "pay"}, 0)
		f.sleep(95 * time.Minute) // 0 to 9 are due, 10 to 15 within an hour
		for name, c := range map[string]struct {
			change     func(*kinesinv1.Gate)
			now, later int64
		}{
			"lambda":     {func(*kinesinv1.Gate) {}, 10, 6},
			"priority":   {func(g *kinesinv1.Gate) { g.Priority = "low" }, 5, 3},
			"collection": {func(g *kinesinv1.Gate) { g.Collection = "c 'quoted\"" }, 4, 2},
			"tag":        {func(g *kinesinv1.Gate) { g.Tag = "(odd=a=b" }, 2, 2},
			"drop":       {func(g *kinesinv1.Gate) { g.Action = "drop" }, 10, 6},
			"ends":       {func(g *kinesinv1.Gate) { g.Until = int64(f.Clock.Now().Add(20 * time.Minute)) }, 10, 2},
			"other":      {func(g *kinesinv1.Gate) { g.Lambda = "pay" }, 1, 0},
			"unused":     {func(g *kinesinv1.Gate) { g.Collection = "nobody's" }, 0, 0},
		} {
			g := f.dry(pause(c.change))
			if g.Id != "" || g.State != "" || g.Counts.Now != c.now || g.Counts.NextHour != c.later || !g.Counts.Exact || g.Counts.Sent != 0 {
				t.Errorf("%s: %v, want %d now and %d later", name, g, c.now, c.later)
			}
			if says := strings.Contains(g.Note, "no live task of lambda mail has collection nobody's"); says != (name == "unused") {
				t.Errorf("%s: note %q", name, g.Note)
			}
		}
		if f.rows(gate.Kind) != "" {
			t.Error("a dry run has set a gate")
		}
		f.set(pause())
		if c := f.gate("1").Counts; c.Now != 10 || c.NextHour != 6 {
			t.Errorf("of the gate: %v", c)
		}
		f.resume("1", 5)
		f.sleep(time.Hour) // what comes due after the resume is not held
		if c := f.gate("1").Counts; c.Now != 10 || c.NextHour != 0 {
			t.Errorf("of the gate that resumes: %v", c)
		}
		f.As("reader", "read:mail:nothing")
		if c := f.gate("1").Counts; c.Now != 0 {
			t.Errorf("tasks that may not be read were counted: %v", c)
		}
	})
}

func TestTwoTriesOfOneCallSetOneGate(t *testing.T) {
	run(t, func(f *fixture) {
		id := task.NewID(inboundtest.Start, 1, 2)
		ask := func(g *kinesinv1.Gate) (*kinesinv1.SetGateResponse, error) {
			return f.serving(f.Store).SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: g, RequestId: id[:]})
		}
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if r, err := ask(pause()); err != nil || r.Gate.Id != "1" {
					t.Errorf("%v %v", r, err)
				}
			})
		}
		group.Wait()
		if got := f.rows(gate.Kind); got != "1" {
			t.Errorf("gates %s, want one", got)
		}
		if _, err := ask(pause(func(g *kinesinv1.Gate) { g.Priority = "low" })); !errors.Is(err, api.ErrExists) {
			t.Errorf("another gate with the same request id: %v", err)
		}
		f.resume("1", 0)
		if r, err := ask(pause()); err != nil || r.Gate.State != "ended" {
			t.Errorf("a late try sets a gate anew: %v %v", r, err)
		}
		f.As("other", "*:*")
		if r, err := ask(pause()); err != nil || r.Gate.Id != "2" {
			t.Errorf("the same request id of another caller: %v %v", r, err)
		}
	})
}

// overtaken is a store in which something happens just before the next row is put.
type overtaken struct {
	gate.Store
	by func()
}

func (o *overtaken) PutControl(ctx context.Context, c store.Control) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Store.PutControl(ctx, c)
}

// A call that is overtaken looks again: it finds what another try of it has set, or takes the next number.
func TestACallThatIsOvertaken(t *testing.T) {
	run(t, func(f *fixture) {
		id := task.NewID(inboundtest.Start, 1, 2)
		r := &kinesinv1.SetGateRequest{Gate: pause(), RequestId: id[:]}
		rows := &overtaken{f.Store, func() {
			if _, err := f.SetGate(f.Ctx, r); err != nil {
				t.Error(err)
			}
		}}
		if got, err := f.serving(rows).SetGate(f.Ctx, r); err != nil || got.Gate.Id != "1" || f.rows(gate.Kind) != "1" {
			t.Errorf("by another try: %v %v, gates %s", got, err, f.rows(gate.Kind))
		}
		rows.by = func() { f.set(pause()) }
		if got, err := f.serving(rows).SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause()}); err != nil || got.Gate.Id != "3" {
			t.Errorf("by another call: %v %v", got, err)
		}
		rows.by = func() { f.resume("1", 7) }
		if got, err := f.serving(rows).ResumeGate(f.Ctx, &kinesinv1.ResumeGateRequest{Id: "1"}); err != nil || got.Gate.State != "ended" || got.Gate.Pace != 7 {
			t.Errorf("a resume by another: %v %v", got, err)
		}
	})
}

// A gate is set and ends while another call is about to put its gate under the same number. That number is used
// by then, and so is that of a gate which only a newer version can read.
func TestANumberIsNotUsedAgainByACallThatIsOvertaken(t *testing.T) {
	run(t, func(f *fixture) {
		rows := &overtaken{f.Store, func() { f.sleep(time.Second); f.set(pause()); f.resume("1", 0) }}
		got, err := f.serving(rows).SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause()})
		if err != nil || got.Gate.Id != "2" || f.rows(gate.Kind) != "2" || f.rows(gate.KindEnded) != "1" {
			t.Errorf("%v %v, gates %s, ended %s", got, err, f.rows(gate.Kind), f.rows(gate.KindEnded))
		}
		if err := f.Store.PutControl(f.Ctx, store.Control{Kind: gate.KindEnded, Name: "7", Version: 1, Value: []byte("newer")}); err != nil {
			t.Fatal(err)
		}
		if g := f.set(pause()); g.Id != "8" {
			t.Errorf("the gate after number 7, which cannot be read, is %s", g.Id)
		}
	})
}

// ended ends each gate as soon as it is stored.
type ended struct {
	*store.Store

	end func(id string)
}

func (e *ended) PutControl(ctx context.Context, c store.Control) error {
	err := e.Store.PutControl(ctx, c)
	e.end(c.Name)
	return err
}

func TestAGateThatEndsAtOnceIsSetOnce(t *testing.T) {
	run(t, func(f *fixture) {
		rows := &ended{f.Store, func(id string) { f.resume(id, 0) }}
		got, err := f.serving(rows).SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause()})
		if err != nil || got.Gate.Id != "1" || f.rows(gate.Kind) != "" || f.rows(gate.KindEnded) != "1" {
			t.Errorf("%v %v, gates %s, ended %s", got, err, f.rows(gate.Kind), f.rows(gate.KindEnded))
		}
	})
}

func TestGatesSetAtOnceHaveNumbersOfTheirOwn(t *testing.T) {
	run(t, func(f *fixture) {
		var mu sync.Mutex
		seen := map[string]bool{}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				r, err := f.serving(f.Store).SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause()})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || seen[r.Gate.Id] {
					t.Errorf("%v %v, seen %v", r, err, seen)
					return
				}
				seen[r.Gate.Id] = true
			})
		}
		group.Wait()
		if len(seen) != 8 {
			t.Errorf("gates %v", seen)
		}
	})
}

// The number of a gate that was forgotten is not used again.
func TestNumbersAreNotUsedAgain(t *testing.T) {
	run(t, func(f *fixture) {
		f.tidying()
		for _, want := range []string{"1", "2"} {
			if g := f.set(pause()); g.Id != want {
				t.Fatal(g.Id)
			}
			f.resume(want, 0)
		}
		f.sleep(gate.KeptFor + time.Hour)
		if got := f.rows(gate.KindEnded); got != "2" {
			t.Errorf("kept: %q", got)
		}
		if got := f.listed("", true); got != "" {
			t.Errorf("shown: %q", got)
		}
		if g := f.set(pause()); g.Id != "3" {
			t.Errorf("the next gate is %s", g.Id)
		}
	})
}

// A resume at a pace takes the expiry away: at it, all that is left would go at once.
func TestAPaceOutlastsTheExpiry(t *testing.T) {
	run(t, func(f *fixture) {
		f.tidying()
		f.schedule(&kinesinv1.ScheduleItem{Lambda: "mail"}, 0)
		call := &kinesinv1.SetGateRequest{
			Gate: pause(func(g *kinesinv1.Gate) { g.Until = int64(inboundtest.Start.Add(time.Hour)) }), RequestId: make([]byte, len(task.ID{})),
		}
		if r, err := f.serving(f.Store).SetGate(f.Ctx, call); err != nil || r.Gate.Until != call.Gate.Until {
			t.Fatalf("%v %v", r, err)
		}
		f.resume("1", 7)
		if r, err := f.serving(f.Store).SetGate(f.Ctx, call); err != nil || r.Gate.Id != "1" {
			t.Errorf("set again by the same call: %v %v", r, err)
		}
		f.sleep(2 * time.Hour)
		if g := f.gate("1"); g.State != "resuming" || g.Until != 0 {
			t.Errorf("after the expiry: %v", g)
		}
	})
}

func TestAGateExpires(t *testing.T) {
	run(t, func(f *fixture) {
		f.set(pause(func(g *kinesinv1.Gate) { g.Until = int64(inboundtest.Start.Add(time.Hour)) }))
		f.set(pause(func(g *kinesinv1.Gate) { g.Until = int64(inboundtest.Start.Add(2 * time.Hour)) }))
		f.sleep(time.Hour)
		g := f.gate("1") // nobody has tidied up yet
		if g.State != "ended" || g.Ended != int64(inboundtest.Start.Add(time.Hour)) || g.EndedBy != "" || g.Counts != nil {
			t.Errorf("%v", g)
		}
		if got := f.listed("", false) + "; " + f.listed("", true); got != "2 active; 2 active, 1 ended" {
			t.Error(got)
		}
		f.tidying()
		f.sleep(time.Second)
		if f.rows(gate.Kind) != "2" || f.rows(gate.KindEnded) != "1" {
			t.Errorf("active %s, ended %s", f.rows(gate.Kind), f.rows(gate.KindEnded))
		}
		if moved := f.gate("1"); moved.Ended != g.Ended || moved.EndedBy != "" {
			t.Errorf("moved: %v", moved)
		}
	})
}

func TestTheGatesOfADeletedLambdaEnd(t *testing.T) {
	run(t, func(f *fixture) {
		f.tidying()
		entry := f.Create(task.Lambda{Name: "gone"})
		f.set(pause(func(g *kinesinv1.Gate) { g.Lambda = "gone" }))
		f.set(pause())
		if err := f.Catalog.Remove(f.Ctx, entry); err != nil {
			t.Fatal(err)
		}
		if got := f.listed("", true); got != "2 active, 1 ended" {
			t.Error(got)
		}
		f.sleep(2 * time.Minute)
		if g := f.gate("1"); f.rows(gate.KindEnded) != "1" || g.Ended == 0 || g.EndedBy != access.ServerName {
			t.Errorf("%v, ended %s", g, f.rows(gate.KindEnded))
		}
		f.Create(task.Lambda{Name: "gone"})
		if got := f.listed("gone", false); got != "" {
			t.Errorf("a new lambda of the name has gates: %s", got)
		}
	})
}

// A process that does not know a new lambda yet does not take it for deleted.
func TestTheGateOfANewLambdaStays(t *testing.T) {
	run(t, func(f *fixture) {
		behind := catalog.New(f.Store, f.Clock, slog.New(slog.DiscardHandler), catalog.Limits{})
		if _, err := behind.Find(f.Ctx, "new"); err == nil { // it looks again a while later only
			t.Fatal("found")
		}
		f.Create(task.Lambda{Name: "new"})
		f.set(pause(func(g *kinesinv1.Gate) { g.Lambda = "new" }))
		c := f.Config
		c.Lambdas = behind
		f.Service = gate.New(c)
		f.tidying()
		synctest.Wait()
		if got := f.listed("", false); got != "1 active" || f.rows(gate.Kind) != "1" {
			t.Errorf("%q, rows %q", got, f.rows(gate.Kind))
		}
	})
}

func TestOverlapsAreSaid(t *testing.T) {
	run(t, func(f *fixture) {
		ways := []func(*kinesinv1.Gate){
			func(g *kinesinv1.Gate) { g.Priority = "high" },
			func(g *kinesinv1.Gate) { g.Priority = "low" },
			func(g *kinesinv1.Gate) { g.Collection = "c" },
			func(g *kinesinv1.Gate) { g.Tag = "a=1" },
			func(g *kinesinv1.Gate) { g.Tag = "a=2" },
			func(g *kinesinv1.Gate) { g.Tag = "b=1" },
			func(g *kinesinv1.Gate) { g.Lambda = "pay" },
			func(*kinesinv1.Gate) {},
		}
		want := []string{"", "", "1, 2", "1, 2, 3", "1, 2, 3", "1, 2, 3, 4, 5", "", "1, 2, 3, 4, 5, 6"}
		for i, way := range ways {
			g := f.set(pause(way))
			got := ""
			if _, after, overlaps := strings.Cut(g.Note, "it overlaps with gate"); overlaps {
				got, _, _ = strings.Cut(strings.TrimPrefix(after, "s"), ":")
				got = strings.TrimSpace(got)
			}
			if got != want[i] {
				t.Errorf("gate %s overlaps with %q (%s), want %q", g.Id, got, g.Note, want[i])
			}
		}
		if g := f.gate("7"); g.Note != "" {
			t.Errorf("shown: %q", g.Note)
		}
		if g := f.gate("1"); !strings.Contains(g.Note, "gates 3, 4, 5, 6, 8:") {
			t.Errorf("shown: %q", g.Note)
		}
	})
}

func TestWhatADeliverLambdaHasSentIsSaid(t *testing.T) {
	run(t, func(f *fixture) {
		f.Create(task.Lambda{Name: "invoices", Mode: task.Deliver})
		of := func(g *kinesinv1.Gate) { g.Lambda = "invoices" }
		f.queue.visible = 7
		g := f.dry(pause(of))
		if g.Counts.Sent != 21 || !strings.Contains(g.Note, "cannot be held") {
			t.Errorf("three queues of 7: %v", g)
		}
		if g = f.dry(pause(of, func(g *kinesinv1.Gate) { g.Priority = "low" })); g.Counts.Sent != 7 {
			t.Errorf("one queue of 7: %v", g)
		}
		f.queue.err = errors.New("no answer")
		if g = f.dry(pause(of)); g.Counts.Sent != -1 {
			t.Errorf("no answer: %v", g)
		}
		if g = f.set(pause(of)); !strings.Contains(g.Note, "cannot be held") || g.Counts != nil {
			t.Errorf("set: %v", g)
		}
	})
}

func TestGatesAreBounded(t *testing.T) {
	run(t, func(f *fixture) {
		entry, err := f.Catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		for i := range gate.ActiveMax {
			row, err := gate.AsRows.Encode(&hold.Gate{ID: fmt.Sprint(i + 1), Action: hold.Pause, Lambda: "mail", Ref: entry.Ref})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Store.PutControl(f.Ctx, row); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.SetGate(f.Ctx, &kinesinv1.SetGateRequest{Gate: pause()}); api.ProblemOf(err).GetReason() != kinesinv1.Reason_REASON_FULL {
			t.Errorf("one more: %v", err)
		}
		f.resume("1000", 0)
		if g := f.set(pause()); g.Id != "1001" {
			t.Errorf("after one was resumed: %v", g)
		}
	})
}

func TestATaskTellsTheGateThatHoldsIt(t *testing.T) {
	run(t, func(f *fixture) {
		due := f.schedule(&kinesinv1.ScheduleItem{Lambda: "mail", Priority: "low"}, 0)
		later := f.schedule(&kinesinv1.ScheduleItem{Lambda: "mail"}, 3*time.Hour)
		other := f.schedule(&kinesinv1.ScheduleItem{Lambda: "pay"}, 0)
		if w := f.task(due).WaitsFor; w != nil {
			t.Errorf("without a gate: %v", w)
		}
		f.set(pause(func(g *kinesinv1.Gate) { g.Until = int64(inboundtest.Start.Add(time.Hour)) }))
		w := f.task(due).WaitsFor
		if w.GetReason() != "gate" || w.GetGate() != "1" || w.GetUntil() != int64(inboundtest.Start.Add(time.Hour)) ||
			w.GetText() != `gate 1 "db maintenance" until 2023-11-14T23:13:20Z` {
			t.Errorf("%v", w)
		}
		if w := f.task(later).WaitsFor; w != nil {
			t.Errorf("due after the gate: %v", w)
		}
		if w := f.task(other).WaitsFor; w != nil {
			t.Errorf("of another lambda: %v", w)
		}
		f.set(pause(func(g *kinesinv1.Gate) { g.Action, g.Priority, g.Reason = "drop", "normal", "bad batch" }))
		if w := f.task(later).WaitsFor; w.GetText() != `gate 2 "bad batch" drops it when it is due` {
			t.Errorf("%v", w)
		}
		f.sleep(20 * time.Second)
		f.resume("1", 7)
		if w := f.task(due).WaitsFor; w.GetText() != `gate 1 "db maintenance", which resumes at 7 tasks per second` {
			t.Errorf("%v", w)
		}
		if r, err := f.in.List(f.Ctx, &kinesinv1.ListRequest{Lambda: "mail"}); err != nil || r.Tasks[0].WaitsFor == nil || r.Tasks[1].WaitsFor == nil {
			t.Errorf("listed: %v %v", r, err)
		}
		if _, err := f.in.Cancel(f.Ctx, &kinesinv1.CancelRequest{Ids: []string{due}}); err != nil {
			t.Fatal(err)
		}
		if got := f.task(due); got.State != "cancelled" || got.WaitsFor != nil {
			t.Errorf("of an ended task: %v", got)
		}
	})
}

// unmoving is a store that refuses the rows of gates that have ended.
type unmoving struct {
	gate.Store
	broken bool
}

func (u *unmoving) PutControl(ctx context.Context, c store.Control) error {
	if u.broken && c.Kind == gate.KindEnded {
		return store.ErrUnknown
	}
	return u.Store.PutControl(ctx, c)
}

// The end of a gate is stored before its row is moved: an error in between leaves nothing held.
func TestAGateWhoseRowIsNotMovedHasEnded(t *testing.T) {
	run(t, func(f *fixture) {
		f.set(pause())
		f.sleep(time.Second)
		rows := &unmoving{Store: f.Store, broken: true}
		f.Service = f.serving(rows)
		if got := f.resume("1", 0); got.State != "ended" || f.rows(gate.Kind) != "1" {
			t.Errorf("%v, active %q", got, f.rows(gate.Kind))
		}
		f.sleep(time.Second)
		if got := f.resume("1", 0); got.State != "ended" || got.Ended != int64(inboundtest.Start.Add(time.Second)) {
			t.Errorf("again: %v", got)
		}
		rows.broken = false
		f.tidying()
		f.sleep(2 * time.Minute)
		if f.rows(gate.Kind) != "" || f.gate("1").Ended != int64(inboundtest.Start.Add(time.Second)) {
			t.Errorf("active %q, %v", f.rows(gate.Kind), f.gate("1"))
		}
	})
}

func TestAGateThatResumesEndsWhenItHoldsNothing(t *testing.T) {
	run(t, func(f *fixture) {
		held := f.schedule(&kinesinv1.ScheduleItem{Lambda: "mail"}, 0)
		f.schedule(&kinesinv1.ScheduleItem{Lambda: "mail"}, time.Hour) // comes due later: not held any more
		f.set(pause())
		f.sleep(time.Second)
		f.resume("1", 7)
		f.tidying()
		f.sleep(3 * time.Minute)
		if g := f.gate("1"); g.State != "resuming" {
			t.Errorf("with a task left it is %s", g.State)
		}
		if _, err := f.in.Cancel(f.Ctx, &kinesinv1.CancelRequest{Ids: []string{held}}); err != nil {
			t.Fatal(err)
		}
		f.sleep(2 * time.Minute)
		if g := f.gate("1"); g.State != "ended" || g.EndedBy != "ops" || f.rows(gate.KindEnded) != "1" {
			t.Errorf("without one: %v", g)
		}
	})
}
