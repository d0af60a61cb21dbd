package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// tidyEvery is how soon a gate that ended by itself is moved to those that have ended.
const tidyEvery = time.Minute

// Tasks reads sets of tasks.
type Tasks interface {
	Page(ctx context.Context, of *inbound.Selection, position []byte, limit int) (inbound.Page, error)
	CountDue(ctx context.Context, of inbound.Selection, at, until task.Instant) (due, soon int64, exact bool, err error)
}

// Lambdas finds lambdas, also those that another process created a moment ago.
type Lambdas interface {
	Refresh(ctx context.Context) error
	Find(ctx context.Context, name string) (*catalog.Entry, error)
	FindRef(ctx context.Context, ref uint32) (*catalog.Entry, error)
}

// Queue tells how many messages wait.
type Queue interface {
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
}

// Config is what a Service is made of.
type Config struct {
	Store   Store
	Book    *Book
	Tasks   Tasks
	Lambdas Lambdas
	Queue   Queue
	// Recovery returns the pace of a lambda's gates that are resumed without one; 0: all at once.
	Recovery func(lambda uint32) uint32
	Clock    clock.Clock
	Log      *slog.Logger
}

// Service serves gates. It is safe for concurrent use.
type Service struct {
	Config

	gates *control.Book[hold.Gate]
	room  *room.Room // gates that have not ended
}

// New returns a Service.
func New(c Config) *Service {
	const keptPart = 10 // of the gates, for admins
	return &Service{c, control.NewBook(c.Store, AsRows, c.Clock), room.New("gates", ActiveMax, ActiveMax/keptPart)}
}

// Room returns what those share who set gates.
func (s *Service) Room() *room.Room { return s.room }

// SetGate sets a gate, or counts what it would hold.
func (s *Service) SetGate(ctx context.Context, r *kinesinv1.SetGateRequest) (_ *kinesinv1.SetGateResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	g, l, err := s.newGate(ctx, r)
	if err != nil {
		return nil, err
	}
	var active []*hold.Gate
	if r.DryRun {
		active, err = s.gates.All(ctx)
	} else {
		g, active, err = s.add(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	v := s.view(g, l)
	if r.DryRun {
		v.State = ""
		if v.Counts, err = s.count(ctx, g, l, access.All()); err != nil {
			return nil, err
		}
	}
	v.Note = s.note(ctx, g, l, active)
	return &kinesinv1.SetGateResponse{Gate: v}, nil
}

// newGate returns the gate that a call asks for, without an id.
func (s *Service) newGate(ctx context.Context, r *kinesinv1.SetGateRequest) (*hold.Gate, *catalog.Entry, error) {
	asked, c := r.GetGate(), access.From(ctx)
	if asked == nil {
		return nil, nil, refusal.Invalid("no gate given")
	}
	g := &hold.Gate{
		Action: hold.Action(asked.Action), Lambda: asked.Lambda, Priority: asked.Priority, Collection: asked.Collection,
		Reason: strings.TrimSpace(asked.Reason), Owner: c.Name, Created: s.Clock.Now(), Until: task.Instant(asked.Until),
	}
	if asked.Tag != "" {
		name, value, isTag := strings.Cut(asked.Tag, "=")
		if !isTag || name == "" {
			return nil, nil, refusal.Invalid("tag %.80q: want NAME=VALUE", asked.Tag)
		}
		g.TagName, g.TagValue = name, value
	}
	if len(r.RequestId) > 0 {
		if len(r.RequestId) != len(task.ID{}) {
			return nil, nil, refusal.Invalid("request_id: %d bytes, want a UUID of 16", len(r.RequestId))
		}
		g.Request = task.ID(r.RequestId).OwnedBy(c.Name).String()
	}
	if err := Validate(g, g.Created); err != nil {
		return nil, nil, err
	}
	l, err := s.Lambdas.Find(ctx, g.Lambda)
	if err != nil {
		return nil, nil, err
	}
	g.Ref = l.Ref
	if g.Priority != "" {
		if g.Class, err = l.Priority(g.Priority); err != nil {
			return nil, nil, err
		}
	}
	return g, l, nil
}

// add stores a new gate, and returns it with all that have not ended.
func (s *Service) add(ctx context.Context, g *hold.Gate) (added *hold.Gate, active []*hold.Gate, err error) {
	own := int64(0)
	admits := func(active []*hold.Gate) bool {
		own = 0
		for _, known := range active {
			if known.Owner == g.Owner {
				own++
			}
		}
		return s.room.Admits(g.Owner, int64(len(active)), own, access.From(ctx).Grants.AllowAll(access.Admin))
	}
	added, active, err = Add(ctx, s.Store, s.gates, g, func(known *hold.Gate) bool { return g.Request != "" && known.Request == g.Request }, admits)
	switch {
	case errors.Is(err, ErrFull):
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_FULL,
			"there may be %d gates, of one identity as many as are left for others, and %s has %d: resume one (kinesin gate resume)", ActiveMax, g.Owner, own)
	case errors.Is(err, ErrBusy):
		return nil, nil, errBusy
	case err != nil:
		return nil, nil, err
	case added != g:
		return repeated(added, g, active)
	}
	s.refresh(ctx)
	return g, active, nil
}

var errBusy = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the gates kept changing; try again")

// repeated answers a call that was made before.
func repeated(known, asked *hold.Gate, active []*hold.Gate) (*hold.Gate, []*hold.Gate, error) {
	same := *asked // in all that a caller chooses
	same.ID, same.Created, same.Meta = known.ID, known.Created, known.Meta
	same.Resumed, same.Pace, same.Ended, same.EndedBy = known.Resumed, known.Pace, known.Ended, known.EndedBy
	if !known.Resumed.IsZero() {
		same.Until = known.Until // a resume at a pace takes the expiry away
	}
	if same != *known {
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS, "gate %s was set by a call with this request id, and is another one: want a new request id", known.ID)
	}
	return known, active, nil
}

