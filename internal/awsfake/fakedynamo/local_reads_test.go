package fakedynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const costsToo = types.ReturnConsumedCapacityIndexes

func (p *pair) put(m item, change func(*dynamodb.PutItemInput)) {
	p.Helper()
	in := &dynamodb.PutItemInput{TableName: &p.name, Item: m, ReturnConsumedCapacity: costsToo, ReturnValuesOnConditionCheckFailure: allOld}
	if change != nil {
		change(in)
	}
	p.same("put "+show(m), func(a api) (string, error) {
		out, err := a.PutItem(p.Context(), in)
		if err != nil {
			return "", err
		}
		return showCost(out.ConsumedCapacity), nil
	})
}

func (p *pair) update(key item, expression, condition string, values item) {
	p.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName: &p.name, Key: key, UpdateExpression: &expression, ReturnConsumedCapacity: costsToo,
		ReturnValuesOnConditionCheckFailure: allOld, ExpressionAttributeValues: values,
	}
	if condition != "" {
		in.ConditionExpression = &condition
	}
	p.same("update "+expression+" if "+condition, func(a api) (string, error) {
		out, err := a.UpdateItem(p.Context(), in)
		if err != nil {
			return "", err
		}
		return showCost(out.ConsumedCapacity), nil
	})
}

func (p *pair) remove(key item, condition string, values item) {
	p.Helper()
	in := &dynamodb.DeleteItemInput{
		TableName: &p.name, Key: key, ReturnConsumedCapacity: costsToo,
		ReturnValuesOnConditionCheckFailure: allOld, ExpressionAttributeValues: values,
	}
	if condition != "" {
		in.ConditionExpression = &condition
	}
	p.same("delete if "+condition, func(a api) (string, error) {
		out, err := a.DeleteItem(p.Context(), in)
		if err != nil {
			return "", err
		}
		return showCost(out.ConsumedCapacity), nil
	})
}

func TestSingleWritesAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	indexed := func(wake string, bytes int) item {
		return with(key("a", "1"), item{"p": text("part"), "w": num(wake), "r": bin(bytes)})
	}
	p.put(indexed("1", 10), nil)
	p.put(indexed("1", 20), nil)   // index left alone
	p.put(indexed("2", 20), nil)   // index entry moves
	p.put(indexed("2", 2000), nil) // the table's row grows to 2 units
	p.put(key("a", "1"), func(in *dynamodb.PutItemInput) { in.ConditionExpression = aws.String("attribute_not_exists(h)") })
	p.put(key("a", "1"), nil) // no index entry any more
	p.put(with(key("a", "1"), item{"q": num("1000")}), nil)
	raise := func(in *dynamodb.PutItemInput) {
		in.ConditionExpression, in.ExpressionAttributeValues = aws.String("attribute_not_exists(h) OR q<:q"), item{":q": in.Item["q"]}
	}
	for _, seq := range []string{"999", "1000", "1001"} {
		p.put(with(key("a", "1"), item{"q": num(seq)}), raise)
	}
	p.put(with(key("a", "new"), item{"q": num("1")}), raise)
	p.put(key("", "1"), nil)
	p.put(item{"h": text("a")}, nil)
	p.put(item{"h": text("a"), "s": num("1")}, nil)
	p.put(with(key("a", "2"), item{"w": text("no number")}), nil)
	p.put(with(key("a", "2"), item{"p": text("")}), nil)
	p.put(with(key("a", "2"), item{"r": bin(400 << 10)}), nil)
	p.put(with(key(strings.Repeat("x", 2049), "2"), nil), nil)
	p.put(with(key("a", strings.Repeat("x", 1025)), nil), nil)
	p.put(key("a", "2"), func(in *dynamodb.PutItemInput) { in.ConditionExpression = aws.String("q=:q") })
	p.put(key("a", "2"), func(in *dynamodb.PutItemInput) { in.ExpressionAttributeValues = item{":q": num("1")} })

	k := key("b", "1")
	p.update(k, "SET x=:x", "x<:x", item{":x": num("5")}) // nothing is there
	p.put(with(key("b", "1"), item{"x": num("5")}), nil)
	for _, later := range []string{"4", "5", "10"} {
		p.update(k, "SET x=:x", "x<:x", item{":x": num(later)})
	}
	p.update(k, "SET s=:x", "", item{":x": text("2")})
	p.update(k, "SET p=:p, w=:w", "", item{":p": text("part"), ":w": num("1")})
	p.update(k, "SET w=:w", "", item{":w": num("2")})
	p.update(k, "SET w=:w", "", item{":w": num("2")})
	p.remove(k, "q=:q", item{":q": num("9")})
	p.remove(k, "", nil)
	p.remove(k, "", nil)
	p.remove(k, "q=:q", item{":q": num("9")})
	p.remove(key("a", "1"), "q=:q", item{":q": num("1001")})
	p.remove(item{"h": text("a")}, "", nil)
	p.scan()
}

// scan reads the whole table, to compare what writes did.
func (p *pair) scan() {
	p.Helper()
	p.same("scan", func(a api) (string, error) {
		out, err := a.Scan(p.Context(), &dynamodb.ScanInput{TableName: &p.name, ConsistentRead: aws.Bool(true)})
		if err != nil {
			return "", err
		}
		return showAll(out.Items, false), nil
	})
}

