package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// soon is how far ahead tasks are counted that a gate will hold.
	soon = time.Hour
	// lookRowsMax bounds the rows that are read to find a task with a collection or a tag.
	lookRowsMax = 20_000
)

// GetGate returns a gate, and, unless it has ended, how many tasks it holds of those that the caller may
// read.
func (s *Service) GetGate(ctx context.Context, r *kinesinv1.GetGateRequest) (_ *kinesinv1.GetGateResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	g, l, err := s.find(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	v := s.view(g, l)
	if v.State == stateEnded {
		return &kinesinv1.GetGateResponse{Gate: v}, nil
	}
	active, err := s.gates.All(ctx)
	if err != nil {
		return nil, err
	}
	v.Note = strings.Join(s.lasting(g, l, active), "; ")
	v.Counts, err = s.count(ctx, g, l, access.From(ctx).Grants)
	return &kinesinv1.GetGateResponse{Gate: v}, err
}

// ListGates returns the gates, newest first.
func (s *Service) ListGates(ctx context.Context, r *kinesinv1.ListGatesRequest) (_ *kinesinv1.ListGatesResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if r.Lambda != "" && !r.Ended { // a deleted lambda has gates that have ended
		if _, err := s.Lambdas.Find(ctx, r.Lambda); err != nil {
			return nil, err
		}
	}
	all, err := s.gates.All(ctx)
	if err == nil && r.Ended {
		var ended []*hold.Gate
		ended, err = s.gates.AllEnded(ctx)
		all = append(all, ended...)
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{} // one that is being moved is there twice
	response := &kinesinv1.ListGatesResponse{}
	for _, g := range all {
		l, err := s.lambdaOf(ctx, g)
		if err != nil {
			return nil, err
		}
		v := s.view(g, l)
		shown := v.State != stateEnded || r.Ended && s.Clock.Now() < keptUntil(g)
		if shown && !seen[g.ID] && (r.Lambda == "" || g.Lambda == r.Lambda) {
			seen[g.ID] = true
			response.Gates = append(response.Gates, v)
		}
	}
	slices.SortFunc(response.Gates, func(a, b *kinesinv1.Gate) int { return cmp.Compare(NumberOf(b.Id), NumberOf(a.Id)) })
	return response, nil
}

// keptUntil returns for how long a gate is shown.
func keptUntil(g *hold.Gate) task.Instant {
	if g.Ended.IsZero() {
		return math.MaxInt64
	}
	return g.Ended.Add(KeptFor)
}

// View returns a gate as users see it.
func View(g *hold.Gate, now task.Instant) *kinesinv1.Gate {
	v := &kinesinv1.Gate{
		Id: g.ID, Action: string(g.Action), Lambda: g.Lambda, Priority: g.Priority, Collection: g.Collection, Reason: g.Reason, Owner: g.Owner,
		Created: int64(g.Created), Until: int64(g.Until), State: g.State(now), Pace: g.Pace, Ended: int64(g.Ended), EndedBy: g.EndedBy,
	}
	if g.TagName != "" {
		v.Tag = g.TagName + "=" + g.TagValue
	}
	if v.State == stateEnded && g.Ended.IsZero() {
		v.Ended = v.Until
	}
	return v
}

// view returns a gate as users see it, which has ended if its lambda was deleted.
func (s *Service) view(g *hold.Gate, l *catalog.Entry) *kinesinv1.Gate {
	v := View(g, s.Clock.Now())
	if l == nil {
		v.State = stateEnded
	}
	return v
}

// count counts the tasks that a gate holds, or would, of those that somebody may read.
func (s *Service) count(ctx context.Context, g *hold.Gate, l *catalog.Entry, by access.Grants) (*kinesinv1.GateCounts, error) {
	now := s.Clock.Now()
	filter := "state in (scheduled, enqueued, retriable_failure)"
	if g.Priority != "" {
		filter += fmt.Sprintf(" and priority=%q", g.Priority)
	}
	of, err := inbound.Select(filter, now, by)
	if err != nil {
		return nil, err
	}
	of.Lambda, of.Only = l, g.Selects
	at, until := now, now.Add(soon)
	if !g.Until.IsZero() {
		until = min(until, g.Until)
	}
	if !g.Resumed.IsZero() && !g.Probes() {
		at, until = g.Resumed, g.Resumed
	}
	c := &kinesinv1.GateCounts{Sent: s.sent(ctx, g, l)}
	c.Now, c.NextHour, c.Exact, err = s.Tasks.CountDue(ctx, of, at, until)
	return c, err
}

// sent returns how many tasks of a deliver lambda are on SQS, which no gate holds; -1 if that is not known.
func (s *Service) sent(ctx context.Context, g *hold.Gate, l *catalog.Entry) (n int64) {
	if l.Mode != task.Deliver {
		return 0
	}
	for i := range l.Priorities {
		if g.Priority != "" && i != int(g.Class) {
			continue
		}
		depth, err := s.Queue.Depth(ctx, queue.Name{Lambda: l.Ref, Priority: uint8(i)})
		if err != nil {
			s.Log.WarnContext(ctx, "the messages of a deliver lambda were not counted", slog.String("lambda", l.Name), slog.Any("error", err))
			return -1
		}
		n += int64(depth.Visible)
	}
	return n
}

// note says what is unusual about a gate that is set now.
func (s *Service) note(ctx context.Context, g *hold.Gate, l *catalog.Entry, active []*hold.Gate) string {
	notes := s.lasting(g, l, active)
	what := "collection " + g.Collection
	if g.TagName != "" {
		what = "tag " + g.TagName + "=" + g.TagValue
	}
	if g.Collection == "" && g.TagName == "" {
		return strings.Join(notes, "; ")
	}
	switch found, looked, all, err := s.look(ctx, g, l); {
	case err != nil || found:
	case all:
		does := "holds"
		if g.Action == hold.Drop {
			does = "drops"
		}
		notes = append(notes, fmt.Sprintf("no live task of lambda %s has %s: the gate %s those that come", l.Name, what, does))
	default:
		notes = append(notes, fmt.Sprintf("none of the first %d live tasks of lambda %s has %s", looked, l.Name, what))
	}
	return strings.Join(notes, "; ")
}

// lasting returns the notes that are true as long as the gate is there.
func (s *Service) lasting(g *hold.Gate, l *catalog.Entry, active []*hold.Gate) (notes []string) {
	var others []string
	for _, other := range active {
		if other.ID != g.ID && other.InForce(s.Clock.Now()) && g.Overlaps(other) {
			others = append(others, other.ID)
		}
	}
	if len(others) > 0 {
		slices.SortFunc(others, func(a, b string) int { return cmp.Compare(NumberOf(a), NumberOf(b)) })
		several := ""
		if len(others) > 1 {
			several = "s"
		}
		notes = append(notes, fmt.Sprintf("it overlaps with gate%s %s: all of them hold, and a task shows the oldest one that pauses", several, strings.Join(others, ", ")))
	}
	if l.Mode == task.Deliver {
		notes = append(notes, fmt.Sprintf("lambda %s delivers to SQS: what is on its queue already, and that may be a task due within 15 minutes, cannot be held", l.Name))
	}
	return notes
}

// look looks for a live task that a gate is about, in a bounded number of rows; all says that these were all.
func (s *Service) look(ctx context.Context, g *hold.Gate, l *catalog.Entry) (found bool, looked int, all bool, err error) {
	of, err := inbound.Select("", s.Clock.Now(), access.All())
	if err != nil {
		return false, 0, false, err
	}
	of.Lambda, of.Only, of.Ended = l, g.Selects, false
	var position []byte
	for looked < lookRowsMax {
		page, err := s.Tasks.Page(ctx, &of, position, 1)
		if err != nil {
			return false, looked, false, err
		}
		looked += page.Examined
		if len(page.Rows) > 0 {
			return true, looked, false, nil
		}
		if position = page.Next; len(position) == 0 {
			return false, looked, true, nil
		}
	}
	return false, looked, false, nil
}

// Run moves gates that ended by themselves to those that have ended, and forgets the oldest of these, until
// ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for again := true; again; again = clock.Sleep(ctx, s.Clock, tidyEvery) == nil {
		if err := s.tidy(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "cannot tidy up gates", slog.Any("error", err))
		}
	}
	return nil
}

func (s *Service) tidy(ctx context.Context) error {
	active, err := s.gates.All(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range active {
		if err := s.endDone(ctx, g); err != nil && !errors.Is(err, store.ErrConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, s.gates.Forget(ctx, control.Forget[hold.Gate]{
		Until: keptUntil, Max: KeptMax,
		// So that no number is used again.
		Last: func(a, b *hold.Gate) int { return cmp.Compare(NumberOf(a.ID), NumberOf(b.ID)) },
	}))...)
}

// endDone ends a gate that expired, whose lambda was deleted, or that resumes and holds no more tasks.
func (s *Service) endDone(ctx context.Context, g *hold.Gate) error {
	now := s.Clock.Now()
	if !g.InForce(now) {
		return End(ctx, s.gates, g, g.Until, "")
	}
	l, err := s.lambdaOf(ctx, g)
	switch {
	case err != nil:
		return err
	case l == nil:
		return End(ctx, s.gates, g, now, access.ServerName)
	case g.Resumed.IsZero() || g.Probes():
		return nil
	}
	left, err := s.count(ctx, g, l, access.All())
	if err != nil || left.Now > 0 {
		return err
	}
	return End(ctx, s.gates, g, now, "")
}
