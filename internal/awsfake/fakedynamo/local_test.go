package fakedynamo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sort"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/awslocal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(awslocal.Main(m)) }

// api is the part of DynamoDB that both have.
type api interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchExecuteStatement(context.Context, *dynamodb.BatchExecuteStatementInput, ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error)
}

var (
	_ api = (*dynamodb.Client)(nil)
	_ api = (*fakedynamo.DB)(nil)
)

// costs comes before the cost of a call, which Local does not always report.
const costs = " cost "

// pair sends the same requests to DynamoDB Local and to the fake and compares their answers.
type pair struct {
	*testing.T
	local, fake api
	name        string // of the table
}

func newPair(t *testing.T) *pair {
	t.Helper()
	e := awslocal.Start(t)
	p := &pair{T: t, local: dynamodb.NewFromConfig(e.Config(t)), fake: fakedynamo.New(fakedynamo.Config{WriteUnits: -1, ReadUnits: -1}), name: e.Prefix(t) + "-rows"}
	in := tableInput(p.name)
	for _, a := range []api{p.local, p.fake} {
		if _, err := a.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// tableInput describes a table with a text key of two parts and a sparse index by (w, p).
func tableInput(name string) *dynamodb.CreateTableInput {
	key := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange},
		}
	}
	define := func(name string, typ types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: typ}
	}
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest, KeySchema: key("h", "s"),
		AttributeDefinitions: []types.AttributeDefinition{
			define("h", types.ScalarAttributeTypeS), define("s", types.ScalarAttributeTypeS),
			define("p", types.ScalarAttributeTypeS), define("w", types.ScalarAttributeTypeN),
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("parts"), KeySchema: key("p", "w"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	}
}

// same makes one call on both and compares the answers. It returns that of the fake.
func (p *pair) same(name string, call func(api) (string, error)) string {
	p.Helper()
	local, localErr := call(p.local)
	fake, fakeErr := call(p.fake)
	if code(localErr) != code(fakeErr) {
		p.Errorf("%s:\nlocal fails with %v\nfake fails with  %v", name, localErr, fakeErr)
	} else if answer, _, _ := strings.Cut(fake, costs); local != fake && local != answer {
		p.Errorf("%s:\nlocal %s\nfake  %s", name, local, fake)
	}
	return fake
}

func code(err error) string {
	if err == nil {
		return ""
	}
	failed := (*types.ConditionalCheckFailedException)(nil)
	if errors.As(err, &failed) {
		return failed.ErrorCode() + show(failed.Item)
	}
	apiErr := smithy.APIError(nil)
	if errors.As(err, &apiErr) {
		return strings.Replace(apiErr.ErrorCode(), "DuplicateItemException", "DuplicateItem", 1) // Local leaves half of it out
	}
	return err.Error()
}

// show formats an item, equal ones in the same way.
func show(m map[string]types.AttributeValue) string {
	var parts []string
	for name, v := range m {
		parts = append(parts, name+"="+showValue(v))
	}
	sort.Strings(parts)
	return "{" + strings.Join(parts, " ") + "}"
}

func showValue(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("%.20q", v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("%.20x/%d", v.Value, len(v.Value))
	}
	return fmt.Sprintf("%T%+v", v, v)
}

func showAll(items []map[string]types.AttributeValue, inOrder bool) string {
	var all []string
	for _, m := range items {
		all = append(all, show(m))
	}
	if !inOrder {
		sort.Strings(all)
	}
	return strings.Join(all, "\n")
}

