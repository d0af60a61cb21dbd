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

func TestOtherKeysAreOfNoMember(t *testing.T) {
	id := NewID(1, 2, 3).String()
	for _, key := range []string{"", "group:", "group:" + id, "group:" + id + ":", "group:" + id + ":07", "group:" + id + ":-1", "group:" + id + ":4294967296", id + ":7", "group:x:7"} {
		if _, _, ok := ParseMemberKey(key); ok {
			t.Errorf("%q is taken for the key of a member", key)
		}
	}
}

// Ids and keys of members of a group, and of groups, differ.
func TestMembersHaveTheirOwnIDs(t *testing.T) {
	seen := map[ID]bool{}
	for _, group := range []ID{NewID(1, 2, 3), NewID(1, 2, 4)} {
		for i := range uint32(1000) {
			id := MemberID(group, i, 0)
			if seen[id] || !id.IsDerived() || id != MemberID(group, i, 0) || seen[MemberID(group, i, 1)] {
				t.Fatalf("member %d: %v", i, id)
			}
			seen[id], seen[MemberID(group, i, 1)] = true, true
			if g, n, ok := ParseMemberKey(MemberKey(group, i)); !ok || g != group || n != i {
				t.Fatalf("%s is the key of %d: %v", MemberKey(group, i), n, ok)
			}
		}
	}
}
