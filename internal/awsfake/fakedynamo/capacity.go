package fakedynamo

import (
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/task"
)

// Units of capacity.
const (
	writeUnitBytes = 1 << 10
	readUnitBytes  = 4 << 10
	writeUnitsMax  = 1000 // per second and partition key
	readUnitsMax   = 3000
)

func writeUnits(bytes int) float64 {
	return float64(max(1, (bytes+writeUnitBytes-1)/writeUnitBytes))
}

func readUnits(bytes int, strong bool) float64 {
	units := float64(max(1, (bytes+readUnitBytes-1)/readUnitBytes))
	if !strong {
		units /= 2
	}
	return units
}

// buckets hold each partition key to its rate, with a second's worth in store. A call is let through while there is anything
// left and pays what it turns out to cost.
type buckets struct {
	rate float64 // units per second; negative: no limit
	at   map[string]bucket
}

type bucket struct {
	left float64
	at   task.Instant
}

func newBuckets(rate float64) *buckets { return &buckets{rate: rate, at: map[string]bucket{}} }

func (b *buckets) pass(now task.Instant, pk string) bool {
	if b.rate < 0 {
		return true
	}
	k, found := b.at[pk]
	if !found {
		k = bucket{left: b.rate, at: now}
	}
	k.left = math.Min(b.rate, k.left+b.rate*max(0, now.Sub(k.at)).Seconds())
	k.at = now
	b.at[pk] = k
	return k.left > 0
}

func (b *buckets) pay(pk string, units float64) {
	if k, found := b.at[pk]; found {
		k.left -= units
		b.at[pk] = k
	}
}

// bill is what one call consumed of one table.
type bill struct {
	table   string
	base    float64
	indexes map[string]float64
}

func (b *bill) total() float64 {
	sum := b.base
	for _, units := range b.indexes {
		sum += units
	}
	return sum
}

func (b *bill) add(other *bill) {
	b.table = other.table
	b.base += other.base
	for name, units := range other.indexes {
		b.addIndex(name, units)
	}
}

func (b *bill) addIndex(name string, units float64) {
	if b.indexes == nil {
		b.indexes = map[string]float64{}
	}
	b.indexes[name] += units
}

// shown is the bill in the form that the caller asked for.
func (b *bill) shown(want types.ReturnConsumedCapacity) *types.ConsumedCapacity {
	if want != types.ReturnConsumedCapacityTotal && want != types.ReturnConsumedCapacityIndexes {
		return nil
	}
	c := &types.ConsumedCapacity{TableName: aws.String(b.table), CapacityUnits: aws.Float64(b.total())}
	if want == types.ReturnConsumedCapacityIndexes {
		c.Table = &types.Capacity{CapacityUnits: aws.Float64(b.base)}
		for name, units := range b.indexes {
			if c.GlobalSecondaryIndexes == nil {
				c.GlobalSecondaryIndexes = map[string]types.Capacity{}
			}
			c.GlobalSecondaryIndexes[name] = types.Capacity{CapacityUnits: aws.Float64(units)}
		}
	}
	return c
}

// payWrite bills a write that replaces one item by another, either of which may be nil, and takes it off the buckets.
func (db *DB) payWrite(t *table, old, changed item, key item) *bill {
	b := &bill{table: t.name, base: writeUnits(max(itemBytes(old), itemBytes(changed)))}
	t.writes.pay(t.locate(key).pk, b.base)
	for _, x := range t.indexes {
		before, after := x.entry(t, old), x.entry(t, changed)
		db.payIndex(x, b, before, after)
	}
	db.spent.Write += b.total()
	return b
}

func (db *DB) payIndex(x *index, b *bill, before, after *row) {
	moved := before != nil && after != nil && (before.less(*after) || after.less(*before))
	switch {
	case before == nil && after == nil:
		return
	case before != nil && after != nil && !moved:
		if equal(&types.AttributeValueMemberM{Value: before.item}, &types.AttributeValueMemberM{Value: after.item}) {
			return
		}
		x.payFor(b, after, max(itemBytes(before.item), itemBytes(after.item)))
		return
	}
	for _, r := range []*row{before, after} {
		if r != nil {
			x.payFor(b, r, itemBytes(r.item))
		}
	}
}

func (x *index) payFor(b *bill, r *row, bytes int) {
	units := writeUnits(bytes)
	b.addIndex(x.name, units)
	x.writes.pass(0, r.pk)
	x.writes.pay(r.pk, units)
}

// payRead bills a read.
func (db *DB) payRead(from *buckets, pk string, b *bill, index string, units float64) {
	from.pay(pk, units)
	if index != "" {
		b.addIndex(index, units)
	} else {
		b.base += units
	}
	db.spent.Read += units
}
