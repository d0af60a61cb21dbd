// Package groups has what follows when all members of a group have ended. Groups are control rows; members
// are tasks whose ids are derived from the group's, so that a group is counted from the rows of its members
// and needs no counter. The package counts, and has the follow-up scheduled; docs/adr/0044 says in which
// order.
package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

	// All members before Cursor have ended, as Ended counts them.
	Cursor uint32        `json:"cursor,omitempty"`
	Ended  task.Outcomes `json:"ended"`
	// Completed is when the group was found to have ended, or expired. Nothing but FollowUp and Problem
	// changes after that.
	Completed task.Instant `json:"completed,omitempty"`
	Expired   bool         `json:"expired,omitempty"`
	FollowUp  string       `json:"follow_up,omitempty"` // public id
	Problem   string       `json:"problem,omitempty"`   // why there is none

	Version uint64 `json:"-"`
	kind    string
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
	case !g.Completed.IsZero() && (g.FollowUp != "" || g.Problem != ""):
		return Done // before that, what follows is about to be scheduled
	case !g.Sealed.IsZero():
		return Sealed
	}
	return Open
}

// End returns what the follow-up is told.
func (g *Group) End() *task.GroupEnd {
	return &task.GroupEnd{Group: g.Key(), Members: g.Members, Ended: g.Ended, Expired: g.Expired}
}

// IDs returns the ids of members.
func (g *Group) IDs(from, to uint32) []task.ID {
	ids, key := make([]task.ID, 0, to-from), g.Key()
	for i := from; i < to; i++ {
		ids = append(ids, task.MemberID(key, i))
	}
	return ids
}

// Spec has the tasks that follow, as items of a Schedule call in the form of the wire. It never changes.
type Spec struct {
	Then []byte `json:"then"`
	Else []byte `json:"else,omitempty"`
}

// Store is where groups are kept, and their members read.
type Store interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	Controls(ctx context.Context, kind string) ([]store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
	DeleteControl(ctx context.Context, c store.Control) error
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
}

// Find reads a group; store.ErrNotFound if there is none. A group that ends has its second row before it
// loses the first one.
func Find(ctx context.Context, s Store, id string) (*Group, error) {
	for _, kind := range []string{KindOpen, KindEnded} {
		row, err := s.Control(ctx, kind, id)
		if err == nil {
			return decode(row)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read group %s: %w", id, err)
		}
	}
	return nil, fmt.Errorf("group %s: %w", id, store.ErrNotFound)
}

func decode(row store.Control) (*Group, error) {
	g := &Group{Version: row.Version, kind: row.Kind}
	err := json.Unmarshal(row.Value, g)
	if err == nil {
		_, err = task.ParseID(g.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: group %s: %w", store.ErrCorrupt, row.Name, err)
	}
	return g, nil
}

// Put stores a group in place of the version that it was read at; store.ErrConflict if there is another one.
func Put(ctx context.Context, s Store, g *Group) error { return put(ctx, s, KindOpen, g) }

func put(ctx context.Context, s Store, kind string, g *Group) error {
	value, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode group %s: %w", g.ID, err)
	}
	row := store.Control{Kind: kind, Name: g.ID, Version: g.Version + 1, Value: value}
	if err := s.PutControl(ctx, row); err != nil {
		return fmt.Errorf("store group %s: %w", g.ID, err)
	}
	g.Version, g.kind = row.Version, kind
	return nil
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

// casTriesMax bounds how often a change is tried again because somebody else made one.
const casTriesMax = 16

// ErrBusy means that a group kept changing.
var ErrBusy = errors.New("the group kept changing")

// Change changes a group that has not ended and stores it; change says whether there is something to do. It
// is called again if somebody else changed the group meanwhile.
func Change(ctx context.Context, s Store, id string, change func(g *Group) (changed bool, err error)) (*Group, error) {
	for range casTriesMax {
		g, err := Find(ctx, s, id)
		if err != nil {
			return nil, err
		}
		changed, err := change(g)
		if err != nil || !changed {
			return g, err
		}
		if err = Put(ctx, s, g); !errors.Is(err, store.ErrConflict) {
			return g, err
		}
	}
	return nil, ErrBusy
}

// IsEnded reports whether the group's end is settled, with its follow-up.
func (g *Group) IsEnded() bool { return g.kind == KindEnded }
