package fakedynamo

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// The limits of a batch of reads.
const (
	batchKeysMax      = 100
	batchReadBytesMax = 16 << 20
)

// read gets one item by its key, and bills it.
func (db *DB) read(now task.Instant, t *table, key item, strong bool, b *bill) (item, error) {
	pk := t.locate(key).pk
	if !t.reads.pass(now, pk) {
		return nil, tooFast()
	}
	m := t.get(key)
	if !strong {
		m = t.getLagging(key, now)
	}
	db.payRead(now, t.reads, pk, b, "", readUnits(itemBytes(m), strong))
	return m, nil
}

// GetItem is the client's method.
func (db *DB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return do(ctx, db, "GetItem", options, func(now task.Instant) (*dynamodb.GetItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Key", "ConsistentRead", "ProjectionExpression", "ReturnConsumedCapacity"); err != nil {
			return nil, err
		}
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		keep, err := (&parser{}).projection(in.ProjectionExpression)
		if err != nil {
			return nil, err
		}
		key, err := normalItem(in.Key)
		if err != nil {
			return nil, err
		}
		if err := t.checkKey(key); err != nil {
			return nil, err
		}
		b := &bill{table: t.name}
		m, err := db.read(now, t, key, aws.ToBool(in.ConsistentRead), b)
		if err != nil {
			return nil, err
		}
		return &dynamodb.GetItemOutput{Item: kept(m, keep), ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, nil
	})
}

// kept returns a copy of an item with the attributes that the caller wants.
func kept(m item, keep []string) item {
	if m == nil || keep == nil {
		return clone(m)
	}
	return clone(project(m, keep))
}

// BatchGetItem is the client's method. It answers in no promised order, leaves what is above 16 MB, throttled
// or struck by awsfake.Partial unprocessed, and fails only when all of it is throttled.
func (db *DB) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return do(ctx, db, "BatchGetItem", options, func(now task.Instant) (*dynamodb.BatchGetItemOutput, error) {
		if err := awsfake.Only(in, "RequestItems", "ReturnConsumedCapacity"); err != nil {
			return nil, err
		}
		g, err := db.newBatchGet(in)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(in.RequestItems)) {
			if err := g.table(now, name, in.RequestItems[name]); err != nil {
				return nil, err
			}
		}
		if g.served == 0 && len(g.out.UnprocessedKeys) > 0 {
			return nil, tooFast()
		}
		return g.out, nil
	})
}

// batchGet executes one BatchGetItem.
type batchGet struct {
	db     *DB
	want   types.ReturnConsumedCapacity
	out    *dynamodb.BatchGetItemOutput
	bytes  int
	served int
}

func (db *DB) newBatchGet(in *dynamodb.BatchGetItemInput) (*batchGet, error) {
	count := 0
	for _, keys := range in.RequestItems {
		count += len(keys.Keys)
	}
	switch {
	case count == 0:
		return nil, invalid("1 validation error detected: Value at 'requestItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	case count > batchKeysMax:
		return nil, invalid("Too many items requested for the BatchGetItem call")
	}
	return &batchGet{db: db, want: in.ReturnConsumedCapacity, out: &dynamodb.BatchGetItemOutput{
		Responses: map[string][]map[string]types.AttributeValue{}, UnprocessedKeys: map[string]types.KeysAndAttributes{},
	}}, nil
}

func (g *batchGet) table(now task.Instant, name string, want types.KeysAndAttributes) error {
	if err := awsfake.Only(&want, "Keys", "ConsistentRead", "ProjectionExpression"); err != nil {
		return err
	}
	t, err := g.db.table(&name)
	if err != nil {
		return err
	}
	keep, err := (&parser{}).projection(want.ProjectionExpression)
	if err != nil {
		return err
	}
	keys, err := t.distinctKeys(want.Keys)
	if err != nil {
		return err
	}
	b := &bill{table: name}
	g.out.Responses[name] = []map[string]types.AttributeValue{}
	var left []map[string]types.AttributeValue
	for _, i := range g.shuffled(len(keys)) {
		if !g.one(now, t, keys[i], aws.ToBool(want.ConsistentRead), keep, b) {
			left = append(left, clone(keys[i]))
		}
	}
	if len(left) > 0 {
		want.Keys = left
		g.out.UnprocessedKeys[name] = want
	}
	if c := b.shown(g.want); c != nil {
		g.out.ConsumedCapacity = append(g.out.ConsumedCapacity, *c)
	}
	return nil
}

// shuffled returns a random order, since a caller may rely on none.
func (g *batchGet) shuffled(n int) []int {
	all := make([]int, n)
	for i := range all {
		at := g.db.Faults.Pick(i + 1)
		all[i], all[at] = all[at], i
	}
	return all
}

// one reads an item and reports whether it was processed.
func (g *batchGet) one(now task.Instant, t *table, key item, strong bool, keep []string, b *bill) bool {
	if g.bytes > batchReadBytesMax || g.db.Faults.Strikes("BatchGetItem", awsfake.Partial) {
		return false
	}
	m, err := g.db.read(now, t, key, strong, b)
	if err != nil {
		return false
	}
	g.served++
	if m == nil {
		return true
	}
	g.bytes += itemBytes(m)
	if g.bytes > batchReadBytesMax {
		return false
	}
	g.out.Responses[t.name] = append(g.out.Responses[t.name], kept(m, keep))
	return true
}

// distinctKeys checks the keys of a batch, none of which may be in it twice.
func (t *table) distinctKeys(all []item) ([]item, error) {
	keys := make([]item, len(all))
	seen := map[[2]string]bool{}
	for i, key := range all {
		var err error
		if keys[i], err = normalItem(key); err != nil {
			return nil, err
		}
		if err := t.checkKey(keys[i]); err != nil {
			return nil, err
		}
		at := t.locate(keys[i])
		if seen[[2]string{at.pk, at.sk}] {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		seen[[2]string{at.pk, at.sk}] = true
	}
	return keys, nil
}
