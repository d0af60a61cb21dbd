package fakedynamo_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// These tests check what no emulator does.

var rows = aws.String("rows")

// service is the fake in virtual time with one table.
type service struct {
	*testing.T
	*fakedynamo.DB

	v *clock.Virtual
}

func newService(t *testing.T, cfg fakedynamo.Config) *service {
	t.Helper()
	v := clock.NewVirtual(task.FromMillis(1_800_000_000_000), 1)
	cfg.Clock = v.Process(0)
	s := &service{T: t, DB: fakedynamo.New(cfg), v: v}
	if _, err := s.CreateTable(t.Context(), tableInput(*rows)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) put(m item) error {
	_, err := s.PutItem(s.Context(), &dynamodb.PutItemInput{TableName: rows, Item: m})
	return err
}

func (s *service) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *service) get(k item, strong bool) item {
	s.Helper()
	out, err := s.GetItem(s.Context(), &dynamodb.GetItemInput{TableName: rows, Key: k, ConsistentRead: &strong})
	s.must(err)
	return out.Item
}

func TestPagesAreCountedBeforeFilters(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{WriteUnits: -1, ReadUnits: -1})
	for n := range 25 {
		s.must(s.put(with(key("a", fmt.Sprintf("%02d", n)), item{"r": bin(100 << 10)})))
	}
	in := &dynamodb.ScanInput{TableName: rows, FilterExpression: aws.String("attribute_exists(zzz)")}
	pages := 0
	for {
		out, err := s.Scan(t.Context(), in)
		s.must(err)
		pages++
		if out.Count != 0 {
			t.Errorf("%d rows through a filter that lets none pass", out.Count)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	if pages != 3 {
		t.Errorf("2.5 MB in %d pages", pages)
	}
}

func TestBatchGetStopsAt16MB(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{WriteUnits: -1, ReadUnits: -1})
	var keys []map[string]types.AttributeValue
	for n := range 50 {
		s.must(s.put(with(key("a", fmt.Sprint(n)), item{"r": bin(399 << 10)})))
		keys = append(keys, key("a", fmt.Sprint(n)))
	}
	want := map[string]types.KeysAndAttributes{*rows: {Keys: keys}}
	found := 0
	for asked := 0; len(want) > 0; asked++ {
		out, err := s.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: want})
		s.must(err)
		found += len(out.Responses[*rows])
		if want = out.UnprocessedKeys; asked == 0 && len(want[*rows].Keys) != 50-41 {
			t.Errorf("%d of 50 were not processed", len(want[*rows].Keys))
		}
	}
	if found != 50 {
		t.Errorf("found %d of 50", found)
	}
}

func TestEachKeyHasItsRate(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{WriteUnits: 10, ReadUnits: 10})
	fast := (*types.ProvisionedThroughputExceededException)(nil)
	through := func(hash string) (n int) {
		for ; n < 100; n++ {
			if err := s.put(key(hash, "1")); errors.As(err, &fast) {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if a, b := through("a"), through("b"); a != 10 || b != 10 {
		t.Errorf("%d and %d writes at 10 a second", a, b)
	}
	s.v.Advance(500 * time.Millisecond)
	if a := through("a"); a != 5 {
		t.Errorf("%d writes in half a second", a)
	}
	s.v.Advance(time.Minute)
	for n := range 10 { // all in one partition of the index
		s.must(s.put(with(key(fmt.Sprint(n), "1"), item{"p": text("part"), "w": num("1")})))
	}
	for _, hash := range []string{"0", "other"} {
		if err := s.put(with(key(hash, "1"), item{"p": text("part"), "w": num("2")})); !errors.As(err, &fast) {
			t.Errorf("write to a hot partition of an index: %v, want throttled", err)
		}
	}
	s.must(s.put(with(key("0", "1"), item{"p": text("part"), "w": num("1"), "q": num("1")}))) // the index does not change
	out, err := s.BatchExecuteStatement(t.Context(), &dynamodb.BatchExecuteStatementInput{Statements: []types.BatchStatementRequest{
		st(`UPDATE "rows" SET w=? WHERE h=? AND s=?`, num("3"), text("0"), text("1")), st(`INSERT INTO "rows" VALUE {'h':?,'s':?}`, text("c"), text("1")),
	}})
	s.must(err)
	if e := out.Responses[0].Error; e == nil || e.Code != types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded || out.Responses[1].Error != nil {
		t.Errorf("a batch of a hot and a cold key: %+v", out.Responses)
	}
}

func TestReplicasLag(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{BaseLag: time.Second, IndexLag: time.Second})
	k := key("a", "1")
	for n := range 3 {
		s.must(s.put(with(key("a", "1"), item{"q": num(fmt.Sprint(n)), "p": text("part"), "w": num(fmt.Sprint(n))})))
		s.v.Advance(10 * time.Millisecond)
	}
	index := func() (wakes string) {
		out, err := s.Query(t.Context(), &dynamodb.QueryInput{
			TableName: rows, IndexName: aws.String("parts"), KeyConditionExpression: aws.String("p=:p"), ExpressionAttributeValues: item{":p": text("part")},
		})
		s.must(err)
		return showAll(out.Items, true)
	}
	if got := show(s.get(k, true)); got != `{h="a" p="part" q=2 s="1" w=2}` {
		t.Errorf("strong read: %s", got)
	}
	if weak, entry := s.get(k, false), index(); show(weak) == show(s.get(k, true)) && entry != "" {
		t.Errorf("30 ms after writes that take up to a second both %s and %s are there", show(weak), entry)
	}
	s.v.Advance(time.Second)
	if got := show(s.get(k, false)) + index(); got != `{h="a" p="part" q=2 s="1" w=2}{h="a" p="part" s="1" w=2}` {
		t.Errorf("after the lag: %s", got)
	}
}

func TestTTLDeletesLate(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{TTLLag: time.Hour})
	_, err := s.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: rows, TimeToLiveSpecification: &types.TimeToLiveSpecification{
		Enabled: aws.Bool(true), AttributeName: aws.String("x"),
	}})
	s.must(err)
	at := func(d time.Duration) types.AttributeValue { return num(fmt.Sprint(s.v.Now().Add(d).Time().Unix())) }
	for n := range 20 {
		s.must(s.put(with(key("a", fmt.Sprint(n)), item{"x": at(time.Minute)})))
	}
	s.must(s.put(with(key("a", "kept"), item{"x": at(time.Minute)})))
	s.must(s.put(with(key("a", "kept"), item{"x": at(100 * time.Hour)})))
	s.must(s.put(with(key("a", "text"), item{"x": text("1")})))
	count := func() int32 {
		out, err := s.Scan(t.Context(), &dynamodb.ScanInput{TableName: rows, ConsistentRead: aws.Bool(true)})
		s.must(err)
		return out.Count
	}
	s.v.Advance(time.Minute)
	if n := count(); n < 20 {
		t.Errorf("%d of 22 rows when they expire: TTL is slower than that", n)
	}
	s.v.Advance(30 * time.Minute)
	if n := count(); n < 4 || n > 20 {
		t.Errorf("%d rows half-way through the lag", n)
	}
	s.v.Advance(30 * time.Minute)
	if n := count(); n != 2 {
		t.Errorf("%d rows after the lag, want 2", n)
	}
}