// refresh has what was just stored be in force here at once. If the store does not answer, it is known here
// as soon as elsewhere.
func (s *Service) refresh(ctx context.Context) {
	if err := s.Book.Refresh(ctx); err != nil {
		s.Log.WarnContext(ctx, "a change of gates is not known here yet", slog.Any("error", err))
	}
}

// ResumeGate ends a gate, or has it let tasks go at a pace. One that has ended stays so.
func (s *Service) ResumeGate(ctx context.Context, r *kinesinv1.ResumeGateRequest) (_ *kinesinv1.ResumeGateResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if r.Pace > PaceMax {
		return nil, refusal.Invalid("pace %d: want 1 to %d tasks per second, or 0 for all at once", r.Pace, PaceMax)
	}
	if NumberOf(r.Id) == 0 {
		return nil, noGate(r.Id)
	}
	var l *catalog.Entry
	note := ""
	g, err := s.gates.Change(ctx, r.Id, func(g *hold.Gate) (_ control.Do, err error) {
		if l, err = s.lambdaOf(ctx, g); err != nil {
			return control.Keep, err
		}
		if s.view(g, l).State == stateEnded {
			note = "it had ended before: it holds nothing"
			return control.Keep, nil
		}
		if g.Action == hold.Drop && r.Pace > 0 {
			return control.Keep, refusal.Invalid("pace %d: gate %s drops tasks and holds none, so there is nothing to let go at a pace; resume it without one", r.Pace, g.ID)
		}
		var pace uint32
		pace, note = s.paceOf(g, r.Pace)
		return s.resume(ctx, g, pace), nil
	})
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil, errBusy
	case errors.Is(err, store.ErrNotFound):
		return nil, noGate(r.Id)
	case err != nil:
		return nil, err
	}
	if !g.Ended.IsZero() && !g.IsBuried() { // its end is stored; if it is not buried now, tidy does that
		if _, err := s.gates.Bury(ctx, g); err != nil {
			s.Log.WarnContext(ctx, "a gate that has ended was not moved yet", slog.String("gate", g.ID), slog.Any("error", err))
		}
	}
	s.refresh(ctx)
	v := s.view(g, l)
	v.Note = note
	return &kinesinv1.ResumeGateResponse{Gate: v}, nil
}

// paceOf returns the pace at which a gate resumes: what the call asks for, or else the lambda's quota of
// recovery, and then what to say about it.
func (s *Service) paceOf(g *hold.Gate, asked uint32) (pace uint32, note string) {
	if asked > 0 || g.Action != hold.Pause || s.Recovery == nil {
		return asked, ""
	}
	if pace = s.Recovery(g.Ref); pace > 0 {
		note = fmt.Sprintf("it resumes at %d tasks per second, the recovery quota of lambda %s; --pace %d lets all go at once", pace, g.Lambda, PaceMax)
	}
	return pace, note
}

const stateEnded = "ended"

// resume has a gate end, at once or at a pace.
func (s *Service) resume(ctx context.Context, g *hold.Gate, pace uint32) control.Do {
	now, by := s.Clock.Now(), access.From(ctx).Name
	switch {
	case pace == 0:
		g.Ended, g.EndedBy = now, cmp.Or(by, g.EndedBy)
		return control.Store
	case !g.Resumed.IsZero() && g.Pace == pace && g.Breaker == nil:
		return control.Keep
	case g.Resumed.IsZero() || g.Breaker != nil:
		g.Resumed, g.EndedBy = now, by
	}
	g.Breaker = nil           // a person has taken it over
	g.Pace, g.Until = pace, 0 // at its expiry all that is left would go at once, which the pace is to prevent
	return control.Store
}

// noGate says that a gate is not there.
func noGate(id string) error {
	if NumberOf(id) == 0 {
		return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no gate %.40q: an id is a number, as `kinesin gate list` shows it", id)
	}
	return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no gate %s: its id is wrong, or it ended more than %d days or %d gates ago",
		id, int(KeptFor/(24*time.Hour)), KeptMax)
}

// find reads a gate, and its lambda as lambdaOf does.
func (s *Service) find(ctx context.Context, id string) (*hold.Gate, *catalog.Entry, error) {
	if NumberOf(id) == 0 {
		return nil, nil, noGate(id)
	}
	g, err := s.gates.Find(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, noGate(id)
	}
	if err != nil {
		return nil, nil, err
	}
	l, err := s.lambdaOf(ctx, g)
	return g, l, err
}

// lambdaOf returns the lambda of a gate; nil if it was deleted, or the gate has ended.
func (s *Service) lambdaOf(ctx context.Context, g *hold.Gate) (*catalog.Entry, error) {
	if !g.InForce(s.Clock.Now()) {
		return nil, nil //nolint:nilnil // none is needed
	}
	l, err := s.Lambdas.FindRef(ctx, g.Ref)
	if err == nil && l == nil {
		// The lambda is older than the gate, so a read that begins now finds it unless it was deleted.
		if err = s.Lambdas.Refresh(ctx); err == nil {
			l, err = s.Lambdas.FindRef(ctx, g.Ref)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("find the lambda of gate %s: %w", g.ID, err)
	}
	return l, nil
}

// LambdaOf returns the lambda and the collection of a gate, for whoever decides who may see and change it.
func (s *Service) LambdaOf(ctx context.Context, id string) (lambda, collection string, err error) {
	g, _, err := s.find(ctx, id)
	if err != nil {
		return "", "", refusal.Wire(err)
	}
	return g.Lambda, g.Collection, nil
}
