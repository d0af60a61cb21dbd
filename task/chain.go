package task

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Bounds of a chain.
const (
	// ChainDepthMax is how many tasks may follow each other.
	ChainDepthMax = 100
	// FollowupsMax is how many follow-ups a task may have, counted with those of its follow-ups.
	FollowupsMax = 10_000
	// HeldMax bounds how many follow-ups a task notes whose key another task held. Of more the log has a
	// line.
	HeldMax = 100
	// EarlierMax is of how many ends before a redrive a task knows what followed them, the newest ones.
	EarlierMax = 32
	// EarlierAddedMax bounds how many follow-ups that its handler had added a task knows of each of these ends.
	EarlierAddedMax = 100
	// ChainRetention is how long the ended row of a task in a chain is kept at least, also where the lambda
	// keeps its ended tasks shorter.
	ChainRetention = 24 * time.Hour
)

// Edge says when a task follows another one.
type Edge uint8

// The edges.
const (
	NoEdge  Edge = iota // it is the first
	Then                // after a success
	Else                // after any other end
	Finally             // after any end
	edgeEnd
)

var edgeTexts = [edgeEnd]string{"", "then", "else", "finally"}

// String returns the text of the edge.
func (e Edge) String() string {
	if e >= edgeEnd {
		return fmt.Sprintf("edge(%d)", uint8(e))
	}
	return edgeTexts[e]
}

// Chain is the place of a task in a chain, and what follows it. A Chain is a value that tasks share: nobody
// may write to it.
type Chain struct {
	Root   Link   `row:"1"` // of a follow-up; zero in the first task of a chain, as Parent
	Parent Link   `row:"2"`
	Edge   Edge   `row:"3"` // how it follows its parent
	Index  uint32 `row:"4"` // among the follow-ups of its parent on that edge
	Depth  uint32 `row:"5"` // tasks before it
	// Round is how often the task was redriven. Each end has follow-ups of its own.
	Round uint32 `row:"6"`
	// Paused says that the task waits for the resumption of its chain, or that what follows it will. Until
	// then it is due in the far future, and Due is kept here.
	Paused    bool    `row:"7"`
	PausedDue Instant `row:"8"`

	// Follow is what follows the task, encoded; nil if there is nothing, or it is in a payload row of its
	// own, whose id FollowID is then. FollowBytes is its size wherever it is, and FollowCount how many
	// follow-ups it names itself.
	Follow      []byte `row:"9"`
	FollowID    ID     `row:"10"`
	FollowBytes uint32 `row:"11"`
	FollowCount uint32 `row:"12"`
	// Outcome is how its parent ended, encoded. FromParent says that the rest is in the parent's row.
	Outcome    []byte `row:"13"`
	FromParent bool   `row:"14"`
	// Added is how many of what follows it, the last ones on each edge from Then on, the handler added in this round.
	Added [Finally]uint32 `row:"15,inline"`
	// Held are the follow-ups that were not created since another task held their key, at most HeldMax.
	Held []Held `row:"210"`
	// StartBefore is when the tasks of the chain expire that come later and have no later one of their own;
	// zero: as they say themselves.
	StartBefore Instant `row:"211"`
	// FollowSum stands for what follows the task where that names blobs, whose ids and keys are other ones
	// whenever it is named again; zero: it names none.
	FollowSum ID `row:"310"`
	// Earlier are the ends of the task which something followed and from which it was redriven, the oldest
	// first, at most EarlierMax.
	Earlier []Earlier `row:"320"`
}

// Earlier is an end of a task from which it was redriven: all that is needed to find what followed it.
type Earlier struct {
	Round     uint32  `row:"1"`
	Ended     Instant `row:"2"`
	Succeeded bool    `row:"3"`
	Paused    bool    `row:"4"`
	// Added are the follow-ups that the handler had added, at most EarlierAddedMax. Those that the task was
	// scheduled with are found without.
	Added []Added `row:"5"`
}

// Added is a follow-up that a handler added to its task.
type Added struct {
	Edge  Edge   `row:"1"`
	Index uint32 `row:"2"`
	Task  Link   `row:"3"`
}

// Held is a follow-up whose key another task held when it was to be created.
type Held struct {
	Edge   Edge   `row:"1"`
	Index  uint32 `row:"2"`
	Holder Link   `row:"3"`
}

// Link names a task of a chain, with all that its public id needs.
type Link struct {
	ID        ID        `row:"1,always"`
	Partition Partition `row:"2,always"`
	Due       Instant   `row:"3"`
	Life      uint64    `row:"4"`
}

// ShortPlace returns the place of a follow-up in a chain, such as then[0].else[1], with the middle of a
// long one left out.
func ShortPlace(where string) string {
	const ends = 3
	steps := strings.Split(where, ".")
	if len(steps) <= 2*ends {
		return where
	}
	return fmt.Sprintf("%s … %s (%d steps down)", strings.Join(steps[:ends], "."), strings.Join(steps[len(steps)-ends:], "."), len(steps))
}

