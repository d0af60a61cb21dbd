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

// buckets hold each partition key to its rate, and save up to a second's worth of it. A call passes while
// anything is left, and then pays what it costs.
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

func (b *buckets) pay(now task.Instant, pk string, units float64) {
	if b.pass(now, pk); b.rate >= 0 {
		k := b.at[pk]
		k.left -= units
		b.at[pk] = k
	}
}

// bill is the capacity that one call consumed of one table.
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

// shown returns the bill in the form that the caller wants; nil for none.
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

// payWrite takes a write that replaces one item by another, either of which may be nil, off the buckets, and
// returns the bill.
func (db *DB) payWrite(now task.Instant, t *table, old, changed item, key item) *bill {
	b := &bill{table: t.name, base: writeUnits(max(itemBytes(old), itemBytes(changed)))}
	t.writes.pay(now, t.locate(key).pk, b.base)
	for _, x := range t.indexes {
		for _, w := range x.written(x.entry(t, old), x.entry(t, changed)) {
			b.addIndex(x.name, w.units)
			x.writes.pay(now, w.pk, w.units)
		}
	}
	db.spent.Write += b.total()
	return b
}

// indexWrite is the capacity that a change of an item consumes of one partition of an index.
type indexWrite struct {
	pk    string
	units float64
}

// written returns the writes that replace one entry by another, either of which may be nil: none when they
// are equal, two when the entry moves.
func (x *index) written(before, after *row) []indexWrite {
	isSame := before != nil && after != nil && !before.less(*after) && !after.less(*before)
	if isSame {
		if equalItems(before.item, after.item) {
			return nil
		}
		return []indexWrite{{after.pk, writeUnits(max(itemBytes(before.item), itemBytes(after.item)))}}
	}
	var all []indexWrite
	for _, r := range []*row{before, after} {
		if r != nil {
			all = append(all, indexWrite{r.pk, writeUnits(itemBytes(r.item))})
		}
	}
	return all
}

// payRead takes a read off the buckets and adds it to the bill.
func (db *DB) payRead(now task.Instant, from *buckets, pk string, b *bill, index string, units float64) {
	from.pay(now, pk, units)
	if index != "" {
		b.addIndex(index, units)
	} else {
		b.base += units
	}
	db.spent.Read += units
}
