package fleet

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/kinesin-io/kinesin/store"
)

// Kind is the kind of the control rows.
const Kind = "member"

// State is the state of a process, as its row holds it.
type State uint8

// The states. A row without one, as older versions write it, is Ready.
const (
	// Ready processes own their share, and the others leave it to them.
	Ready State = iota
	// Joining processes are not warm yet. They count themselves as members; the others do not, unless they
	// are founders.
	Joining
	// Leaving processes are about to end, and go on until the others have taken over. The others no longer
	// count them as members.
	Leaving
)

var stateNames = [...]string{Ready: "ready", Joining: "joining", Leaving: "leaving"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state " + strconv.Itoa(int(s))
}

// MarshalText returns the state as rows hold it.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the state of a row. A state of a newer version counts as Ready, since its writer is
// alive.
func (s *State) UnmarshalText(text []byte) error {
	*s = State(max(0, slices.Index(stateNames[:], string(text))))
	return nil
}

// View returns a hash of a set of members, whatever their order. It is never 0.
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

// mark returns the short hash of a process's name that record.Without holds.
func mark(process string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(process))
	return h.Sum32()
}

// format is the version of the rows. Rows of version 0 have none of the fields from State on.
const format = 1

// record is the value of a member's row.
type record struct {
	Run  string `json:"run"`     // identifies the process that wrote it
	Beat uint64 `json:"beat"`    // number of the renewal; the row's version starts over when it was deleted
	Wall int64  `json:"wall_us"` // the writer's clock

	Format  int      `json:"format,omitempty"`
	State   State    `json:"state,omitzero"`
	Founder bool     `json:"founder,omitempty"`
	Host    string   `json:"host,omitempty"`
	Group   string   `json:"group,omitempty"`
	Version string   `json:"version,omitempty"`     // of the program
	View    uint64   `json:"view,omitempty,string"` // of the members it acts on
	Without []uint32 `json:"without,omitempty"`     // marks of the leaving processes it has taken over from
}

// decode reads a row. Of a row that cannot be read only the version counts.
func decode(row *store.Control) (r record) {
	_ = json.Unmarshal(row.Value, &r)
	return r
}
