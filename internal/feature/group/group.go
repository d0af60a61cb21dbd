// Package group has what follows when all members of a group have ended. Groups are control rows; members
// are tasks whose ids are derived from the group's, so that a group is counted from the rows of its members
// and needs no counter. The package counts, and has the follow-up scheduled; docs/adr/0044 says in which
// order. Service serves the GroupService of the wire contract: it makes groups, adds members to them, seals and shows
// them.
package group

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a group.
const (
	// ExpiryDefault and ExpiryMax are how long after it was created a group expires if it is not done.
	ExpiryDefault = 30 * 24 * time.Hour
	ExpiryMax     = 366 * 24 * time.Hour
	// KeptFor is how long after its expiry a group and the ended rows of its members are kept, so that its
	// follow-up finds their results.
	KeptFor = 24 * time.Hour
	// TemplateBytesMax bounds the two follow-ups of a group as they are stored, payloads included.
	TemplateBytesMax = 128 << 10
	// TriesMax is how often calls that died in the middle may leave tasks in the way of a group's members.
	TriesMax = 100
	// OpenMax is about how many groups are open or sealed at once: each server reads a small row of each.
	OpenMax = 20_000
)

// The kinds of control rows. A group has one of the first two, and one of the third.
const (
	KindOpen  = "group"
	KindEnded = "group-ended"
	KindSpec  = "group-spec"
)

// States of a group, as users see them.
const (
	Open    = "open"
	Sealed  = "sealed"
	Done    = "done"
	Expired = "expired"
)

// Group is also the stored form.
type Group struct {
	control.Meta `json:"-"`

	ID        string       `json:"id"`
	Then      string       `json:"then"` // lambda of the follow-up
	ThenRef   uint32       `json:"then_ref"`
	Else      string       `json:"else,omitempty"` // lambda of the one instead
	Spec      []byte       `json:"spec"`           // SHA-256 of the row in KindSpec
	Created   task.Instant `json:"created"`
	CreatedBy string       `json:"created_by"`
	Expires   task.Instant `json:"expires"`
	Members   uint32       `json:"members"`
	Sealed    task.Instant `json:"sealed,omitempty"`
	// Tries has, for each call that died before its members counted and left tasks in the way, the number of
	// members that the group had then. Members from there on are other tasks than those that it left.
	Tries       []uint32     `json:"tries,omitempty"`
	Cancelled   task.Instant `json:"cancelled,omitempty"`
	CancelledBy string       `json:"cancelled_by,omitempty"`

	// All members before Cursor have ended, as Ended counts them.
	Cursor uint32        `json:"cursor,omitempty"`
	Ended  task.Outcomes `json:"ended"`
	// Completed is when the group was found to have ended, or expired. Nothing but what became of the
	// follow-ups changes after that.
	Completed task.Instant `json:"completed,omitempty"`
	Expired   bool         `json:"expired,omitempty"`
	// FollowUps has all tasks that may follow. FollowUp is the id of the first one that followed, and Problem
	// why one that should have did not.
	FollowUps []FollowUp `json:"follow_ups,omitempty"`
	FollowUp  string     `json:"follow_up,omitempty"`
	Problem   string     `json:"problem,omitempty"`
}

// FollowUp is a task that may follow, as a group's row has it.
type FollowUp struct {
	Edge       task.Edge `json:"edge"`
	Lambda     string    `json:"lambda"`
	Collection string    `json:"collection,omitempty"`
	ID         string    `json:"id,omitempty"`      // public id; empty: none followed so far
	Problem    string    `json:"problem,omitempty"` // why none could
}

// Lambda returns the lambda to which the group belongs: that of the first task that may follow.
func (g *Group) Lambda() string {
	if g.Then == "" && len(g.FollowUps) > 0 {
		return g.FollowUps[0].Lambda
	}
	return g.Then
}

// collection returns the collection of that task; empty: it is in none.
func (g *Group) collection() string {
	if len(g.FollowUps) > 0 {
		return g.FollowUps[0].Collection
	}
	return ""
}

// TryAt returns which try a member is of.
func (g *Group) TryAt(index uint32) (try uint32) {
	for _, from := range g.Tries {
		if index >= from {
			try++
		}
	}
	return try
}

// Key returns the id of the group in the ids of its members.
func (g *Group) Key() task.ID {
	id, _ := task.ParseID(g.ID) // checked when it was decoded
	return id
}

// Until returns how long the ended rows of members are kept at least.
func (g *Group) Until() task.Instant { return g.Expires.Add(KeptFor) }

// State returns where the group is in its life.
func (g *Group) State() string {
	switch {
	case g.Expired:
		return Expired
	case g.IsEnded():
		return Done // before that, what follows is about to be scheduled
	case !g.Sealed.IsZero():
		return Sealed
	}
	return Open
}