// LinkTo returns the link to a task.
func LinkTo(t *Task) Link {
	token := TokenOf(t)
	return Link{ID: token.ID, Partition: token.Partition, Due: token.Due, Life: token.Life}
}

// Token returns what the public id of the task is made of.
func (l Link) Token() Token {
	return Token{ID: l.ID, Partition: l.Partition, Due: l.Due, Life: l.Life}
}

// HasFollowups reports whether something follows the task when it has ended.
func (t *Task) HasFollowups() bool { return t.Chain != nil && t.Chain.FollowBytes > 0 }

// FollowApart reports whether what follows the task is in a payload row.
func (c *Chain) FollowApart() bool { return c != nil && !c.FollowID.IsZero() }

// FollowIDOf returns the id of the payload row that has what follows the task. As that of a payload, it is another
// one for each task that has the same key, and for each time that a task starts anew, so that nothing is deleted
// which a later one needs.
func (t *Task) FollowIDOf(follow []byte) ID {
	var which []byte
	if t.PayloadRev != 0 {
		which = binary.BigEndian.AppendUint64(which, t.PayloadRev)
	}
	if t.Chain != nil && t.Chain.Round != 0 {
		which = binary.BigEndian.AppendUint32(which, t.Chain.Round)
	}
	return IDOf([]byte("follow"), t.ID[:], which, follow)
}

// HasAdded reports whether the handler added to what follows the task.
func (t *Task) HasAdded() bool { return t.Chain != nil && t.Chain.Added != [Finally]uint32{} }

// RootLink returns the link to the first task of a task's chain.
func (t *Task) RootLink() Link {
	if t.Chain == nil || t.Chain.Root.ID.IsZero() {
		return LinkTo(t)
	}
	return t.Chain.Root
}

// Succeeded reports whether a task that has ended is followed by what follows a success. One that was asked
// to stop, and succeeded all the same, is not: whoever asked wants to undo it.
func (t *Task) Succeeded() bool {
	return (t.State == Success || t.State == Delivered) && !t.CancelRequested
}

// PlannedDue returns when the task is due, also while its chain is paused.
func (t *Task) PlannedDue() Instant {
	if t.Chain != nil && t.Chain.Paused && !t.Chain.PausedDue.IsZero() {
		return t.Chain.PausedDue
	}
	return t.Due
}

// IsFollowup reports whether the task is the follow-up of a task that has ended at a place. A task with a key
// has to be asked, as its id does not say it.
func (t *Task) IsFollowup(ended *Task, e Edge, index uint32) bool {
	c := t.Chain
	if c == nil || c.Parent.ID != ended.ID || c.Parent.Life != ended.Life || c.Edge != e || c.Index != index {
		return false
	}
	return t.Key == "" || t.Request == FollowupID(ended, e, index) || t.Life >= uint64(ended.Ended)
}

// HolderOf returns the task that held the key of a follow-up; a zero ID: none did.
func (c *Chain) HolderOf(e Edge, index uint32) Link {
	for _, h := range c.Held {
		if h.Edge == e && h.Index == index {
			return h.Holder
		}
	}
	return Link{}
}

// Follows reports whether the follow-ups on an edge follow the end of the task.
func (t *Task) Follows(e Edge) bool {
	switch e {
	case Then:
		return t.Succeeded()
	case Else:
		return !t.Succeeded()
	case Finally:
		return true
	case NoEdge, edgeEnd:
	}
	return false
}

// FollowupID returns the id of a follow-up of a task that has ended. It is the same whoever puts it, so that
// it is put once, and has the time of that end.
func FollowupID(ended *Task, e Edge, index uint32) ID {
	var round uint32
	if ended.Chain != nil {
		round = ended.Chain.Round
	}
	var numbers [17]byte
	binary.BigEndian.PutUint64(numbers[:], ended.Life)
	binary.BigEndian.PutUint32(numbers[8:], round)
	numbers[12] = byte(e)
	binary.BigEndian.PutUint32(numbers[13:], index)
	sum := IDOf([]byte("chain"), ended.ID[:], numbers[:])
	return NewID(ended.Ended, uint64(binary.BigEndian.Uint16(sum[:2])), binary.BigEndian.Uint64(sum[8:]))
}

// EarlierEnd returns the task as it was when it had ended in an earlier round, as far as what followed it
// depends on that.
func (t *Task) EarlierEnd(e *Earlier) Task {
	was, chain := *t, *t.Chain
	chain.Round, chain.Paused, chain.PausedDue, chain.Held, chain.Earlier = e.Round, e.Paused, 0, nil, nil
	was.State, was.Ended, was.CancelRequested, was.Result, was.History, was.Chain = Dead, e.Ended, false, nil, nil, &chain
	if e.Succeeded {
		was.State = Success
	}
	return was
}

// inNextRound returns the chain of a task that starts anew.
func (c *Chain) inNextRound() *Chain {
	if c == nil {
		return nil
	}
	next := *c
	next.Round++
	next.Paused, next.PausedDue, next.Held = false, 0, nil
	return &next
}
