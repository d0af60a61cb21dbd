package dynamo

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

func drawPosition(t *rapid.T) (task.Instant, task.ID) {
	at := task.Instant(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, int64(instantMax))).Draw(t, "at"))
	var id task.ID
	copy(id[:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0xff}), 16, 16).Draw(t, "id"))
	return at, id
}

func TestSortKeysSortAsWhatTheyStandFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at1, id1 := drawPosition(t)
		at2, id2 := drawPosition(t)
		text1, text2 := positionText(at1, id1), positionText(at2, id2)
		if want := cmp.Or(cmp.Compare(at1, at2), bytes.Compare(id1[:], id2[:])); strings.Compare(text1, text2) != want {
			t.Fatalf("%s and %s, want %d", text1, text2, want)
		}
		low, high, ok := between(at1, id1, at2)
		zero := at1 == 0 && id1.IsZero()
		inside := ok && low <= text2 && text2 <= high
		if want := zero || strings.Compare(text2, text1) > 0; inside != want {
			t.Fatalf("%s is behind %s and at or before %d: got %v", text2, text1, at2, inside)
		}
		if past, _, _ := between(at1, id1, at2); ok && at2 < instantMax && positionText(at2+1, task.ID{}) <= high {
			t.Fatalf("%s reaches beyond %d", past, at2)
		}
	})
}

func TestStatements(t *testing.T) {
	names := newTables("P")
	s := newShapes(&names)
	for _, c := range []struct{ got, want string }{
		{*s.putWakeup.statement, `INSERT INTO "P-schedule" VALUE {'q':?,'r':?,'p':?,'k':?}`},
		{*s.putWakeup.condition, `attribute_not_exists(p) OR q<:q`},
		{*s.replaceWakeup.statement, `UPDATE "P-schedule" SET q=? SET r=? WHERE p=? AND k=? AND q=?`},
		{*s.deleteWakeup.statement, `DELETE FROM "P-schedule" WHERE p=? AND k=? AND q=?`},
		{*s.replaceTask[liveRow].statement, `UPDATE "P-tasks" SET q=? SET r=? REMOVE x REMOVE d REMOVE e WHERE i=? AND q=?`},
		{*s.replaceTask[deadRow].statement, `UPDATE "P-tasks" SET q=? SET r=? SET x=? SET d=? SET e=? WHERE i=? AND q=?`},
		{*s.replaceTask[endedRow].condition, `q=:q`},
		{*s.putControl.condition, `attribute_not_exists(c)`},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
