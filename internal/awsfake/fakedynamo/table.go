package fakedynamo

import (
	"cmp"
	"hash/fnv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// The limits of keys and items.
const (
	hashKeyBytesMax  = 2048
	rangeKeyBytesMax = 1024
	itemBytesMax     = 400 << 10
)

// row is an item in an ordered tree: by the hash of its partition, as scans see them, then by sort key.
type row struct {
	hash         uint64
	pk, sk       string
	tie          uint64 // of an index, where keys need not be unique: a hash of the next two
	basePK, base string // of the item in the table
	item         item
}

func (a row) less(b row) bool {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.pk, b.pk), cmp.Compare(a.sk, b.sk),
		cmp.Compare(a.tie, b.tie), cmp.Compare(a.basePK, b.basePK), cmp.Compare(a.base, b.base)) < 0
}

type tree = btree.BTreeG[row]

const treeDegree = 32

func newTree() *tree { return btree.NewG(treeDegree, row.less) }

// schema names the keys of a table or an index.
type schema struct {
	hash, sort string // sort is empty where there is none
	types      map[string]types.ScalarAttributeType
}

func (s *schema) attributes() []string {
	if s.sort == "" {
		return []string{s.hash}
	}
	return []string{s.hash, s.sort}
}

// locate returns the place of an item.
func (s *schema) locate(m item) row {
	pk, sk := sortText(m[s.hash]), sortText(m[s.sort])
	return row{hash: hashOf(pk), pk: pk, sk: sk, item: m}
}

func hashOf(pk string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(pk))
	return h.Sum64()
}

// check refuses an item without valid keys.
func (s *schema) check(m item) error {
	for _, name := range s.attributes() {
		if m[name] == nil {
			return invalid("One or more parameter values were invalid: Missing the key %s in the item", name)
		}
		if err := s.checkOne(name, m[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkOne refuses a value that cannot be this part of a key.
func (s *schema) checkOne(name string, v value) error {
	if typeOf(v) != s.types[name] {
		return invalid("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", name, s.types[name], typeOf(v))
	}
	limit := rangeKeyBytesMax
	if name == s.hash {
		limit = hashKeyBytesMax
	}
	switch size := valueBytes(v); {
	case size == 0:
		return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", name)
	case size > limit:
		return invalid("One or more parameter values were invalid: Size of key %s has exceeded the maximum size limit of %d bytes", name, limit)
	}
	return nil
}

// checkKey refuses an item that is not exactly a key.
func (s *schema) checkKey(key item) error {
	if len(key) != len(s.attributes()) || s.check(key) != nil {
		return invalid("The provided key element does not match the schema")
	}
	return nil
}

// table is one table. Strongly consistent reads see its rows.
type table struct {
	schema

	name      string
	created   time.Time
	protected bool // against deletion
	rows      *tree
	lagging   *replica
	indexes   []*index
	ttl       string // attribute, empty when TTL is off
	expiries  *btree.BTreeG[expiring]
	writes    *buckets
	reads     *buckets
	faults    *awsfake.Faults
	ttlLag    time.Duration

	expiriesNoted int // so far
}

// index is a global secondary index.
type index struct {
	schema
	*replica

	name       string
	projection types.Projection
	keep       []string // attributes of the projection; nil means all
	writes     *buckets
	reads      *buckets
}

// replica is a tree that changes some time after its table, in the same order.
type replica struct {
	rows    *tree
	lagMax  time.Duration
	pending []pendingChange
}

type pendingChange struct {
	at       task.Instant
	old, new *row
}

func newReplica(lagMax time.Duration) *replica { return &replica{rows: newTree(), lagMax: lagMax} }

func (r *replica) change(now task.Instant, lag time.Duration, before, after *row) {
	at := now.Add(lag)
	if n := len(r.pending); n > 0 {
		at = max(at, r.pending[n-1].at)
	}
	r.pending = append(r.pending, pendingChange{at, before, after})
	r.settle(now)
}

// settle applies the changes that have arrived by now.
func (r *replica) settle(now task.Instant) {
	done := 0
	for ; done < len(r.pending) && r.pending[done].at <= now; done++ {
		p := r.pending[done]
		if p.old != nil {
			r.rows.Delete(*p.old)
		}
		if p.new != nil {
			r.rows.ReplaceOrInsert(*p.new)
		}
	}
	r.pending = r.pending[done:]
}

func (t *table) get(key item) item {
	found, _ := t.rows.Get(t.locate(key))
	return found.item
}

func (t *table) getLagging(key item, now task.Instant) item {
	t.lagging.settle(now)
	found, _ := t.lagging.rows.Get(t.locate(key))
	return found.item
}

// entry returns the row of an item in the index; nil when it has none.
func (x *index) entry(t *table, m item) *row {
	if m == nil {
		return nil
	}
	for _, name := range x.attributes() {
		if m[name] == nil {
			return nil
		}
	}
	if x.keep != nil {
		m = project(m, x.keep)
	}
	r := x.locate(m).of(t.locate(m))
	return &r
}

// of adds the place of its item in the table to a row of an index. Rows with equal keys are in no order that
// anyone could guess.
func (a row) of(base row) row {
	a.tie, a.basePK, a.base = hashOf(base.pk+base.sk), base.pk, base.sk
	return a
}

// checkNew refuses an item that the table or one of its indexes cannot hold.
func (t *table) checkNew(m item) error {
	if err := t.check(m); err != nil {
		return err
	}
	if itemBytes(m) > itemBytesMax {
		return invalid("Item size has exceeded the maximum allowed size")
	}
	for _, x := range t.indexes {
		for _, name := range x.attributes() {
			if m[name] == nil { // then the item is not in the index
				continue
			}
			if err := x.checkOne(name, m[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// put replaces one item by another, either of which may be nil, at once in the table and later in replicas
// and indexes.
func (t *table) put(now task.Instant, old, changed item) {
	before, after := t.rowOf(old), t.rowOf(changed)
	if after != nil {
		t.rows.ReplaceOrInsert(*after)
	} else if before != nil {
		t.rows.Delete(*before)
	}
	t.lagging.change(now, t.faults.Between(t.lagging.lagMax), before, after)
	for _, x := range t.indexes {
		x.change(now, t.faults.Between(x.lagMax), x.entry(t, old), x.entry(t, changed))
	}
	t.noteExpiry(changed)
}

func (t *table) rowOf(m item) *row {
	if m == nil {
		return nil
	}
	r := t.locate(m)
	return &r
}

// passIndexes reports whether every partition of an index that a write changes has capacity. A hot one
// throttles writes of the table.
func (t *table) passIndexes(now task.Instant, old, changed item) bool {
	for _, x := range t.indexes {
		for _, w := range x.written(x.entry(t, old), x.entry(t, changed)) {
			if !x.writes.pass(now, w.pk) {
				return false
			}
		}
	}
	return true
}
