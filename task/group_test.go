package task

import (
	"testing"
	"time"
)

// The ended row of a member is kept for its group, and for as long as its lambda keeps others.
func TestAnEndedMemberIsKeptForItsGroup(t *testing.T) {
	const now, until = Instant(1_000_000_000), Instant(9_000_000_000_000)
	for retention, want := range map[time.Duration]Instant{time.Minute: until, 365 * 24 * time.Hour: now.Add(365 * 24 * time.Hour)} {
		row := Task{State: Scheduled, Seq: 1, Due: now, Wake: now, Key: "k", Member: &Member{Until: until}}
		ended, _, err := row.Apply(Event{Kind: Cancel}, now, Policy{Retention: retention, KeyRetention: retention})
		if err != nil || ended.ExpireAt != want {
			t.Errorf("retention %v: kept until %v, want %v (%v)", retention, ended.ExpireAt, want, err)
		}
		if !ended.HoldsKey(until-1, Policy{}) {
			t.Error("its place is free again")
		}
	}
}

func TestOutcomesCount(t *testing.T) {
	var o Outcomes
	o[Success], o[Delivered], o[Dead] = 3, 2, 1
	if o.Sum() != 6 || o.Succeeded() != 5 || len(o.ByName()) != 3 || o.ByName()["dead"] != 1 {
		t.Errorf("%v", o.ByName())
	}
}

// Ids and keys of members of a group, and of groups, differ.
func TestMembersHaveTheirOwnIDs(t *testing.T) {
	seen := map[ID]bool{}
	for _, group := range []ID{NewID(1, 2, 3), NewID(1, 2, 4)} {
		for i := range uint32(1000) {
			id := MemberID(group, i)
			if seen[id] || !id.IsDerived() || id != MemberID(group, i) {
				t.Fatalf("member %d: %v", i, id)
			}
			seen[id] = true
		}
	}
}
