package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/deadletter"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

// driver has dead letters by priority. Each step changes two messages.
type driver struct {
	queue.Driver

	dead  map[string][]queue.DeadLetter
	moves map[string]*queue.Move // nil: it has no moves
	steps []queue.DeadLetterStep
	err   error // of the next step
}

func (d *driver) FindDeadLetters(_ context.Context, l task.Lambda, priority string) (queue.DeadLetterQueue, error) {
	if d.dead[priority] == nil {
		return queue.DeadLetterQueue{}, fmt.Errorf("%w: queue %s", queue.ErrNoDeadLetters, priority)
	}
	return queue.DeadLetterQueue{Priority: priority, Source: l.Name + "-" + priority, Name: priority, ReceivesMax: 10}, nil
}

func (d *driver) CountDeadLetters(_ context.Context, q *queue.DeadLetterQueue) (int, *queue.Move, error) {
	return len(d.dead[q.Name]), d.moves[q.Name], nil
}

func (d *driver) PeekDeadLetters(_ context.Context, q *queue.DeadLetterQueue, limit, _ int) ([]queue.DeadLetter, error) {
	return d.dead[q.Name][:min(limit, len(d.dead[q.Name]))], nil
}

func (d *driver) MoveDeadLetters(_ context.Context, q *queue.DeadLetterQueue, _ int) (queue.Move, error) {
	if d.moves == nil {
		return queue.Move{}, queue.ErrNoMoves
	}
	d.moves[q.Name] = &queue.Move{State: queue.MoveRunning, Total: int64(len(d.dead[q.Name]))}
	return *d.moves[q.Name], nil
}

func (d *driver) ChangeDeadLetters(_ context.Context, q *queue.DeadLetterQueue, s queue.DeadLetterStep) (int, bool, error) {
	d.steps = append(d.steps, s)
	if err := d.err; err != nil {
		d.err = nil
		return 0, false, err
	}
	n := min(2, len(d.dead[q.Name]))
	d.dead[q.Name] = d.dead[q.Name][n:]
	return n, len(d.dead[q.Name]) > 0, nil
}

func (d *driver) PurgeDeadLetters(_ context.Context, q *queue.DeadLetterQueue) error {
	d.dead[q.Name] = []queue.DeadLetter{}
	return nil
}

// service serves the lambdas out (deliver; high and low) and work (managed).
func service(d queue.Driver) *deadletter.Service {
	return deadletter.New(deadletter.Config{
		Queue: queue.New(d, queue.Config{}), Clock: clock.Real(),
		Lambda: func(_ context.Context, name string) (*catalog.Entry, error) {
			switch name {
			case "out":
				return &catalog.Entry{Lambda: task.Lambda{Name: name, Mode: task.Deliver, Priorities: []string{"high", "low"}}}, nil
			case "work":
				return &catalog.Entry{Lambda: task.Lambda{Name: name, Priorities: []string{"high"}}}, nil
			}
			return nil, catalog.ErrUnknown
		},
		LambdaOf: func(_ context.Context, id string) (string, error) {
			if lambda, issued := strings.CutPrefix(id, "id-of-"); issued {
				return lambda, nil
			}
			return "", task.ErrBadID
		},
	})
}

func letters(ids ...string) []queue.DeadLetter {
	all := make([]queue.DeadLetter, len(ids))
	for i, id := range ids {
		all[i] = queue.DeadLetter{TaskID: id, MessageID: fmt.Sprint("m", i), Due: 7, PayloadBytes: 1}
	}
	return all
}

