package node

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

func TestTheNewestHandOversAreRemembered(t *testing.T) {
	var m moves
	now := task.Instant(time.Hour)
	m.add(now, &scheduler.Assignment{}) // nothing moved
	for n := range movesMax + 3 {
		now = now.Add(time.Second)
		s := &scheduler.Assignment{Gained: n + 1, Lost: 1}
		m.add(now, s)
		s.Warm = time.Duration(n+1) * time.Millisecond
		m.warm(s)
	}
	m.add(now, &scheduler.Assignment{Lost: 7})
	m.warm(&scheduler.Assignment{Lost: 7, Warm: time.Second}) // it gained none that had to be read
	all := m.newestFirst()
	if len(all) != movesMax || all[0].Lost != 7 || all[0].Warm != 0 {
		t.Fatalf("%d hand-overs, the newest %+v; want %d, and 7 given up", len(all), all[0], movesMax)
	}
	if got := all[1]; got.Gained != movesMax+3 || got.Warm != (movesMax+3)*time.Millisecond || !got.At.Equal(now.Time()) {
		t.Errorf("%+v", got)
	}
}