// query reads page by page until the end.
func (p *pair) query(in dynamodb.QueryInput) {
	p.Helper()
	in.TableName, in.ReturnConsumedCapacity = &p.name, costsToo
	p.same(fmt.Sprintf("query %s limit %d", aws.ToString(in.KeyConditionExpression), aws.ToInt32(in.Limit)), func(a api) (string, error) {
		shown := ""
		in := in
		for {
			out, err := a.Query(p.Context(), &in)
			if err != nil {
				return "", err
			}
			if out.ScannedCount > 0 { // Local sometimes knows that no more follows, and charges nothing for nothing
				shown += fmt.Sprintf("\n%d of %d:\n%s", out.Count, out.ScannedCount, showAll(out.Items, true)) + strings.ReplaceAll(showCost(out.ConsumedCapacity), costs, " ")
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
				return shown, nil
			}
		}
	})
}

func TestQueriesAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for n := range 7 {
		p.put(with(key("a", fmt.Sprint("k", n)), item{"q": num(fmt.Sprint(n)), "p": text("part"), "w": num(fmt.Sprint(100 - n*n)), "r": bin(3000)}), nil)
	}
	p.put(with(key("a", "j"), item{"p": text("other"), "w": num("5")}), nil)
	p.put(key("b", "k1"), nil)
	strong := aws.Bool(true)
	for _, limit := range []*int32{nil, aws.Int32(2)} {
		for _, in := range []dynamodb.QueryInput{
			{KeyConditionExpression: aws.String("h=:h"), ExpressionAttributeValues: item{":h": text("a")}},
			{KeyConditionExpression: aws.String("h=:h"), ExpressionAttributeValues: item{":h": text("none")}},
			{KeyConditionExpression: aws.String("h=:h AND s BETWEEN :j AND :k"), ExpressionAttributeValues: item{":h": text("a"), ":j": text("j"), ":k": text("k3")}},
			{KeyConditionExpression: aws.String("h=:h AND s BETWEEN :j AND :k"), ExpressionAttributeValues: item{":h": text("a"), ":j": text("k3!"), ":k": text("l")}},
		} {
			in.Limit, in.ConsistentRead = limit, strong
			p.query(in)
		}
		p.query(dynamodb.QueryInput{IndexName: aws.String("parts"), Limit: limit, KeyConditionExpression: aws.String("p=:p"), ExpressionAttributeValues: item{":p": text("part")}})
	}
	p.query(dynamodb.QueryInput{IndexName: aws.String("parts"), ConsistentRead: strong, KeyConditionExpression: aws.String("p=:p"), ExpressionAttributeValues: item{":p": text("part")}})
	p.query(dynamodb.QueryInput{KeyConditionExpression: aws.String("h=:h"), ExpressionAttributeValues: item{":h": num("1")}})
	p.query(dynamodb.QueryInput{IndexName: aws.String("none"), KeyConditionExpression: aws.String("h=:h"), ExpressionAttributeValues: item{":h": text("a")}})
	p.query(dynamodb.QueryInput{KeyConditionExpression: aws.String("h=:h"), Limit: aws.Int32(0), ExpressionAttributeValues: item{":h": text("a")}})
}

func TestLargeReadsAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for n := range 25 {
		p.put(with(key("big", fmt.Sprintf("%02d", n)), item{"r": bin(100 << 10)}), nil)
	}
	p.query(dynamodb.QueryInput{KeyConditionExpression: aws.String("h=:h"), ExpressionAttributeValues: item{":h": text("big")}})
	// With a filter, Local counts a page after it, and AWS before: see TestPagesAreCountedBeforeFilters.
	p.same("scan", func(a api) (string, error) {
		count, pages := 0, 0
		in := &dynamodb.ScanInput{TableName: &p.name, ConsistentRead: aws.Bool(true)}
		for {
			out, err := a.Scan(t.Context(), in)
			if err != nil {
				return "", err
			}
			count, pages = count+int(out.Count), pages+1
			if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
				return fmt.Sprint(count, " in ", pages), nil
			}
		}
	})
	get := func(name string, n int, of func(n int) item) {
		t.Helper()
		var keys []map[string]types.AttributeValue
		for i := range n {
			keys = append(keys, of(i))
		}
		p.same(name, func(a api) (string, error) {
			out, err := a.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{ReturnConsumedCapacity: costsToo, RequestItems: map[string]types.KeysAndAttributes{p.name: {Keys: keys, ConsistentRead: aws.Bool(true)}}})
			if err != nil {
				return "", err
			}
			cost := ""
			for _, c := range out.ConsumedCapacity {
				cost += showCost(&c)
			}
			return showAll(out.Responses[p.name], false) + fmt.Sprint(len(out.UnprocessedKeys)) + cost, nil
		})
	}
	get("25", 25, func(n int) item { return key("big", fmt.Sprintf("%02d", n)) })
	get("101", 101, func(n int) item { return key("big", fmt.Sprint(n)) })
	get("twice the same", 2, func(int) item { return key("big", "01") })
	get("half a key", 1, func(int) item { return item{"h": text("big")} })
}
