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
	for i := range c.Earlier {
		dst = appendEarlier(dst, &c.Earlier[i])
	}
	return insertLength(dst, start)
}

func appendHeld(dst []byte, h *task.Held) []byte {
	return appendAt(dst, chainHeld, h.Edge, h.Index, &h.Holder)
}

func setHeld(c *task.Chain, b []byte) error {
	var h task.Held
	err := setAt(b, &h.Edge, &h.Index, &h.Holder)
	c.Held = append(c.Held, h)
	return err
}

// appendAt appends a link to a task at the place of a follow-up.
func appendAt(dst []byte, id protowire.Number, e task.Edge, index uint32, to *task.Link) []byte {
	dst = protowire.AppendTag(dst, id, protowire.BytesType)
	start := len(dst)
	dst = appendVarint(dst, heldEdge, uint64(e))
	dst = appendVarint(dst, heldIndex, uint64(index))
	return insertLength(appendLink(dst, heldHolder, to), start)
}

func setAt(b []byte, e *task.Edge, index *uint32, to *task.Link) error {
	return eachField(b, func(f *field) error {
		switch f.id {
		case heldEdge:
			*e = task.Edge(f.number)
		case heldIndex:
			return setUint32(index, f)
		case heldHolder:
			return setLink(to, f.bytes)
		}
		return nil
	})
}

func appendEarlier(dst []byte, e *task.Earlier) []byte {
	dst = protowire.AppendTag(dst, chainEarlier, protowire.BytesType)
	start := len(dst)
	dst = appendVarint(dst, earlierRound, uint64(e.Round))
	dst = appendVarint(dst, earlierEnded, uint64(e.Ended))
	dst = appendFlag(dst, earlierSucceeded, e.Succeeded)
	dst = appendFlag(dst, earlierPaused, e.Paused)
	for i := range e.Added {
		dst = appendAt(dst, earlierAdded, e.Added[i].Edge, e.Added[i].Index, &e.Added[i].Task)
	}
	return insertLength(dst, start)
}

func setEarlier(c *task.Chain, b []byte) error {
	var e task.Earlier
	err := eachField(b, func(f *field) error {
		switch f.id {
		case earlierRound:
			return setUint32(&e.Round, f)
		case earlierEnded:
			e.Ended = f.instant()
		case earlierSucceeded:
			e.Succeeded = f.number != 0
		case earlierPaused:
			e.Paused = f.number != 0
		case earlierAdded:
			var a task.Added
			err := setAt(f.bytes, &a.Edge, &a.Index, &a.Task)
			e.Added = append(e.Added, a)
			return err
		}
		return nil
	})
	c.Earlier = append(c.Earlier, e)
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
		case chainEarlier:
			return setEarlier(c, f.bytes)
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
