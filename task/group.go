package task

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// GroupMembersMax is how many members a group has at most, and GroupFollowUpsMax how many tasks may follow
// it.
const (
	GroupMembersMax   = 100_000
	GroupFollowUpsMax = 100
)

// Member says which member of a group a task is. It never changes.
type Member struct {
	Group ID     `row:"1,always"`
	Index uint32 `row:"2"`
	// Until is how long its ended row is kept at least: the group is counted from the rows of its members.
	Until Instant `row:"3"`
	// Try tells it from a task that a call stored in this place which died before the group counted it.
	Try uint32 `row:"4"`
}

// ID returns the id of the member.
func (m *Member) ID() ID { return MemberID(m.Group, m.Index, m.Try) }

// MemberID returns the id of a member of a group. It is the same whoever puts it, so that it is put once, and
// whoever counts the group's members finds them all.
func MemberID(group ID, index, try uint32) ID {
	number := binary.BigEndian.AppendUint32(nil, index)
	if try > 0 {
		number = binary.BigEndian.AppendUint32(number, try)
	}
	return IDOf([]byte("group"), group[:], number)
}

// MemberKey is the key of a member: like other keyed tasks it has a task row from the start.
func MemberKey(group ID, index uint32) string { return fmt.Sprintf("group:%s:%d", group, index) }

// ParseMemberKey is the inverse of MemberKey; ok is false for any other key.
func ParseMemberKey(key string) (group ID, index uint32, ok bool) {
	id, number, _ := strings.Cut(strings.TrimPrefix(key, "group:"), ":")
	group, err := ParseID(id)
	n, badNumber := strconv.ParseUint(number, 10, 32)
	index = uint32(n)
	return group, index, err == nil && badNumber == nil && MemberKey(group, index) == key
}

// Outcomes counts tasks by the end in which they are.
type Outcomes [stateEnd]uint32

// Sum returns how many were counted.
func (o *Outcomes) Sum() (sum uint32) {
	for _, n := range o {
		sum += n
	}
	return sum
}

// Succeeded returns how many did their work.
func (o *Outcomes) Succeeded() uint32 { return o[Success] + o[Delivered] }

// ByName returns the counts that are not 0 by the texts of their states.
func (o *Outcomes) ByName() map[string]uint32 {
	all := map[string]uint32{}
	for s, n := range o {
		if n > 0 {
			all[State(s).String()] = n
		}
	}
	return all
}

// GroupEnd says after which group a task follows, and how that has ended. It never changes.
type GroupEnd struct {
	Group   ID       `row:"1,always"`
	Members uint32   `row:"2"`
	Ended   Outcomes `row:"3"` // all members, unless the group expired
	Expired bool     `row:"4"`
	// Cancelled says that the group was cancelled before all members had ended.
	Cancelled bool `row:"5"`
}
