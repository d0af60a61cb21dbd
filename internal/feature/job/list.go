package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// list reads the next page of the set into the list.
func (s *Service) list(ctx context.Context, j *job) (step, error) {
	of, err := j.selection()
	if err != nil {
		return step{}, err
	}
	page, err := s.page(ctx, j, of)
	if err != nil {
		return step{}, err
	}
	next := *j.Plan
	if next.Listed = len(page.Next) == 0; len(page.Rows) > 0 {
		if next.Parts == partsMax {
			return step{}, refusal.Invalid("more than %d tasks or parts of the store to move: narrow the filter, and move the rest with another job", partsMax*batchTasksMax)
		}
		moves := make([]move, len(page.Rows))
		for i := range page.Rows {
			t := &page.Rows[i].Task
			moves[i] = move{ID: s.Tasks.PublicID(&page.Rows[i]), Due: j.dueOf(t), Was: t.Due}
		}
		if err := s.putPart(ctx, partName(j.ID, next.Parts), moves); err != nil {
			return step{}, err
		}
		next.Parts++
	}
	return step{examined: page.Seen, matched: len(page.Rows), position: page.Next, plan: &next}, nil
}

// putPart writes a part, in place of one that was written before a crash.
func (s *Service) putPart(ctx context.Context, name string, moves []move) error {
	value, err := json.Marshal(moves)
	if err != nil {
		return err
	}
	before, err := s.Store.Control(ctx, kindPlan, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.Store.PutControl(ctx, store.Control{Kind: kindPlan, Name: name, Version: before.Version + 1, Value: value})
}

// workOff moves the tasks of the next part of the list.
func (s *Service) workOff(ctx context.Context, j *job) (step, error) {
	next := *j.Plan
	if next.Done == next.Parts {
		return step{isLast: true}, nil
	}
	row, err := s.Store.Control(ctx, kindPlan, partName(j.ID, next.Done))
	if err != nil {
		return step{}, fmt.Errorf("read the list of job %s: %w", j.ID, err)
	}
	var moves []move
	if err := json.Unmarshal(row.Value, &moves); err != nil {
		return step{}, fmt.Errorf("%w: list of job %s: %w", store.ErrCorrupt, j.ID, err)
	}
	next.Done++
	done := step{plan: &next, idOf: func(i int) string { return moves[i].ID }, isLast: next.Done == next.Parts}
	done.changed, err = s.move(ctx, j, moves)
	return done, err
}

// move moves listed tasks.
func (s *Service) move(ctx context.Context, j *job, moves []move) ([]inbound.Changed, error) {
	ids := make([]string, len(moves))
	for i := range moves {
		ids[i] = moves[i].ID
	}
	rows, err := s.Tasks.RowsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	changed := make([]inbound.Changed, len(moves))
	known := make(map[task.ID]move, len(moves))
	var some []inbound.Row
	var at []int
	for i := range rows {
		if rows[i].ID.IsZero() {
			changed[i].Err = inbound.NoSuchTask()
			continue
		}
		some, at, known[rows[i].ID] = append(some, rows[i]), append(at, i), moves[i]
	}
	results := s.actAgain(ctx, j, some, func(t *task.Task) (task.Instant, error) { return known[t.ID].of(t, s.Clock.Now()) })
	for k, c := range results {
		if changed[at[k]] = c; c.Outcome == inbound.Unchanged && moves[at[k]].Due != moves[at[k]].Was {
			changed[at[k]].Outcome = "rescheduled" // when this part was worked off before
		}
	}
	return changed, nil
}

// forgetPlan deletes the list of a job that has ended.
func (s *Service) forgetPlan(ctx context.Context, j *job) error {
	if j.Plan == nil {
		return nil
	}
	for number := range j.Plan.Parts + 1 { // one more may have been written before a crash
		row, err := s.Store.Control(ctx, kindPlan, partName(j.ID, number))
		if err == nil {
			err = s.Store.DeleteControl(ctx, row)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// plan is how far a job has come that lists its tasks before it changes any. A task that is moved by some
// time would otherwise be met again where it is now, and moved again. The list has when each task is to be
// due, so that a part of it may be worked off twice, and when it was due, so that one which somebody else has
// moved meanwhile stays where it is.
type plan struct {
	Listed bool `json:"listed,omitempty"`
	Parts  int  `json:"parts,omitempty"` // that are written
	Done   int  `json:"done,omitempty"`  // parts that are worked off
}

// partsMax bounds the parts of a list, each of up to batchTasksMax tasks: about 80 MB of control rows.
const partsMax = 1000

func partName(id string, number int) string { return fmt.Sprintf("%s/%06d", id, number) }

// move is a task that is to be due at another time.
type move struct {
	ID  string       `json:"i"`
	Due task.Instant `json:"d"`
	Was task.Instant `json:"w"` // when it was due as it was listed; 0: not known
}

// of returns when a task is to be due, unless somebody else has moved it since it was listed.
func (m move) of(t *task.Task, now task.Instant) (task.Instant, error) {
	isOurs := t.Due == m.Due || max(t.Due, m.Due) <= now // a time in the past means now
	if m.Was != 0 && t.Due != m.Was && !isOurs {
		return 0, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "the task was moved since the job listed it: it is due at %s, and stays so",
			t.Due.Time().UTC().Format(time.RFC3339Nano))
	}
	return m.Due, nil
}

// CancelMembers starts a job that cancels the members of a group. Its place is the index that it has come to.
func (s *Service) CancelMembers(ctx context.Context, group string, r *kinesinv1.CancelGroupRequest) (*kinesinv1.Job, error) {
	if r.Pace > PaceMax {
		return nil, refusal.Invalid("pace %d: want 1 to %d tasks per second, or 0 for no limit", r.Pace, PaceMax)
	}
	return s.beginRange(ctx, r.RequestId, &job{Action: "cancel", Group: group, Pace: r.Pace})
}

// beginRange completes and begins a job over a range.
func (s *Service) beginRange(ctx context.Context, requestID []byte, j *job) (*kinesinv1.Job, error) {
	id, err := s.idOf(ctx, requestID)
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	j.ID, j.State, j.Created, j.Outcomes = id.String(), stateRunning, s.Clock.Now(), map[string]int64{}
	j.Identity, j.Grants = c.Name, c.Grants.Strings()
	response, err := s.begin(ctx, j)
	return response.GetJob(), err
}

// over does the next part of the range of a job, and cancels the tasks in it.
func (s *Service) over(ctx context.Context, j *job, r inbound.Range, of string) (step, error) {
	as := access.With(ctx, access.Caller{Identity: access.Identity{Name: j.Identity, Grants: j.may}})
	part, err := r(as, of, j.Position, j.batch())
	if err != nil {
		return step{}, refusal.Wire(err)
	}
	rows := slices.DeleteFunc(part.Rows, func(r inbound.Row) bool { return r.ID.IsZero() || r.State.IsEnd() })
	done := step{examined: part.Examined, matched: len(rows) + len(part.Outcomes), position: part.Next, isLast: part.IsLast}
	if len(rows) > 0 {
		done.idOf = func(i int) string { return s.Tasks.PublicID(&rows[i]) }
		done.changed = s.actAgain(ctx, j, rows, nil)
	}
	for _, outcome := range part.Outcomes {
		done.changed = append(done.changed, inbound.Changed{Outcome: outcome})
	}
	return done, nil
}

// CreateBackfill starts the job of a backfill, in its stored form, of a cron of a lambda. Without a pace it has that of the
// lambda's recovery quota.
func (s *Service) CreateBackfill(ctx context.Context, of, lambda string, r *kinesinv1.BackfillCronRequest) (_ *kinesinv1.Job, err error) {
	j := &job{Action: actionBackfill, All: r.All, Pace: r.Pace, Backfill: json.RawMessage(of)}
	if j.Pace == 0 && s.Recovery != nil {
		if j.Pace, err = s.Recovery("lambda=" + lambda); err != nil {
			return nil, err
		}
	}
	return s.beginRange(ctx, r.RequestId, j)
}
