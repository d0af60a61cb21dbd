package fleet

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/kinesin-io/kinesin/store"
)

// State is what a process says of itself in its row.
type State uint8

// The states. A row that says none, as those of older versions do, is Ready.
const (
	// Ready: it owns its share, and the others leave that to it.
	Ready State = iota
	// Joining: it is not warm yet. It counts itself as a member, the others do not, unless it is a founder.
	Joining
	// Leaving: it is about to end and fires on until the others have taken over. They no longer count it as a
	// member.
	Leaving
)

var stateNames = [...]string{Ready: "ready", Joining: "joining", Leaving: "leaving"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state " + strconv.Itoa(int(s))
}

// MarshalText is the state as rows have it.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the state of a row. One that a newer version knows counts as Ready: who wrote it is
// alive.
func (s *State) UnmarshalText(text []byte) error {
	*s = State(max(0, slices.Index(stateNames[:], string(text))))
	return nil
}

// View is the name of a set of members: equal for equal sets, whatever the order; never 0.
func View(members []string) uint64 {
	names := slices.Clone(members)
	slices.Sort(names)
	h := fnv.New64a()
	for _, name := range slices.Compact(names) {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	return max(1, h.Sum64())
}

// mark is a process's name in the lists that rows have of those taken over from: short, and all but unique.
func mark(process string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(process))
	return h.Sum32()
}

// format is what the rows of this version say beyond those of the first: all from State on.
const format = 1

// record is a member's row.
type record struct {
	Run  string `json:"run"`     // of the process that wrote it
	Beat uint64 `json:"beat"`    // number of the renewal; the row's version begins anew when it was deleted
	Wall int64  `json:"wall_us"` // its clock at that moment

	Format  int      `json:"format,omitempty"`
	State   State    `json:"state,omitzero"`
	Founder bool     `json:"founder,omitempty"` // it came when nobody was ready, and counts by its own word
	Host    string   `json:"host,omitempty"`
	Group   string   `json:"group,omitempty"`
	View    uint64   `json:"view,omitempty,string"`
	Without []uint32 `json:"without,omitempty"` // marks of the leaving whose share it has taken over
}

// counts says that the process is a member as far as its own word goes.
func (r *record) counts() bool { return r.State.counts(r.Founder) }

func (s State) counts(founder bool) bool { return s == Ready || founder && s == Joining }

// handsOver says that the process takes part in planned hand-overs.
func (r *record) handsOver() bool { return r.Format >= format }

func (m *Membership) row(version uint64, says record) store.Control {
	m.beat++
	says.Run, says.Beat, says.Wall, says.Format = m.run, m.beat, int64(m.Clock.Now()), format
	value, _ := json.Marshal(says) // strings and numbers never fail
	return store.Control{Kind: Kind, Name: m.Config.Self, Version: version, Value: value}
}

// decode reads a row; of one that cannot be read only its changes count.
func decode(row *store.Control) (r record) {
	_ = json.Unmarshal(row.Value, &r)
	return r
}
