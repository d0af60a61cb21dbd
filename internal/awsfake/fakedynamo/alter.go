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

// UpdateTable is the client's method. It adds indexes, which are filled at once, and sets deletion
// protection.
func (db *DB) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return do(ctx, db, "UpdateTable", options, func(now task.Instant) (*dynamodb.UpdateTableOutput, error) {
		if err := awsfake.Only(in, "TableName", "AttributeDefinitions", "GlobalSecondaryIndexUpdates", "DeletionProtectionEnabled"); err != nil {
			return nil, err
		}
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		if len(in.GlobalSecondaryIndexUpdates) > 1 {
			return nil, &types.LimitExceededException{Message: aws.String("Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")}
		}
		for _, u := range in.GlobalSecondaryIndexUpdates {
			if u.Create == nil {
				return nil, notModelled("changing or deleting an index")
			}
			if err := db.createIndex(now, t, u.Create, in.AttributeDefinitions); err != nil {
				return nil, err
			}
		}
		if in.DeletionProtectionEnabled != nil {
			t.protected = *in.DeletionProtectionEnabled
		}
		return &dynamodb.UpdateTableOutput{TableDescription: t.describe()}, nil
	})
}

func (db *DB) createIndex(now task.Instant, t *table, spec *types.CreateGlobalSecondaryIndexAction, definitions []types.AttributeDefinition) error {
	if slices.ContainsFunc(t.indexes, func(x *index) bool { return x.name == *spec.IndexName }) {
		return invalid("Attempting to create an index which already exists")
	}
	x, err := db.newIndex(t, *spec.IndexName, spec.KeySchema, *spec.Projection, definitions, map[string]bool{})
	if err != nil {
		return err
	}
	t.rows.Ascend(func(r row) bool {
		x.change(now, 0, nil, x.entry(t, r.item))
		return true
	})
	t.indexes = append(t.indexes, x)
	return nil
}

// UpdateContinuousBackups is the client's method. It makes no backups.
func (db *DB) UpdateContinuousBackups(ctx context.Context, in *dynamodb.UpdateContinuousBackupsInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error) {
	return do(ctx, db, "UpdateContinuousBackups", options, func(task.Instant) (*dynamodb.UpdateContinuousBackupsOutput, error) {
		_, err := db.table(in.TableName)
		return &dynamodb.UpdateContinuousBackupsOutput{}, err
	})
}