// TestOnlyIDsOfTheLambdaAreBelieved: whoever may send to the queue can write any attribute.
func TestOnlyIDsOfTheLambdaAreBelieved(t *testing.T) {
	s := service(&driver{Driver: mem.New(clock.Real(), mem.Config{}), dead: map[string][]queue.DeadLetter{"high": letters("id-of-out", "id-of-other"), "low": letters("", "forged")}})
	r, err := s.ListDeadLetters(t.Context(), &kinesinv1.ListDeadLettersRequest{Lambda: "out"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.Messages {
		got = append(got, fmt.Sprint(m.Priority, " ", m.Id, " ", m.Due))
	}
	if want := "high id-of-out 7,high m1 0,low m0 0,low m1 0"; strings.Join(got, ",") != want || r.More {
		t.Errorf("got %v, more %v; want %s", got, r.More, want)
	}
	r, err = s.ListDeadLetters(t.Context(), &kinesinv1.ListDeadLettersRequest{Lambda: "out", Limit: 2})
	if err != nil || len(r.Messages) != 2 || !r.More {
		t.Errorf("two of four: %v, %v", r, err)
	}
}

// TestStepsGoOnWhereTheyWere calls as a client does, until there is no more.
func TestStepsGoOnWhereTheyWere(t *testing.T) {
	for _, action := range []string{deadletter.ActionRedrive, deadletter.ActionDelete} {
		d := &driver{Driver: mem.New(clock.Real(), mem.Config{}), dead: map[string][]queue.DeadLetter{"high": letters("a", "b", "c"), "low": letters("d")}}
		s, total := service(d), int64(0)
		r := &kinesinv1.ChangeDeadLettersResponse{More: true}
		for calls := 0; r.More; calls++ {
			if calls == 1 {
				d.err = errors.New("SQS is down for a moment") // after the call before it had changed some
			}
			next, err := s.ChangeDeadLetters(t.Context(), &kinesinv1.ChangeDeadLettersRequest{Action: action, Lambda: "out", Pace: 9, Began: r.Began})
			if calls == 1 {
				if err == nil {
					t.Errorf("%s: no error", action)
				}
				continue
			}
			if err != nil || calls > 5 {
				t.Fatalf("%s, call %d: %v", action, calls, err)
			}
			if r.Began != 0 && next.Began != r.Began {
				t.Errorf("%s began at %d, and later at %d", action, r.Began, next.Began)
			}
			r = next
			total += r.Outcomes["redriven"] + r.Outcomes["deleted"]
		}
		for _, step := range d.steps {
			if int64(step.Before) != r.Began || step.Pace != 9 || step.Redrive != (action == deadletter.ActionRedrive) || step.For <= 0 || step.For > time.Minute {
				t.Errorf("%s: step %+v", action, step)
			}
		}
		if total != 4 {
			t.Errorf("%s changed %d messages, want 4", action, total)
		}
	}
}

func TestMovesAreLeftToTheService(t *testing.T) {
	d := &driver{Driver: mem.New(clock.Real(), mem.Config{}), dead: map[string][]queue.DeadLetter{"high": letters("a"), "low": letters("b", "c")}, moves: map[string]*queue.Move{}}
	s := service(d)
	r, err := s.ChangeDeadLetters(t.Context(), &kinesinv1.ChangeDeadLettersRequest{Action: "redrive", Lambda: "out", Priority: "low"})
	if err != nil || r.More || len(r.Queues) != 1 || r.Queues[0].Move.GetState() != "running" || len(d.steps) > 0 {
		t.Errorf("%v, %v, steps %v", r, err, d.steps)
	}
	counted, err := s.CountDeadLetters(t.Context(), &kinesinv1.CountDeadLettersRequest{Lambda: "out"})
	if err != nil || counted.Count != 3 || len(counted.Queues) != 2 || counted.Queues[0].Move != nil || counted.Queues[1].Move.GetTotal() != 2 {
		t.Errorf("%v, %v", counted, err)
	}
	purged, err := s.ChangeDeadLetters(t.Context(), &kinesinv1.ChangeDeadLettersRequest{Action: "delete", Lambda: "out", Purge: true})
	if err != nil || purged.More || purged.Outcomes["deleted"] != 3 || len(d.dead["low"]) > 0 {
		t.Errorf("%v, %v", purged, err)
	}
}

func TestDeadLetterRefusals(t *testing.T) {
	d := &driver{Driver: mem.New(clock.Real(), mem.Config{}), dead: map[string][]queue.DeadLetter{"high": letters("a")}}
	s := service(d)
	denied := service(&driver{Driver: mem.New(clock.Real(), mem.Config{}), dead: map[string][]queue.DeadLetter{"high": letters("a")}, err: fmt.Errorf("%w: sqs:ReceiveMessage", queue.ErrDenied)})
	change := func(s *deadletter.Service, r *kinesinv1.ChangeDeadLettersRequest) error {
		_, err := s.ChangeDeadLetters(t.Context(), r)
		return err
	}
	list := func(s *deadletter.Service, r *kinesinv1.ListDeadLettersRequest) error {
		_, err := s.ListDeadLetters(t.Context(), r)
		return err
	}
	invalid, notFound, unsupported := kinesinv1.Reason_REASON_INVALID, kinesinv1.Reason_REASON_NOT_FOUND, kinesinv1.Reason_REASON_UNSUPPORTED
	for _, c := range []struct {
		err    error
		reason kinesinv1.Reason
		says   string
	}{
		{list(s, &kinesinv1.ListDeadLettersRequest{Lambda: "work"}), invalid, "lambda=work and state=dead"},
		{list(s, &kinesinv1.ListDeadLettersRequest{Lambda: "nope"}), kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, ""},
		{list(s, &kinesinv1.ListDeadLettersRequest{Lambda: "out", Priority: "mid"}), invalid, "high, low"},
		{list(s, &kinesinv1.ListDeadLettersRequest{Lambda: "out", Limit: 1001}), invalid, "to 1000"},
		{list(s, &kinesinv1.ListDeadLettersRequest{Lambda: "out"}), notFound, "no dead-letter queue: queue low"},
		{list(service(mem.New(clock.Real(), mem.Config{})), &kinesinv1.ListDeadLettersRequest{Lambda: "out"}), unsupported, "need SQS"},
		{change(s, &kinesinv1.ChangeDeadLettersRequest{Action: "purge", Lambda: "out"}), invalid, "want redrive or delete"},
		{change(s, &kinesinv1.ChangeDeadLettersRequest{Action: "redrive", Lambda: "out", Purge: true}), invalid, "for the action delete"},
		{change(s, &kinesinv1.ChangeDeadLettersRequest{Action: "delete", Lambda: "out", Purge: true, Pace: 1}), invalid, "no pace"},
		{change(s, &kinesinv1.ChangeDeadLettersRequest{Action: "delete", Lambda: "out", Pace: 501}), invalid, "0 (as fast as SQS) to 500"},
		{change(s, &kinesinv1.ChangeDeadLettersRequest{Action: "delete", Lambda: "out", Began: 1 << 62}), invalid, "began"},
		{change(denied, &kinesinv1.ChangeDeadLettersRequest{Action: "delete", Lambda: "out", Priority: "high"}), unsupported, "sqs:ReceiveMessage"},
	} {
		p := api.ProblemOf(c.err)
		if p.GetReason() != c.reason || !strings.Contains(p.GetText(), c.says) {
			t.Errorf("%v; want %v with %q", p, c.reason, c.says)
		}
	}
	if len(d.steps) > 0 {
		t.Errorf("%d steps of calls that are refused", len(d.steps))
	}
}
