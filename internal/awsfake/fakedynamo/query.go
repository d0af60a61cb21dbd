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

// pageBytesMax ends a page of a query or scan, filtered rows included.
const pageBytesMax = 1 << 20

// source is the table, the lagging replica of one, or the index that a query or scan reads.
type source struct {
	*schema

	table  *table
	index  string // empty for the table
	rows   *tree
	units  *buckets
	strong bool
	bill   *bill
}

func (db *DB) source(now task.Instant, name, indexName *string, consistent *bool) (*source, error) {
	t, err := db.table(name)
	if err != nil {
		return nil, err
	}
	s := &source{schema: &t.schema, table: t, rows: t.rows, units: t.reads, strong: aws.ToBool(consistent), bill: &bill{table: t.name}}
	if indexName == nil {
		if !s.strong {
			t.lagging.settle(now)
			s.rows = t.lagging.rows
		}
		return s, nil
	}
	if s.strong {
		return nil, invalid("Consistent reads are not supported on global secondary indexes")
	}
	at := slices.IndexFunc(t.indexes, func(x *index) bool { return x.name == *indexName })
	if at < 0 {
		return nil, invalid("The table does not have the specified index: %s", *indexName)
	}
	x := t.indexes[at]
	x.settle(now)
	s.schema, s.index, s.rows, s.units = &x.schema, x.name, x.rows, x.reads
	return s, nil
}

// keyRange is a part of one partition.
type keyRange struct {
	pk        string
	hash      uint64
	attribute string // the sort key; empty: all of the partition
	low, high string // the sort texts between which it lies, both included
}

func (k *keyRange) holds(r row) bool {
	return r.hash == k.hash && r.pk == k.pk && (k.attribute == "" || k.low <= r.sk && r.sk <= k.high)
}

// keyRange returns the range of a key condition: an equality of the hash key, and BETWEEN for the sort key.
func (s *schema) keyRange(where *expr) (*keyRange, error) {
	k, found := &keyRange{}, false
	for _, part := range where.parts() {
		isHash := part.path == s.hash && part.op == "=" && !found
		if !isHash && (part.path != s.sort || part.op != "between" || k.attribute != "") {
			return nil, notModelled("key condition %s of %s", part.op, part.path)
		}
		for _, v := range part.with {
			if typeOf(v) != s.types[part.path] {
				return nil, invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
			}
		}
		if isHash {
			found, k.pk = true, sortText(part.with[0])
			k.hash = hashOf(k.pk)
		} else {
			k.attribute, k.low, k.high = part.path, sortText(part.with[0]), sortText(part.with[1])
		}
	}
	if !found {
		return nil, invalid("Query condition missed key schema element: %s", s.hash)
	}
	return k, nil
}

// page reads one page of a query or scan.
type page struct {
	*source

	within  *keyRange // nil: everything
	filter  *expr
	limit   int // rows to look at; 0: no limit
	items   []map[string]types.AttributeValue
	scanned int
	bytes   int
	last    *row // the next page begins after it; nil at the end
}

// read reads rows from a place on, or after it when it is the last row of the page before.
func (p *page) read(from row, after bool) {
	isFull := false
	p.rows.AscendGreaterOrEqual(from, func(r row) bool {
		if after && !from.less(r) {
			return true
		}
		if p.within != nil && !p.within.holds(r) {
			return false
		}
		p.scanned++
		p.bytes += itemBytes(r.item)
		if p.filter.holds(r.item) {
			p.items = append(p.items, clone(r.item))
		}
		p.last = &r
		isFull = p.bytes >= pageBytesMax || p.scanned == p.limit
		return !isFull
	})
	if !isFull {
		p.last = nil
	}
}

// next returns the key after which the next page begins; nil at the end.
func (p *page) next() item {
	if p.last == nil {
		return nil
	}
	return clone(project(p.last.item, append(p.attributes(), p.table.attributes()...)))
}

