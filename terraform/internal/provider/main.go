// Command provider is a stand-in for the AWS provider, for tests of the modules in terraform/ alone: it
// plans and applies where no AWS account and no provider registry can be reached.
//
// It serves the aws_* resource types and data sources that the modules and examples use, and no others, with
// attribute names, nesting and required and optional as the real provider has them; test/terraform compares
// with the real one's published schema. It owns no schema of Kinesin: what is to be created the modules say.
//
//   - Queues, tables and rows are really made, by the AWS SDK at the endpoints of its environment
//     (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS: DynamoDB Local and ElasticMQ).
//   - Everything, these included, is besides written to a folder, the account: one JSON file a resource,
//     TYPE/NAME.json, with all attributes. Resources that the emulators do not have (IAM, alarms,
//     autoscaling, encryption, backups) are there alone, for tests to read. KINESIN_TEST_ACCOUNT names the
//     folder, and without it nothing is served.
//
// It never calls AWS: without both endpoints it refuses to start. It imports tables, queues and what is in
// the account alone, and has no timeouts and no retries.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

// address is that of the provider it stands in for.
const address = "registry.terraform.io/hashicorp/aws"

func main() {
	serve := func() provider.Provider { return &standIn{} }
	if err := providerserver.Serve(context.Background(), serve, providerserver.ServeOpts{Address: address}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
