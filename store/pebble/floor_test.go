package pebble

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

// TestFloorNeverHidesAnEntry steps a committer and several scans against each other in random order. After
// every step no live entry may be below the floor, whether it is visible yet or not.
func TestFloorNeverHidesAnEntry(t *testing.T) {
	raised := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &floorModel{f: newFloor()}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": m.insert, "visible": m.visible, "delete": m.delete,
			"begin": m.begin, "open": m.open, "finish": m.finish,
			"": func(rt *rapid.T) {
				for _, p := range slices.Concat(m.pending, m.seen) {
					if p.less(m.f.low) {
						rt.Fatalf("live entry %v is below the floor %v", p, m.f.low)
					}
				}
			},
		})
		raised += m.raised
	})
	if raised == 0 {
		t.Error("no scan ever raised the floor")
	}
}

type floorModel struct {
	f             floor
	pending, seen []position // live entries
	scans         []*floorScan
	raised        int
}

type floorScan struct {
	from, low position
	raises    bool
	opened    bool
	view      []position // what its iterator sees
}

func (m *floorModel) insert(rt *rapid.T) {
	p := position{at: task.Instant(rapid.IntRange(1, 30).Draw(rt, "at"))}
	if !slices.Contains(m.pending, p) && !slices.Contains(m.seen, p) {
		m.f.insert(p)
		m.pending = append(m.pending, p)
	}
}

func (m *floorModel) visible(*rapid.T) {
	m.seen, m.pending = append(m.seen, m.pending...), nil
	m.f.visible()
}

func (m *floorModel) delete(rt *rapid.T) {
	if len(m.seen) == 0 {
		rt.Skip()
	}
	i := rapid.IntRange(0, len(m.seen)-1).Draw(rt, "entry")
	m.seen = slices.Delete(m.seen, i, i+1)
}

func (m *floorModel) begin(rt *rapid.T) {
	if len(m.scans) == 3 {
		rt.Skip()
	}
	s := &floorScan{from: position{at: task.Instant(rapid.SampledFrom([]int{0, 0, 0, 1, 5, 10, 20}).Draw(rt, "from"))}}
	s.low, s.raises = m.f.start(s.from)
	below := !m.f.low.less(s.from)
	if busy := slices.ContainsFunc(m.scans, func(s *floorScan) bool { return s.raises }); s.raises != (below && !busy) {
		rt.Fatalf("scan raises: %v, begins below the floor: %v, while another raises: %v", s.raises, below, busy)
	}
	if want := later(s.from, m.f.low); s.low != want {
		rt.Fatalf("scan from %v begins at %v, want %v", s.from, s.low, want)
	}
	m.scans = append(m.scans, s)
}

func (m *floorModel) draw(rt *rapid.T, opened bool) int {
	var fit []int
	for i, s := range m.scans {
		if s.opened == opened {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		rt.Skip()
	}
	return rapid.SampledFrom(fit).Draw(rt, "scan")
}

func (m *floorModel) open(rt *rapid.T) {
	s := m.scans[m.draw(rt, false)]
	s.opened, s.view = true, slices.Clone(m.seen)
}

func (m *floorModel) finish(rt *rapid.T) {
	i := m.draw(rt, true)
	s := m.scans[i]
	m.scans = slices.Delete(m.scans, i, i+1)
	if !s.raises {
		return
	}
	head := position{at: task.Instant(rapid.IntRange(1, 31).Draw(rt, "end"))}
	for _, p := range s.view {
		if !p.less(s.low) {
			head = earlier(head, p)
		}
	}
	before := m.f.low
	m.f.raise(head)
	if before.less(m.f.low) {
		m.raised++
	}
}

// TestAFloorStaysBelowWhatIsPending ends a scan that could not see a row, since its group was not visible
// yet.
func TestAFloorStaysBelowWhatIsPending(t *testing.T) {
	f := newFloor()
	f.low = position{at: 5}
	pending := position{at: 7}
	f.insert(pending)
	low, raises := f.start(position{at: 1})
	if low != (position{at: 5}) || !raises {
		t.Fatalf("begins at %v, raises %v", low, raises)
	}
	f.visible()
	f.raise(position{at: 20}) // the first row that its iterator saw
	if f.low != pending {
		t.Errorf("the floor is at %v, above a row at %v", f.low, pending)
	}
}
