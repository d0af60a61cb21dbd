package store

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/task"
)

func appendChain(dst []byte, c *task.Chain) []byte {
	dst = protowire.AppendTag(dst, fieldChain, protowire.BytesType)
	start := len(dst)
	dst = appendLink(dst, chainRoot, &c.Root)
	dst = appendLink(dst, chainParent, &c.Parent)
	dst = appendVarint(dst, chainOnEdge, uint64(c.Edge))
	dst = appendVarint(dst, chainIndex, uint64(c.Index))
	dst = appendVarint(dst, chainDepth, uint64(c.Depth))
	dst = appendVarint(dst, chainRound, uint64(c.Round))
	dst = appendFlag(dst, chainPaused, c.Paused)
	dst = appendVarint(dst, chainPausedDue, uint64(c.PausedDue))
	dst = appendBytes(dst, chainFollow, c.Follow)
	if !c.FollowID.IsZero() {
		dst = appendBytes(dst, chainFollowID, c.FollowID[:])
	}
	dst = appendVarint(dst, chainFollowBytes, uint64(c.FollowBytes))
	dst = appendVarint(dst, chainFollowCount, uint64(c.FollowCount))
	dst = appendBytes(dst, chainOutcome, c.Outcome)
	dst = appendFlag(dst, chainFromParent, c.FromParent)
	dst = appendVarint(dst, chainAddedThen, uint64(c.Added[0]))
	dst = appendVarint(dst, chainAddedElse, uint64(c.Added[1]))
	dst = appendVarint(dst, chainAddedFinally, uint64(c.Added[2]))
	for i := range c.Held {
		dst = appendHeld(dst, &c.Held[i])
	}
	dst = appendVarint(dst, chainStartBefore, uint64(c.StartBefore))
	if !c.FollowSum.IsZero() {
		dst = appendBytes(dst, chainFollowSum, c.FollowSum[:])
	}
	return insertLength(dst, start)
}

func appendHeld(dst []byte, h *task.Held) []byte {
	dst = protowire.AppendTag(dst, chainHeld, protowire.BytesType)
	start := len(dst)
	dst = appendVarint(dst, heldEdge, uint64(h.Edge))
	dst = appendVarint(dst, heldIndex, uint64(h.Index))
	return insertLength(appendLink(dst, heldHolder, &h.Holder), start)
}

func setHeld(c *task.Chain, b []byte) error {
	var h task.Held
	err := eachField(b, func(f *field) error {
		switch f.id {
		case heldEdge:
			h.Edge = task.Edge(f.number)
		case heldIndex:
			return setUint32(&h.Index, f)
		case heldHolder:
			return setLink(&h.Holder, f.bytes)
		}
		return nil
	})
	c.Held = append(c.Held, h)
	return err
}

func appendLink(dst []byte, f protowire.Number, l *task.Link) []byte {
	if l.ID.IsZero() {
		return dst
	}
	dst = protowire.AppendTag(dst, f, protowire.BytesType)
	start := len(dst)
	dst = appendBytes(dst, linkID, l.ID[:])
	dst = AppendPartition(protowire.AppendVarint(protowire.AppendTag(dst, linkPartition, protowire.BytesType), PartitionLen), l.Partition)
	dst = appendVarint(dst, linkDue, uint64(l.Due))
	return insertLength(appendVarint(dst, linkLife, l.Life), start)
}

func setChain(t *task.Task, b []byte) error {
	c := &task.Chain{}
	t.Chain = c
	return eachField(b, func(f *field) error {
		switch f.id {
		case chainRoot:
			return setLink(&c.Root, f.bytes)
		case chainParent:
			return setLink(&c.Parent, f.bytes)
		case chainOnEdge:
			c.Edge = task.Edge(f.number)
		case chainIndex:
			return setUint32(&c.Index, f)
		case chainDepth:
			return setUint32(&c.Depth, f)
		case chainRound:
			return setUint32(&c.Round, f)
		case chainPaused:
			c.Paused = f.number != 0
		case chainPausedDue:
			c.PausedDue = f.instant()
		case chainFollow:
			c.Follow = slices.Clone(f.bytes)
		case chainFollowID:
			return setArray(&c.FollowID, f)
		case chainFollowBytes:
			return setUint32(&c.FollowBytes, f)
		case chainFollowCount:
			return setUint32(&c.FollowCount, f)
		case chainOutcome:
			c.Outcome = slices.Clone(f.bytes)
		case chainFromParent:
			c.FromParent = f.number != 0
		case chainAddedThen:
			return setUint32(&c.Added[0], f)
		case chainAddedElse:
			return setUint32(&c.Added[1], f)
		case chainAddedFinally:
			return setUint32(&c.Added[2], f)
		case chainHeld:
			return setHeld(c, f.bytes)
		case chainStartBefore:
			c.StartBefore = f.instant()
		case chainFollowSum:
			return setArray(&c.FollowSum, f)
		}
		return nil
	})
}

func setLink(l *task.Link, b []byte) error {
	return eachField(b, func(f *field) error {
		switch f.id {
		case linkID:
			return setArray(&l.ID, f)
		case linkPartition:
			if len(f.bytes) != PartitionLen {
				return fmt.Errorf("%w: the partition of a link has %d bytes", ErrCorrupt, len(f.bytes))
			}
			l.Partition = DecodePartition(f.bytes)
		case linkDue:
			l.Due = f.instant()
		case linkLife:
			l.Life = f.number
		}
		return nil
	})
}