// start returns the row that the key in a request for the next page names.
func (s *source) start(key item) (row, error) {
	key, err := normalItem(key)
	if err != nil {
		return row{}, err
	}
	want := append(s.attributes(), s.table.attributes()...)
	slices.Sort(want)
	if !slices.Equal(slices.Sorted(maps.Keys(key)), slices.Compact(want)) || s.check(key) != nil || s.table.check(key) != nil {
		return row{}, invalid("The provided starting key is invalid")
	}
	r := s.locate(key)
	if s.index != "" {
		r = r.of(s.table.locate(key))
	}
	return r, nil
}

// page returns a page that nothing was read of.
func (s *source) page(limit *int32) (*page, error) {
	if limit != nil && *limit < 1 {
		return nil, invalid("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *limit)
	}
	return &page{source: s, limit: int(aws.ToInt32(limit)), items: []map[string]types.AttributeValue{}}, nil
}

// Query is the client's method.
func (db *DB) Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return do(ctx, db, "Query", options, func(now task.Instant) (*dynamodb.QueryOutput, error) {
		if err := awsfake.Only(in, "TableName", "IndexName", "ConsistentRead", "ExclusiveStartKey", "KeyConditionExpression",
			"ExpressionAttributeValues", "Limit", "ReturnConsumedCapacity"); err != nil {
			return nil, err
		}
		src, err := db.source(now, in.TableName, in.IndexName, in.ConsistentRead)
		if err != nil {
			return nil, err
		}
		p, err := src.queryPage(in)
		if err != nil {
			return nil, err
		}
		k := p.within
		if !src.units.pass(now, k.pk) {
			return nil, tooFast()
		}
		from := row{hash: k.hash, pk: k.pk, sk: k.low}
		if in.ExclusiveStartKey != nil {
			if from, err = src.start(in.ExclusiveStartKey); err != nil {
				return nil, err
			}
			if !k.holds(from) {
				return nil, invalid("The provided starting key is outside query boundaries based on provided conditions")
			}
		}
		p.read(from, in.ExclusiveStartKey != nil)
		db.payRead(now, src.units, k.pk, src.bill, src.index, readUnits(p.bytes, src.strong))
		return &dynamodb.QueryOutput{
			Items: p.items, Count: int32(len(p.items)), ScannedCount: int32(p.scanned), LastEvaluatedKey: p.next(), ConsumedCapacity: src.bill.shown(in.ReturnConsumedCapacity),
		}, nil
	})
}

func (s *source) queryPage(in *dynamodb.QueryInput) (*page, error) {
	expressions, err := newParser(in.ExpressionAttributeValues)
	if err != nil {
		return nil, err
	}
	where, err := expressions.condition(in.KeyConditionExpression)
	if err != nil {
		return nil, err
	}
	p, err := s.page(in.Limit)
	if err != nil {
		return nil, err
	}
	if p.within, err = s.keyRange(where); err != nil {
		return nil, err
	}
	return p, expressions.finish()
}

// Scan is the client's method.
func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return do(ctx, db, "Scan", options, func(now task.Instant) (*dynamodb.ScanOutput, error) {
		if err := awsfake.Only(in, "TableName", "IndexName", "ConsistentRead", "ExclusiveStartKey", "FilterExpression", "Limit", "ReturnConsumedCapacity"); err != nil {
			return nil, err
		}
		src, err := db.source(now, in.TableName, in.IndexName, in.ConsistentRead)
		if err != nil {
			return nil, err
		}
		p, err := src.page(in.Limit)
		if err != nil {
			return nil, err
		}
		if p.filter, err = (&parser{}).condition(in.FilterExpression); err != nil {
			return nil, err
		}
		if p.filter.mentions(src.attributes()) {
			return nil, invalid("Filter Expression can only contain non-primary key attributes")
		}
		from := row{}
		if in.ExclusiveStartKey != nil {
			if from, err = src.start(in.ExclusiveStartKey); err != nil {
				return nil, err
			}
		}
		p.read(from, in.ExclusiveStartKey != nil)
		db.payRead(now, src.units, "", src.bill, src.index, readUnits(p.bytes, src.strong))
		return &dynamodb.ScanOutput{
			Items: p.items, Count: int32(len(p.items)), ScannedCount: int32(p.scanned), LastEvaluatedKey: p.next(), ConsumedCapacity: src.bill.shown(in.ReturnConsumedCapacity),
		}, nil
	})
}