func showCost(c *types.ConsumedCapacity) string {
	if c == nil {
		return ""
	}
	out := fmt.Sprintf(costs+"%v", *c.CapacityUnits)
	if c.Table != nil {
		out += fmt.Sprintf(" table %v", *c.Table.CapacityUnits)
	}
	for name, x := range c.GlobalSecondaryIndexes {
		out += fmt.Sprintf(" %s %v", name, *x.CapacityUnits)
	}
	return out
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue  { return &types.AttributeValueMemberN{Value: s} }
func bin(n int) types.AttributeValue     { return &types.AttributeValueMemberB{Value: make([]byte, n)} }

type item = map[string]types.AttributeValue

func key(h, s string) item { return item{"h": text(h), "s": text(s)} }

func with(m item, more item) item {
	maps.Copy(m, more)
	return m
}

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// statement executes a batch of one.
func (p *pair) statement(text string, params ...types.AttributeValue) {
	p.Helper()
	p.batch(st(text, params...))
}

// batch executes statements together. DynamoDB Local does not report their cost.
func (p *pair) batch(all ...types.BatchStatementRequest) {
	p.Helper()
	name := ""
	for i := range all {
		s := strings.ReplaceAll(*all[i].Statement, "TABLE", p.name)
		all[i].Statement, all[i].ReturnValuesOnConditionCheckFailure = &s, allOld
		name += s + "; "
	}
	p.same(name, func(a api) (string, error) {
		out, err := a.BatchExecuteStatement(p.Context(), &dynamodb.BatchExecuteStatementInput{Statements: all})
		if err != nil {
			return "", err
		}
		shown := ""
		for _, r := range out.Responses {
			shown += "\n" + show(r.Item)
			if r.Error != nil {
				shown += string(r.Error.Code) + show(r.Error.Item)
			}
		}
		return shown, nil
	})
}

func st(text string, params ...types.AttributeValue) types.BatchStatementRequest {
	return types.BatchStatementRequest{Statement: &text, Parameters: params}
}

func TestStatementsAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	insert := `INSERT INTO "TABLE" VALUE {'h':?,'s':?,'q':?,'r':?}`
	p.statement(insert, text("a"), text("1"), num("1"), bin(10))
	p.statement(insert, text("a"), text("1"), num("2"), bin(10)) // is there
	p.statement(insert, text("a"), text("2"), num("1"), bin(3000))
	p.statement(`INSERT INTO "TABLE" VALUE {'h':?,'s':?,'p':?,'w':?,'q':?}`, text("a"), text("3"), text("part"), num("100"), num("1"))
	update := `UPDATE "TABLE" SET q=? SET r=? WHERE h=? AND s=? AND q=?`
	p.statement(update, num("2"), bin(20), text("a"), text("1"), num("1"))
	p.statement(update, num("2"), bin(20), text("a"), text("1"), num("1")) // moved on
	p.statement(update, num("2"), bin(20), text("a"), text("none"), num("1"))
	p.statement(`UPDATE "TABLE" SET q=? WHERE h=? AND s=?`, num("2"), text("a"), text("none"))
	wake := `UPDATE "TABLE" SET q=? SET p=? SET w=? WHERE h=? AND s=?`
	p.statement(wake, num("3"), text("part"), num("101"), text("a"), text("3"))
	p.statement(`UPDATE "TABLE" SET q=? REMOVE p REMOVE w WHERE h=? AND s=?`, num("4"), text("a"), text("3"))
	p.statement(wake, num("5"), text("part"), num("102"), text("a"), text("3"))
	p.statement(`UPDATE "TABLE" SET s=? WHERE h=? AND s=?`, text("4"), text("a"), text("3"))
	p.statement(`UPDATE "TABLE" SET q=? WHERE h=?`, num("1"), text("a"))
	remove := `DELETE FROM "TABLE" WHERE h=? AND s=?`
	p.statement(remove+` AND q=?`, text("a"), text("3"), num("99"))
	p.statement(remove+` AND q=?`, text("a"), text("none"), num("99"))
	p.statement(remove, text("a"), text("none"))
	p.statement(remove+` AND q=?`, text("a"), text("3"), num("5"))
	p.statement(`DELETE FROM "none" WHERE h=? AND s=?`, text("a"), text("none"))
	p.statement(insert, text("a"), text("1"), num("1"))
	p.statement(insert, text("a"), text(""), num("1"), bin(1))
	p.statement(insert, text("a"), num("1"), num("1"), bin(1))
	p.statement(insert, text("a"), text("big"), num("1"), bin(400<<10))
	p.statement(`INSERT INTO "TABLE" VALUE {'h':?,'q':?}`, text("a"), num("1"))
	p.scan()
}

func TestBatchesOfStatementsAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	insert := `INSERT INTO "TABLE" VALUE {'h':?,'s':?,'q':?}`
	update := `UPDATE "TABLE" SET q=? WHERE h=? AND s=? AND q=?`
	remove := `DELETE FROM "TABLE" WHERE h=? AND s=?`
	p.batch(st(insert, text("a"), text("1"), num("1")), st(insert, text("a"), text("2"), num("1")), st(insert, text("b"), text("1"), num("1")))
	p.batch(
		st(insert, text("a"), text("1"), num("1")),
		st(update, num("2"), text("a"), text("2"), num("7")),
		st(update, num("2"), text("b"), text("1"), num("1")),
		st(update, num("2"), text("b"), text("none"), num("1")),
		st(remove, text("c"), text("none")),
		st(remove+" AND q=?", text("d"), text("none"), num("1")),
		st(insert, text("e"), text("1"), bin(400<<10)),
		st(insert, text("e"), num("1"), num("1")),
		st(`INSERT INTO "none" VALUE {'h':?}`, text("a")),
	)
	p.scan()                                                                                                  // Local applies some of what it refuses below
	p.batch(st(insert, text("x"), text("1"), num("1")), st(update, num("2"), text("x"), text("1"), num("1"))) // one key twice
	p.batch(st(insert, text("z"), text("1"), num("1")), st(insert, text("z"), text("2")))
	var many []types.BatchStatementRequest
	for i := range 26 {
		many = append(many, st(insert, text("many"), text(fmt.Sprint(i)), num("1")))
	}
	p.batch(many...)
	p.batch(many[:25]...)
}
