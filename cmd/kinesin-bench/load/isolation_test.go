package load

import (
	"strings"
	"testing"
)

func TestTheBoundOfIsolation(t *testing.T) {
	solo := Report{LatenessP99: 10}
	for p99, within := range map[float64]bool{10: true, 17: true, 17.1: false} {
		row := IsolationOf(Case{Name: "failing"}, 5, &Report{Tasks: 3, LatenessP99: p99, Lost: 1}, &solo)
		if row.BoundP99 != 17 || row.Within != within || row.Lost != 1 || row.Case != "failing" || row.NeighbourTasks != 5 {
			t.Errorf("p99 %v: %+v", p99, row)
		}
	}
	var out strings.Builder
	if err := (Isolations{{Case: "failing", LatenessP99: 17.05}}).Print(&out); err != nil || !strings.Contains(out.String(), "failing") || !strings.Contains(out.String(), "17.1") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestCasesOfIsolation(t *testing.T) {
	cases := Cases()
	if cases[0].Name != Solo || cases[0].Tasks != nil {
		t.Errorf("the first case is %+v", cases[0])
	}
	seen := map[string]bool{}
	for _, c := range cases[1:] {
		if n := c.Tasks(1_000_000); n < 1 || n > 1_000_000 || c.Tasks(1) != 1 || c.PayloadBytes < indexBytes || seen[c.Name] {
			t.Errorf("case %+v", c)
		}
		seen[c.Name] = true
	}
}
