package awslocal

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
)

// Credentials and region that the emulators are told and do not check.
const (
	region    = "us-east-1"
	accessKey = "local"
	secretKey = "local"
)

// Endpoints are the URLs of a DynamoDB and an SQS. Tests may make their own, of emulators of their own
// and proxies before them.
type Endpoints struct {
	DynamoDB string
	SQS      string
}

// Exports is what a user has to set for a program to use the endpoints, each as NAME=VALUE.
func (e Endpoints) Exports() []string {
	return []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + e.DynamoDB,
		"AWS_ENDPOINT_URL_SQS=" + e.SQS,
		"AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=" + accessKey,
		"AWS_SECRET_ACCESS_KEY=" + secretKey,
	}
}

// Env is Exports and what keeps a program in a test from reading anything else of its user's.
func (e Endpoints) Env() []string {
	return append(e.Exports(),
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
	)
}

// Config is for clients of either service, which find their endpoint in it. It looks at no environment
// and no file; connections left open are closed when the test is over.
func (e Endpoints) Config(tb testing.TB) aws.Config {
	tb.Helper()
	transport := awshttp.NewBuildableClient().GetTransport()
	tb.Cleanup(transport.CloseIdleConnections)
	return e.config(&http.Client{Transport: transport})
}

func (e Endpoints) config(client aws.HTTPClient) aws.Config {
	return aws.Config{
		Region:        region,
		Credentials:   credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		HTTPClient:    client,
		ConfigSources: []any{baseEndpoints(e)},
		APIOptions:    []func(*middleware.Stack) error{skipChecksum},
	}
}

// skipChecksum does to every client what DisableValidateResponseChecksum does to one of DynamoDB. Clients
// of other services have no such step.
func skipChecksum(stack *middleware.Stack) error {
	const id = "DynamoDB:ResponseChecksumValidation"
	if _, found := stack.Deserialize.Get(id); !found {
		return nil
	}
	_, err := stack.Deserialize.Remove(id)
	return err
}

// baseEndpoints is asked by the SDK for the endpoint of a service, as its own view of the environment is.
type baseEndpoints Endpoints

// GetServiceBaseEndpoint answers for DynamoDB and SQS.
func (b baseEndpoints) GetServiceBaseEndpoint(_ context.Context, service string) (string, bool, error) {
	switch service {
	case dynamodb.ServiceID:
		return b.DynamoDB, b.DynamoDB != "", nil
	case sqs.ServiceID:
		return b.SQS, b.SQS != "", nil
	}
	return "", false, nil
}
