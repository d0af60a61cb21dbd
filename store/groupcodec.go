package store

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/task"
)

func appendMember(dst []byte, m *task.Member) []byte {
	dst = protowire.AppendTag(dst, fieldMember, protowire.BytesType)
	start := len(dst)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, memberGroup, protowire.BytesType), m.Group[:])
	dst = appendVarint(dst, memberIndex, uint64(m.Index))
	dst = appendVarint(dst, memberUntil, uint64(m.Until))
	if m.Try > 0 {
		dst = appendVarint(dst, memberTry, uint64(m.Try))
	}
	return insertLength(dst, start)
}

func setMember(t *task.Task, b []byte) error {
	m := &task.Member{}
	t.Member = m
	return eachField(b, func(f *field) error {
		switch f.id {
		case memberGroup:
			return setArray(&m.Group, f)
		case memberIndex:
			return setUint32(&m.Index, f)
		case memberUntil:
			m.Until = f.instant()
		case memberTry:
			return setUint32(&m.Try, f)
		}
		return nil
	})
}

// countBits is how many low bits of a count of a group's end are the state.
const countBits = 8

func appendGroupEnd(dst []byte, g *task.GroupEnd) []byte {
	dst = protowire.AppendTag(dst, fieldGroupEnd, protowire.BytesType)
	start := len(dst)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, groupEndGroup, protowire.BytesType), g.Group[:])
	dst = appendVarint(dst, groupEndMembers, uint64(g.Members))
	for state, n := range g.Ended {
		if n > 0 {
			dst = appendVarint(dst, groupEndCount, uint64(n)<<countBits|uint64(state))
		}
	}
	if g.Expired {
		dst = appendVarint(dst, groupEndExpired, 1)
	}
	if g.Cancelled {
		dst = appendVarint(dst, groupEndCancelled, 1)
	}
	return insertLength(dst, start)
}

func setGroupEnd(t *task.Task, b []byte) error {
	g := &task.GroupEnd{}
	t.GroupEnd = g
	return eachField(b, func(f *field) error {
		switch f.id {
		case groupEndGroup:
			return setArray(&g.Group, f)
		case groupEndMembers:
			return setUint32(&g.Members, f)
		case groupEndCount:
			state := f.number & (1<<countBits - 1)
			if state >= uint64(len(g.Ended)) {
				return fmt.Errorf("%w: a count of state %d in the end of a group", ErrCorrupt, state)
			}
			g.Ended[state] = uint32(f.number >> countBits)
		case groupEndExpired:
			g.Expired = f.number != 0
		case groupEndCancelled:
			g.Cancelled = f.number != 0
		}
		return nil
	})
}