// End returns what the follow-up is told.
func (g *Group) End() *task.GroupEnd {
	return &task.GroupEnd{Group: g.Key(), Members: g.Members, Ended: g.Ended, Expired: g.Expired, Cancelled: !g.Cancelled.IsZero()}
}

// IDs returns the ids of members.
func (g *Group) IDs(from, to uint32) []task.ID {
	ids, key := make([]task.ID, 0, to-from), g.Key()
	for i := from; i < to; i++ {
		ids = append(ids, task.MemberID(key, i, g.TryAt(i)))
	}
	return ids
}

// Spec has the tasks that follow, as items of a Schedule call in the form of the wire. It never changes.
type Spec struct {
	Then []byte `json:"then,omitempty"`
	Else []byte `json:"else,omitempty"`
	// More has all others.
	More []Item `json:"more,omitempty"`
}

// Item is a task that may follow.
type Item struct {
	Edge task.Edge `json:"edge"`
	Item []byte    `json:"item"`
}

// All returns all tasks that may follow, in the order in which the group's row has them.
func (s *Spec) All() []Item {
	var all []Item
	if len(s.Then) > 0 {
		all = append(all, Item{task.Then, s.Then})
	}
	if len(s.Else) > 0 {
		all = append(all, Item{task.Else, s.Else})
	}
	all = append(all, s.More...)
	slices.SortStableFunc(all, func(a, b Item) int { return cmp.Compare(a.Edge, b.Edge) })
	return all
}

// Follows reports whether the tasks of an edge follow after a group that is complete. A group with nothing
// but then has it follow however it ends, unless it expires; else and finally narrow that to success.
func (s *Spec) Follows(g *Group, edge task.Edge) bool {
	wellDone := !g.Expired && g.Cancelled.IsZero() && g.Ended.Succeeded() == g.Members
	switch edge {
	case task.Finally:
		return true
	case task.Else:
		return !wellDone
	case task.NoEdge, task.Then:
	}
	alone := !slices.ContainsFunc(s.All(), func(i Item) bool { return i.Edge != task.Then })
	return wellDone || alone && !g.Expired
}

// Store is where groups are kept, and their members read.
type Store interface {
	store.ControlRows
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
}

var asRows = control.Kind[Group]{
	Live: KindOpen, Ended: KindEnded, What: "group", Name: func(g *Group) string { return g.ID },
	Read: func(_ string, value []byte, g *Group) error {
		err := json.Unmarshal(value, g)
		if err == nil {
			_, err = task.ParseID(g.ID)
		}
		return err
	},
}

// NewBook returns the groups of a store.
func NewBook(rows store.ControlRows, c clock.Clock) *control.Book[Group] {
	return control.NewBook(rows, asRows, c)
}

// PutSpec stores what follows after a group, unless it is stored.
func PutSpec(ctx context.Context, s Store, id string, spec []byte) error {
	err := s.PutControl(ctx, store.Control{Kind: KindSpec, Name: id, Version: 1, Value: spec})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("store what follows after group %s: %w", id, err)
	}
	return nil
}

func findSpec(ctx context.Context, s Store, id string) (*Spec, error) {
	row, err := s.Control(ctx, KindSpec, id)
	if err != nil {
		return nil, fmt.Errorf("read what follows after group %s: %w", id, err)
	}
	spec := &Spec{}
	if err := json.Unmarshal(row.Value, spec); err != nil {
		return nil, fmt.Errorf("%w: what follows after group %s: %w", store.ErrCorrupt, id, err)
	}
	return spec, nil
}

// IsEnded reports whether the group's end is settled, with its follow-up.
func (g *Group) IsEnded() bool { return g.IsBuried() }

// isOpen reports whether the group is neither sealed nor over.
func (g *Group) isOpen(now task.Instant) bool {
	return g.Sealed.IsZero() && g.Completed.IsZero() && now < g.Expires
}

// MemberID returns the id of the task that is a member of a group, also of one that was forgotten.
func MemberID(ctx context.Context, s Store, group task.ID, index uint32) (task.ID, error) {
	g, err := NewBook(s, nil).Find(ctx, group.String()) // a read needs no clock
	switch {
	case errors.Is(err, store.ErrNotFound):
		return task.MemberID(group, index, 0), nil
	case err != nil:
		return task.ID{}, err
	}
	return task.MemberID(group, index, g.TryAt(index)), nil
}

// EachFollowUp calls each with every task that may follow after a group, or may have followed.
func EachFollowUp(ctx context.Context, s Store, each func(item []byte) error) error {
	rows, err := s.Controls(ctx, KindSpec)
	if err != nil {
		return fmt.Errorf("read what follows after groups: %w", err)
	}
	for _, row := range rows {
		spec := &Spec{}
		if err := json.Unmarshal(row.Value, spec); err != nil {
			return fmt.Errorf("%w: what follows after group %s: %w", store.ErrCorrupt, row.Name, err)
		}
		for _, item := range spec.All() {
			if err := each(item.Item); err != nil {
				return err
			}
		}
	}
	return nil
}
