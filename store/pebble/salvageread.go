package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/google/btree"
)

// version is one version of a row. The one with the highest sequence number is the newest.
type version struct {
	key, value []byte
	seq        uint64
	deleted    bool
}

// compare orders versions by key, the newest first.
func (v *version) compare(w *version) int {
	return cmp.Or(bytes.Compare(v.key, w.key), cmp.Compare(w.seq, v.seq))
}

// readTable yields the versions in a data file, in order. It calls lost for each block that cannot be read,
// with the keys around it. Nothing else of the file is lost, unless the block is part of the index.
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

// readBlock yields the versions of one block, whose keys are in [from, end]. The engine reads a block as a
// whole, so reading fails at the first key or not at all.
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

// blockEnds returns a key for each block of a data file that is at or behind the block's last key.
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

// readLogs reads the versions in logs into memory, in order, also those behind damage.
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
	slices.SortFunc(all, func(v, w version) int { return v.compare(&w) })
	return all
}

// versionsOf decodes a batch. Each entry but log data has a sequence number.
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
			continue
		}
		all = append(all, version{bytes.Clone(key), bytes.Clone(value), seq, kind != pebbledb.InternalKeyKindSet})
		seq++
	}
}

// newest merges sources that are each in order, and yields the newest version of each key.
func newest(sources []salvageSource) iter.Seq[version] {
	return func(yield func(version) bool) {
		queue := btree.NewG(mergeDegree, (*cursor).less)
		for i := range sources {
			queue.ReplaceOrInsert(&cursor{source: &sources[i], number: i, version: version{key: sources[i].low, seq: math.MaxUint64}})
		}
		defer queue.Ascend(func(c *cursor) bool { c.close(); return true })
		var last []byte
		for c, ok := queue.DeleteMin(); ok; c, ok = queue.DeleteMin() {
			if c.next != nil && (last == nil || !bytes.Equal(c.version.key, last)) {
				last = c.version.key
				if !yield(c.version) {
					c.close()
					return
				}
			}
			if c.advance() {
				queue.ReplaceOrInsert(c)
			}
		}
	}
}

const mergeDegree = 32 // of the tree of cursors

// salvageSource yields versions in order; no key is below low.
type salvageSource struct {
	low []byte
	all iter.Seq[version]
}

// cursor is the place of a merge in one source. It opens the source when the merge comes to its first key,
// because a store may have more files than a process may open.
type cursor struct {
	source  *salvageSource
	number  int // of the source
	version version
	next    func() (version, bool) // nil until the source is open
	stop    func()
}

// less orders cursors by key, the newest version first.
func (c *cursor) less(d *cursor) bool {
	return cmp.Or(c.version.compare(&d.version), cmp.Compare(c.number, d.number)) < 0
}

// advance goes to the next version, and returns false at the end.
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
