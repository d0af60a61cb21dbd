package dynamo_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

func TestRightsAreTriedWithoutAChange(t *testing.T) {
	t.Parallel()
	local := awslocal.Start(t)
	client, prefix := dynamodb.NewFromConfig(local.Config(t)), local.Prefix(t)
	if err := dynamo.Setup(t.Context(), client, prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	if refused := dynamo.CheckRights(t.Context(), client, prefix); len(refused) > 0 {
		t.Errorf("allowed, and yet: %v", errors.Join(refused...))
	}
	for _, table := range dynamo.Tables(prefix) {
		if out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table.Name}); err != nil || out.Count != 0 {
			t.Errorf("%s has %d rows, %v", table.Name, out.Count, err)
		}
	}
}

func TestRightsThatAreMissingAreNamed(t *testing.T) {
	t.Parallel()
	if refused := dynamo.CheckRights(t.Context(), fakedynamo.New(fakedynamo.Config{}), "P"); len(refused) != 5*len(dynamo.Tables("P")) {
		t.Errorf("without tables: %v", errors.Join(refused...))
	}
}
