package awslocal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// cleanMax bounds how long the end of a test may take to delete what the test made.
const cleanMax = 20 * time.Second

// Prefix is for the names of a test's tables and queues, the same for no other test. Whatever begins
// with it is deleted when the test is over, after everything that the test itself does then.
func (e Endpoints) Prefix(tb testing.TB) string {
	tb.Helper()
	prefix := fmt.Sprintf("t%08x", rand.Uint32())
	tb.Cleanup(func() { e.delete(tb, prefix) })
	return prefix
}

// delete does not fail the test: it may have stopped the emulators on purpose.
func (e Endpoints) delete(tb testing.TB, prefix string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanMax)
	defer cancel()
	transport := awshttp.NewBuildableClient().GetTransport()
	defer transport.CloseIdleConnections()
	cfg := e.config(&http.Client{Transport: transport})
	if e.DynamoDB != "" {
		if err := deleteTables(ctx, dynamodb.NewFromConfig(cfg), prefix); err != nil {
			tb.Logf("tables %s* are left behind: %v", prefix, err)
		}
	}
	if e.SQS != "" {
		if err := deleteQueues(ctx, sqs.NewFromConfig(cfg), prefix); err != nil {
			tb.Logf("queues %s* are left behind: %v", prefix, err)
		}
	}
}

func deleteTables(ctx context.Context, c *dynamodb.Client, prefix string) error {
	pages := dynamodb.NewListTablesPaginator(c, &dynamodb.ListTablesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, name := range page.TableNames {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			if _, err := c.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				return err
			}
		}
	}
	return nil
}

func deleteQueues(ctx context.Context, c *sqs.Client, prefix string) error {
	pages := sqs.NewListQueuesPaginator(c, &sqs.ListQueuesInput{QueueNamePrefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, url := range page.QueueUrls {
			if _, err := c.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
				return err
			}
		}
	}
	return nil
}
