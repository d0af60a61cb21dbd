package fakedynamo

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

var tableNameForm = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)

// CreateTable is the client's method. The table is active at once.
func (db *DB) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, options ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return do(ctx, db, "CreateTable", options, func(now task.Instant) (*dynamodb.CreateTableOutput, error) {
		if err := awsfake.Only(in, "TableName", "AttributeDefinitions", "KeySchema", "BillingMode", "GlobalSecondaryIndexes",
			"Tags", "SSESpecification", "DeletionProtectionEnabled", "TableClass"); err != nil {
			return nil, err
		}
		name := aws.ToString(in.TableName)
		switch {
		case !tableNameForm.MatchString(name):
			return nil, invalid("1 validation error detected: Value '%s' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", name)
		case db.tables[name] != nil:
			return nil, &types.ResourceInUseException{Message: aws.String("Table already exists: " + name)}
		case in.BillingMode != types.BillingModePayPerRequest:
			return nil, notModelled("billing mode %q", in.BillingMode)
		}
		t, err := db.newTable(now, in)
		if err != nil {
			return nil, err
		}
		db.tables[name] = t
		return &dynamodb.CreateTableOutput{TableDescription: t.describe()}, nil
	})
}

func (db *DB) newTable(now task.Instant, in *dynamodb.CreateTableInput) (*table, error) {
	used := map[string]bool{}
	keys, err := newSchema(in.KeySchema, in.AttributeDefinitions, used)
	if err != nil {
		return nil, err
	}
	t := &table{
		schema: keys, name: *in.TableName, created: now.Time(),
		protected: aws.ToBool(in.DeletionProtectionEnabled),
		rows:      newTree(), lagging: newReplica(db.cfg.BaseLag),
		expiries: newExpiries(), ttlLag: db.cfg.TTLLag, faults: db.Faults,
		writes: newBuckets(db.cfg.WriteUnits), reads: newBuckets(db.cfg.ReadUnits),
	}
	for _, spec := range in.GlobalSecondaryIndexes {
		x, err := db.newIndex(t, *spec.IndexName, spec.KeySchema, *spec.Projection, in.AttributeDefinitions, used)
		if err != nil {
			return nil, err
		}
		t.indexes = append(t.indexes, x)
	}
	if len(used) != len(in.AttributeDefinitions) {
		return nil, invalid("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	return t, nil
}

func (db *DB) newIndex(t *table, name string, keys []types.KeySchemaElement, p types.Projection, definitions []types.AttributeDefinition, used map[string]bool) (*index, error) {
	x := &index{name: name, replica: newReplica(db.cfg.IndexLag), projection: p, writes: newBuckets(db.cfg.WriteUnits), reads: newBuckets(db.cfg.ReadUnits)}
	var err error
	if x.schema, err = newSchema(keys, definitions, used); err != nil {
		return nil, err
	}
	if p.ProjectionType != types.ProjectionTypeAll {
		x.keep = slices.Concat(t.attributes(), x.attributes(), p.NonKeyAttributes)
	}
	return x, nil
}

func newSchema(keys []types.KeySchemaElement, definitions []types.AttributeDefinition, used map[string]bool) (schema, error) {
	s := schema{types: map[string]types.ScalarAttributeType{}}
	for _, key := range keys {
		name := *key.AttributeName
		at := slices.IndexFunc(definitions, func(d types.AttributeDefinition) bool { return *d.AttributeName == name })
		if at < 0 {
			return s, invalid("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s]", name)
		}
		used[name] = true
		s.types[name] = definitions[at].AttributeType
		if key.KeyType == types.KeyTypeHash {
			s.hash = name
		} else {
			s.sort = name
		}
	}
	if s.hash == "" || keys[0].KeyType != types.KeyTypeHash {
		return s, invalid("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	}
	return s, nil
}

func (s *schema) describe() []types.KeySchemaElement {
	out := []types.KeySchemaElement{{AttributeName: aws.String(s.hash), KeyType: types.KeyTypeHash}}
	if s.sort != "" {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(s.sort), KeyType: types.KeyTypeRange})
	}
	return out
}

func (t *table) describe() *types.TableDescription {
	defined := map[string]types.ScalarAttributeType{}
	d := &types.TableDescription{
		TableName: aws.String(t.name), TableStatus: types.TableStatusActive, KeySchema: t.schema.describe(), CreationDateTime: aws.Time(t.created),
		TableArn:           aws.String("arn:aws:dynamodb:us-east-1:000000000000:table/" + t.name),
		BillingModeSummary: &types.BillingModeSummary{BillingMode: types.BillingModePayPerRequest},
		ItemCount:          aws.Int64(int64(t.rows.Len())), DeletionProtectionEnabled: aws.Bool(t.protected),
	}
	add := func(s *schema) {
		for _, name := range s.attributes() {
			if defined[name] == "" {
				defined[name] = s.types[name]
				d.AttributeDefinitions = append(d.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: s.types[name]})
			}
		}
	}
	add(&t.schema)
	for _, x := range t.indexes {
		add(&x.schema)
		projection := x.projection
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, types.GlobalSecondaryIndexDescription{
			IndexName: aws.String(x.name), IndexStatus: types.IndexStatusActive, KeySchema: x.describe(), Projection: &projection,
		})
	}
	return d
}

// DescribeTable is the client's method.
func (db *DB) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return do(ctx, db, "DescribeTable", options, func(task.Instant) (*dynamodb.DescribeTableOutput, error) {
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		return &dynamodb.DescribeTableOutput{Table: t.describe()}, nil
	})
}

// UpdateTable is the client's method. Nothing changes a table that is there: the stores that the tests set up
// are complete from the start.
func (db *DB) UpdateTable(ctx context.Context, _ *dynamodb.UpdateTableInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return do(ctx, db, "UpdateTable", options, func(task.Instant) (*dynamodb.UpdateTableOutput, error) {
		return nil, notModelled("changes of a table")
	})
}

// UpdateTimeToLive is the client's method. It turns TTL on, at once; AWS takes up to an hour.
func (db *DB) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return do(ctx, db, "UpdateTimeToLive", options, func(task.Instant) (*dynamodb.UpdateTimeToLiveOutput, error) {
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		spec := in.TimeToLiveSpecification
		switch {
		case !aws.ToBool(spec.Enabled):
			return nil, notModelled("turning TTL off")
		case t.ttl != "":
			return nil, invalid("TimeToLive is already enabled")
		}
		t.ttl = aws.ToString(spec.AttributeName)
		t.rows.Ascend(func(r row) bool {
			t.noteExpiry(r.item)
			return true
		})
		return &dynamodb.UpdateTimeToLiveOutput{TimeToLiveSpecification: spec}, nil
	})
}

// DescribeTimeToLive is the client's method.
func (db *DB) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return do(ctx, db, "DescribeTimeToLive", options, func(task.Instant) (*dynamodb.DescribeTimeToLiveOutput, error) {
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		d := &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
		if t.ttl != "" {
			d = &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusEnabled, AttributeName: aws.String(t.ttl)}
		}
		return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: d}, nil
	})
}
