package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// States of a job.
const (
	stateCounted = "counted" // a dry run
	stateRunning = "running"
	statePaused  = "paused"
	stateStopped = "stopped"
	stateDone    = "done"
	stateFailed  = "failed"
)

// job is the stored form of a job.
type job struct {
	control.Meta `json:"-"`

	ID      string       `json:"id"`
	Action  string       `json:"action"`
	Where   string       `json:"where,omitempty"`
	All     bool         `json:"all,omitempty"`
	State   string       `json:"state"`
	Pace    uint32       `json:"pace,omitempty"`
	Created task.Instant `json:"created"`
	Ended   task.Instant `json:"ended,omitempty"`
	// Identity is who made the job, and Grants what it might do then.
	Identity string   `json:"identity"`
	Grants   []string `json:"grants"`

	By     int64        `json:"by,omitempty"`     // microseconds
	Spread int64        `json:"spread,omitempty"` // microseconds
	Due    task.Instant `json:"due,omitempty"`
	Force  bool         `json:"force,omitempty"`

	// Traceparent is the span of the call that made it, if that was traced.
	Traceparent string `json:"traceparent,omitempty"`

	Backfill json.RawMessage `json:"backfill,omitempty"` // whose occurrences are scheduled
	Group    string          `json:"group,omitempty"`    // whose members are cancelled

	Matched  int64            `json:"matched"`
	Examined int64            `json:"examined"`
	Outcomes map[string]int64 `json:"outcomes,omitempty"`
	Problem  string           `json:"problem,omitempty"`

	Position []byte `json:"position,omitempty"` // in the set; empty at its head
	Plan     *plan  `json:"plan,omitempty"`     // of a job that lists its tasks first

	Owner string       `json:"owner,omitempty"` // process that runs it
	Until task.Instant `json:"until,omitempty"` // end of its lease

	may   access.Grants // what of Grants holds now; nothing before the job is authorized
	ahead *pageAhead    // nil: no page is read ahead

	failures int          // steps in a row
	paced    task.Instant // when its pace allows the next step, by clock.Steady
}

// pageAhead is a page of a set that is read while the one before it is changed, so that reading and writing
// share the time. A task that moves in between is read again by the call that changes it.
type pageAhead struct {
	position []byte
	may      access.Grants // by which it is read
	read     chan pageRead
}

type pageRead struct {
	inbound.Page

	err error
}

func (j *job) hasEnded() bool {
	return j.State == stateStopped || j.State == stateDone || j.State == stateFailed
}

// isSame reports whether two jobs were asked for by the same call.
func (j *job) isSame(asked *job) bool {
	return j.Group == asked.Group && bytes.Equal(j.Backfill, asked.Backfill) && j.Action == asked.Action && j.Where == asked.Where && j.Identity == asked.Identity
}

// batch returns how many tasks one step changes: as many as come in half a second of the job's pace.
func (j *job) batch() int {
	if j.Pace == 0 {
		return batchTasksMax
	}
	return min(batchTasksMax, max(1, int(j.Pace/2)))
}

var jobAsRows = control.Kind[job]{
	Live: kindActive, Ended: kindEnded, What: "job", Name: func(j *job) string { return j.ID },
	Read: func(_ string, value []byte, j *job) error {
		err := json.Unmarshal(value, j)
		if j.Outcomes == nil {
			j.Outcomes = map[string]int64{}
		}
		return err
	},
}

// authorize finds out what a job may do now: what its maker was allowed when it made the job, and still is.
func (s *Service) authorize(ctx context.Context, j *job) error {
	then, err := access.ParseGrants(j.Grants)
	if err != nil {
		return err
	}
	if j.may = then; s.GrantsOf == nil {
		return nil
	}
	now, err := s.GrantsOf(ctx, j.Identity)
	j.may = then.And(now)
	return err
}

// selection returns the set of tasks of a job: the filter as of when the job was made, of what its maker may
// read, and only such tasks as the action changes. Those that ended since the job was made are left out, so
// that a task which it started anew is not met again.
func (j *job) selection() (*inbound.Selection, error) {
	of, err := inbound.Select(j.Where, j.Created, j.may)
	if err != nil {
		return nil, err
	}
	if actions[j.Action].ended {
		of.Live, of.EndedBy = false, j.Created
	} else {
		of.Ended = false
	}
	return &of, nil
}

// wire returns a job as users see it.
func (j *job) wire() *kinesinv1.Job {
	w := &kinesinv1.Job{
		Id: j.ID, Action: j.Action, Where: j.Where, All: j.All, State: j.State, Pace: j.Pace, Created: int64(j.Created),
		Ended: int64(j.Ended), CreatedBy: j.Identity, Matched: j.Matched, MatchedExact: j.State == stateDone, Examined: j.Examined,
		Outcomes: maps.Clone(j.Outcomes), Problem: j.Problem, By: j.By, Spread: j.Spread, Force: j.Force, Due: int64(j.Due), Group: j.Group,
	}
	if j.Backfill != nil {
		var b struct {
			Cron     string
			From, To int64
		}
		_ = json.Unmarshal(j.Backfill, &b) // of what cannot be read nothing is shown
		w.Backfill = &kinesinv1.Backfill{Cron: b.Cron, From: b.From, To: b.To}
	}
	return w
}

// refusals is the stored form of the refused ids of a job.
type refusals struct {
	control.Meta `json:"-"`

	Job  string      `json:"-"`
	All  []refusedID `json:"refused"`
	size int         // of the row, in bytes
}

type refusedID struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

var refusalsAsRows = control.Kind[refusals]{
	Live: kindRefused, What: "refused ids of job", Name: func(r *refusals) string { return r.Job },
	Read: func(name string, value []byte, r *refusals) error {
		r.Job, r.size = name, len(value)
		return json.Unmarshal(value, r)
	},
}

// noteRefused adds refused ids to those of a job, up to its bounds. A batch that is applied twice may refuse
// an id twice, which is noted once.
func (s *Service) noteRefused(ctx context.Context, id string, more []refusedID) error {
	_, err := s.refusals.Set(ctx, id, func(known *refusals) (control.Do, error) {
		known.Job = id
		before, size := len(known.All), known.size
		for _, r := range more {
			r.Text = strings.ToValidUTF8(r.Text[:min(len(r.Text), refusedTextBytesMax)], "")
			size += len(r.ID) + 2*len(r.Text) + len(`{"id":"","text":""},`)
			if len(known.All) == RefusedMax || size > refusedBytesMax {
				break
			}
			if !slices.ContainsFunc(known.All, func(k refusedID) bool { return k.ID == r.ID }) {
				known.All = append(known.All, r)
			}
		}
		if len(known.All) == before {
			return control.Keep, nil
		}
		return control.Store, nil
	})
	return err
}

// refused reads the refused ids of a job.
func (s *Service) refused(ctx context.Context, id string) (all []*kinesinv1.JobRefusal, err error) {
	known, err := s.refusals.Find(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range known.All {
		all = append(all, &kinesinv1.JobRefusal{Id: r.ID, Text: r.Text})
	}
	return all, nil
}
