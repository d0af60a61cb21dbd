package pebble

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
)

// version is one state of a row: the newest one counts, which has the highest sequence number.
type version struct {
	key, value []byte
	seq        uint64
	deleted    bool
}

func (v *version) before(w *version) bool {
	if c := bytes.Compare(v.key, w.key); c != 0 {
		return c < 0
	}
	return v.seq > w.seq
}

// readTable yields the versions in a data file, in order. lost is told of each block that cannot be read, by
// the keys around it; nothing else of the file is lost with it, unless it is of the index.
func readTable(d *Driver, name string, lost func(format string, args ...any)) iter.Seq[version] {
	return func(yield func(version) bool) {
		table, err := openTable(d.cfg.FS, d.cfg.FS.PathJoin(d.dir, name), func(int) error { return nil })
		if err != nil {
			lost("%s cannot be opened: all rows in it are lost: %s", name, firstLine(err))
			return
		}
		defer func() { _ = table.Close() }()
		ends, err := blockEnds(table)
		if err != nil {
			lost("the index of %s cannot be read: all rows in it are lost: %s", name, firstLine(err))
			return
		}
		rows, err := table.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
		if err != nil {
			lost("%s cannot be read: all rows in it are lost: %s", name, firstLine(err))
			return
		}
		defer func() { _ = rows.Close() }()
		var from []byte
		for i, end := range ends {
			more, err := readBlock(rows, from, end, yield)
			if err != nil {
				lost("block %d of %d of %s cannot be read: rows between the keys %x and %x are lost", i+1, len(ends), name, from, end)
			}
			if !more {
				return
			}
			from = append(bytes.Clone(end), 0)
		}
	}
}

// readBlock yields the versions of one block, whose keys are in [from, end]. A block is read as a whole: it
// fails at once or not.
func readBlock(rows sstable.Iterator, from, end []byte, yield func(version) bool) (more bool, err error) {
	kv := rows.SeekGE(from, 0)
	if kv == nil {
		return true, rows.Error()
	}
	for ; kv != nil && bytes.Compare(kv.K.UserKey, end) <= 0; kv = rows.Next() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return true, err
		}
		v := version{bytes.Clone(kv.K.UserKey), bytes.Clone(value), uint64(kv.SeqNum()), false}
		switch kv.Kind() {
		case pebbledb.InternalKeyKindSet, pebbledb.InternalKeyKindSetWithDelete:
		default:
			v.deleted = true
		}
		if !yield(v) {
			return false, nil
		}
	}
	return true, nil
}

// blockEnds are the keys that end the blocks of a data file, each of them at or behind the last key of its
// block.
func blockEnds(table *sstable.Reader) ([][]byte, error) {
	layout, err := table.Layout()
	if err != nil {
		return nil, err
	}
	if !layout.Format.BlockColumnar() {
		return nil, errors.New("its format is of another program")
	}
	var ends [][]byte
	for _, handle := range layout.Index {
		content, err := table.BlockReader().Read(context.Background(), block.NoReadEnv, nil, handle, blockkind.Metadata,
			func(*block.Metadata, []byte) error { return nil })
		if err != nil {
			return nil, err
		}
		var index colblk.IndexIter
		if err := index.Init(table.Comparer, content.BlockData(), sstable.NoTransforms); err != nil {
			content.Release()
			return nil, err
		}
		for valid := index.First(); valid; valid = index.Next() {
			ends = append(ends, bytes.Clone(index.Separator()))
		}
		content.Release()
	}
	return ends, nil
}

// readLogs reads the versions in logs into memory, in order, and those behind damage too.
func readLogs(d *Driver, logs map[uint64]string, lost func(format string, args ...any)) []version {
	var all []version
	for _, number := range slices.Sorted(maps.Keys(logs)) {
		c := logCheck{batch: func(content []byte) {
			found, err := versionsOf(content)
			all = append(all, found...)
			if err != nil {
				lost("%s: a group of writes cannot be decoded: %v", logs[number], err)
			}
		}}
		if err := readLog(d.cfg.FS, d.cfg.FS.PathJoin(d.dir, logs[number]), number, &c); err != nil {
			lost("%s cannot be read: the writes in it are lost: %s", logs[number], firstLine(err))
		}
	}
	slices.SortFunc(all, func(v, w version) int {
		return cmp.Or(bytes.Compare(v.key, w.key), cmp.Compare(w.seq, v.seq))
	})
	return all
}

// versionsOf decodes a batch, each of whose entries has a sequence number.
func versionsOf(batch []byte) (all []version, err error) {
	head, ok := batchrepr.ReadHeader(batch)
	if !ok {
		return nil, fmt.Errorf("%d bytes", len(batch))
	}
	seq, entries := uint64(head.SeqNum), batchrepr.Read(batch)
	for {
		kind, key, value, ok, err := entries.Next()
		if !ok || err != nil {
			return all, err
		}
		if kind == pebbledb.InternalKeyKindLogData {
			continue // counts for nothing
		}
		all = append(all, version{bytes.Clone(key), bytes.Clone(value), seq, kind != pebbledb.InternalKeyKindSet})
		seq++
	}
}

// newest merges sources that are each in order, and yields the newest version of each key.
func newest(sources []salvageSource) iter.Seq[version] {
	return func(yield func(version) bool) {
		h := make(mergeHeap, 0, len(sources))
		defer func() {
			for _, s := range h {
				s.close()
			}
		}()
		for i := range sources {
			h = append(h, &cursor{source: sources[i], version: version{key: sources[i].low, seq: ^uint64(0)}})
		}
		heap.Init(&h)
		var last []byte
		for len(h) > 0 {
			c := h[0]
			if c.next != nil && (last == nil || !bytes.Equal(c.version.key, last)) {
				last = c.version.key
				if !yield(c.version) {
					return
				}
			}
			if c.advance() {
				heap.Fix(&h, 0)
			} else {
				heap.Pop(&h)
			}
		}
	}
}

// salvageSource yields versions none of which has a key below low.
type salvageSource struct {
	low []byte
	all iter.Seq[version]
}

// cursor is where a merge is in one source, which it opens when it comes to its first key: a store may have
// more files than a process may have open.
type cursor struct {
	source  salvageSource
	version version
	next    func() (version, bool)
	stop    func()
}

// advance goes to the next version; false at the end.
func (c *cursor) advance() (ok bool) {
	if c.next == nil {
		c.next, c.stop = iter.Pull(c.source.all)
	}
	if c.version, ok = c.next(); !ok {
		c.close()
	}
	return ok
}

func (c *cursor) close() {
	if c.stop != nil {
		c.stop()
	}
}

// mergeHeap has the cursor with the next version first.
type mergeHeap []*cursor

func (h mergeHeap) Len() int           { return len(h) }
func (h mergeHeap) Less(i, j int) bool { return h[i].version.before(&h[j].version) }
func (h mergeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *mergeHeap) Push(c any) { *h = append(*h, c.(*cursor)) } //nolint:errcheck,forcetypeassert // nothing else is pushed

// Pop implements heap.Interface.
func (h *mergeHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
