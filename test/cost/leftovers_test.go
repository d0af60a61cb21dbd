package cost

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

// A head of leftover rows, wake-up rows of tasks that have ended, is read once and deleted: each takes its
// part of a page of the schedule, a read of its task row and a delete, however many there are.
func TestUnitsOfAHeadOfLeftoverRows(t *testing.T) {
	counts := []int{500, 1000, 2000}
	perRow := make([]float64, len(counts))
	for i, rows := range counts {
		t.Run(fmt.Sprint(rows), func(t *testing.T) { perRow[i] = readUnitsOfLeftovers(t, rows) })
	}
	const apart = 0.05
	for _, each := range perRow {
		if each < perRow[0]*(1-apart) || each > perRow[0]*(1+apart) {
			t.Errorf("read units of a leftover row, by how many there are: %.3f, want about the same", perRow)
		}
	}
}

// readUnitsOfLeftovers returns the read units of each of so many rows until all are gone.
func readUnitsOfLeftovers(t *testing.T, rows int) float64 {
	t.Helper()
	s := newSite(t, options{single: true, before: func(d store.Driver, lambdas *catalog.Catalog) {
		entry, _, err := lambdas.Create(t.Context(), task.Lambda{Name: "crashed", Priorities: []string{"normal"}, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		harness.Leftovers(t, d, task.Partition{Lambda: entry.Ref}, rows, make([]byte, 100))
	}})
	deadline := time.Now().Add(time.Minute)
	for tasks(s.now().writes) < float64(rows) && time.Now().Before(deadline) {
		<-time.After(20 * time.Millisecond)
	}
	all := s.quiet(t)
	perTask(t, "write units of a leftover row", tasks(all.writes), rows, 1.02)
	perTask(t, "read units of a leftover row, schedule", ofTable(all.reads, "schedule"), rows, 0.08)
	perTask(t, "read units of a leftover row, tasks", ofTable(all.reads, "tasks"), rows, 1.02)
	return tasks(all.reads) / float64(rows)
}

// ofTable returns the units of one table.
func ofTable(units map[string]float64, table string) (sum float64) {
	for name, n := range units {
		if strings.HasSuffix(name, "-"+table) {
			sum += n
		}
	}
	return sum
}
