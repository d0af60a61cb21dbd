package fakedynamo

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// pageBytesMax ends a page of a query or scan, filtered rows included.
const pageBytesMax = 1 << 20

// source is what a query or scan reads: a table, its lagging replica or an index.
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

// page is one page of a query or scan at work.
type page struct {
	*source

	within  *keyRange // nil: everything
	filter  *expr
	keep    []string
	limit   int // rows to look at; 0: no limit
	items   []map[string]types.AttributeValue
	scanned int
	bytes   int
	last    *row // where the next page goes on; nil after the end
}

// see looks at one row, in order, and reports whether to go on.
func (p *page) see(r row) bool {
	if p.within != nil && !p.within.holds(r) {
		p.last = nil
		return p.scanned == 0 && r.pk == p.within.pk // not there yet
	}
	p.last = &r
	p.scanned++
	p.bytes += itemBytes(r.item)
	if p.filter.holds(r.item) {
		p.items = append(p.items, kept(r.item, p.keep))
	}
	return p.bytes < pageBytesMax && p.scanned != p.limit
}

// read walks from a row, after it if it is where the last page ended.
func (p *page) read(from row, after, backwards bool) {
	ended := true
	visit := func(r row) bool {
		if after && !from.less(r) && !r.less(from) {
			return true
		}
		ended = p.see(r)
		return ended
	}
	if backwards {
		p.rows.DescendLessOrEqual(from, visit)
	} else {
		p.rows.AscendGreaterOrEqual(from, visit)
	}
	if ended { // there was no more to see
		p.last = nil
	}
}

// next is the key to go on from.
func (p *page) next() item {
	if p.last == nil {
		return nil
	}
	return clone(project(p.last.item, append(p.names(), p.table.names()...)))
}

// start is the row that a key to go on from names.
func (s *source) start(key item) (row, error) {
	key, err := normalItem(key)
	if err != nil {
		return row{}, err
	}
	want := append(s.names(), s.table.names()...)
	slices.Sort(want)
	if !slices.Equal(names(key), slices.Compact(want)) || s.check(key) != nil || s.table.check(key) != nil {
		return row{}, invalid("The provided starting key is invalid")
	}
	r := s.locate(key)
	if s.index != "" {
		r = r.of(s.table.locate(key))
	}
	return r, nil
}

// Query is the client's method.
func (db *DB) Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return do(ctx, db, "Query", options, func(now task.Instant) (*dynamodb.QueryOutput, error) {
		if err := awsfake.Only(in, "TableName", "IndexName", "ConsistentRead", "ExclusiveStartKey", "KeyConditionExpression", "FilterExpression",
			"ProjectionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "Limit", "ScanIndexForward", "Select", "ReturnConsumedCapacity"); err != nil {
			return nil, err
		}
		src, err := db.source(now, in.TableName, in.IndexName, in.ConsistentRead)
		if err != nil {
			return nil, err
		}
		p, k, err := src.query(in)
		if err != nil {
			return nil, err
		}
		if !src.units.pass(now, k.pk) {
			return nil, tooFast()
		}
		backwards := in.ScanIndexForward != nil && !*in.ScanIndexForward
		from := k.first(backwards)
		if in.ExclusiveStartKey != nil {
			start, err := src.start(in.ExclusiveStartKey)
			if err != nil {
				return nil, err
			}
			if start.pk != k.pk || !k.holds(start) {
				return nil, invalid("The provided starting key is outside query boundaries based on provided conditions")
			}
			from = start
		}
		p.read(from, in.ExclusiveStartKey != nil, backwards)
		db.payRead(now, src.units, k.pk, src.bill, src.index, readUnits(p.bytes, src.strong))
		return &dynamodb.QueryOutput{
			Items: p.shown(in.Select), Count: int32(len(p.items)), ScannedCount: int32(p.scanned), LastEvaluatedKey: p.next(), ConsumedCapacity: src.bill.shown(in.ReturnConsumedCapacity),
		}, nil
	})
}

// query makes the first page of a query and its range of keys.
func (s *source) query(in *dynamodb.QueryInput) (*page, *keyRange, error) {
	sc, err := newScope(in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	if err != nil {
		return nil, nil, err
	}
	if in.KeyConditionExpression == nil {
		return nil, nil, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	where, err := sc.condition(in.KeyConditionExpression)
	if err != nil {
		return nil, nil, err
	}
	k, rest, err := s.keyRange(where)
	if err == nil && rest != nil {
		err = invalid("Query condition missed key schema element: %s", s.hash)
	}
	if err != nil {
		return nil, nil, err
	}
	p, err := s.page(sc, in.FilterExpression, in.ProjectionExpression, in.Limit)
	if err != nil {
		return nil, nil, err
	}
	p.within = k
	return p, k, nil
}

// page parses what a query and a scan have in common.
func (s *source) page(sc *scope, filter, projection *string, limit *int32) (p *page, err error) {
	p = &page{source: s, limit: int(aws.ToInt32(limit)), items: []map[string]types.AttributeValue{}}
	if limit != nil && *limit < 1 {
		return nil, invalid("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *limit)
	}
	if p.filter, err = sc.condition(filter); err != nil {
		return nil, err
	}
	if key := p.filter.mention(s.names()); key != "" {
		return nil, invalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", key)
	}
	if p.keep, err = sc.projection(projection); err != nil {
		return nil, err
	}
	return p, sc.finish()
}

func (p *page) shown(want types.Select) []map[string]types.AttributeValue {
	if want == types.SelectCount {
		return nil
	}
	return p.items
}

// Scan is the client's method.
func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return do(ctx, db, "Scan", options, func(now task.Instant) (*dynamodb.ScanOutput, error) {
		if err := awsfake.Only(in, "TableName", "IndexName", "ConsistentRead", "ExclusiveStartKey", "FilterExpression",
			"ProjectionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "Limit", "Select", "ReturnConsumedCapacity"); err != nil {
			return nil, err
		}
		src, err := db.source(now, in.TableName, in.IndexName, in.ConsistentRead)
		if err != nil {
			return nil, err
		}
		sc, err := newScope(in.ExpressionAttributeNames, in.ExpressionAttributeValues)
		if err != nil {
			return nil, err
		}
		p, err := src.page(sc, in.FilterExpression, in.ProjectionExpression, in.Limit)
		if err != nil {
			return nil, err
		}
		from := row{}
		if in.ExclusiveStartKey != nil {
			if from, err = src.start(in.ExclusiveStartKey); err != nil {
				return nil, err
			}
		}
		p.read(from, in.ExclusiveStartKey != nil, false)
		db.payRead(now, src.units, "", src.bill, src.index, readUnits(p.bytes, src.strong))
		return &dynamodb.ScanOutput{
			Items: p.shown(in.Select), Count: int32(len(p.items)), ScannedCount: int32(p.scanned), LastEvaluatedKey: p.next(), ConsumedCapacity: src.bill.shown(in.ReturnConsumedCapacity),
		}, nil
	})
}