// TestOwnWriteInTheWay has the client's retryer meet what its first attempt did.
func TestOwnWriteInTheWay(t *testing.T) {
	t.Parallel()
	for _, fault := range []awsfake.Fault{awsfake.LostAnswer, awsfake.BrokenAfter, awsfake.LostRequest, awsfake.Refused} {
		s := newService(t, fakedynamo.Config{Attempts: 3})
		s.Faults.Next("PutItem", fault, 1)
		_, err := s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: rows, Item: key("a", "1"), ConditionExpression: aws.String("attribute_not_exists(h)")})
		failed := (*types.ConditionalCheckFailedException)(nil)
		if done := fault == awsfake.LostAnswer || fault == awsfake.BrokenAfter; errors.As(err, &failed) != done {
			t.Errorf("%s, and tried again: %v", fault, err)
		}
		if len(s.get(key("a", "1"), true)) == 0 {
			t.Errorf("%s, and tried again: nothing was written", fault)
		}
	}
}

func TestConsumedCapacityOfBatches(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{})
	s.must(s.put(with(key("a", "1"), item{"p": text("part"), "w": num("1")})))
	out, err := s.BatchExecuteStatement(t.Context(), &dynamodb.BatchExecuteStatementInput{
		ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
		Statements: []types.BatchStatementRequest{
			st(`UPDATE "rows" SET w=? WHERE h=? AND s=?`, num("2"), text("a"), text("1")), // 1, and 2 for the index
			st(`UPDATE "rows" SET w=? WHERE h=? AND s=?`, num("2"), text("b"), text("1")), // 1 for nothing
			st(`INSERT INTO "rows" VALUE {'h':?,'s':?,'r':?}`, text("c"), text("1"), bin(2000)),
		},
	})
	s.must(err)
	if got := showCost(&out.ConsumedCapacity[0]); got != " cost 6 table 4 parts 2" {
		t.Errorf("got%s", got)
	}
	if got := s.Spent().Write; got != 8 {
		t.Errorf("spent %v, want 8", got)
	}
}

func TestWhatIsNotModelledIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, fakedynamo.Config{})
	statement := func(text string, params ...types.AttributeValue) error {
		_, err := s.BatchExecuteStatement(t.Context(), &dynamodb.BatchExecuteStatementInput{Statements: []types.BatchStatementRequest{st(text, params...)}})
		return err
	}
	_, nested := s.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: rows, Key: key("a", "1"), UpdateExpression: aws.String("SET a.b=:x"), ExpressionAttributeValues: item{":x": num("1")}})
	_, legacy := s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: rows, Item: key("a", "1"), Expected: map[string]types.ExpectedAttributeValue{"h": {}}})
	_, parallel := s.Scan(t.Context(), &dynamodb.ScanInput{TableName: rows, Segment: aws.Int32(1), TotalSegments: aws.Int32(2)})
	_, prefix := s.Query(t.Context(), &dynamodb.QueryInput{TableName: rows, KeyConditionExpression: aws.String("h=:h AND begins_with(s,:h)"), ExpressionAttributeValues: item{":h": text("a")}})
	for name, err := range map[string]error{
		"path into a map": nested, "Expected": legacy, "Segment": parallel, "prefix of a key": prefix,
		"negative number": s.put(with(key("a", "1"), item{"q": num("-1")})), "list": s.put(with(key("a", "1"), item{"q": &types.AttributeValueMemberL{}})),
		"select": statement(`SELECT * FROM "rows" WHERE h=? AND s=?`, text("a"), text("1")), "constant": statement(`DELETE FROM "rows" WHERE h='a' AND s=?`, text("1")),
		"returning": statement(`DELETE FROM "rows" WHERE h=? AND s=? RETURNING ALL OLD *`, text("a"), text("1")),
	} {
		if !errors.Is(err, awsfake.ErrNotModelled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
