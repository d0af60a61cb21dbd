package terraform_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// callCore and callLambda call a module, with arguments besides.
const (
	callCore = `
provider "aws" {}

module "it" {
  source = "../modules/core"

  %s
}
`
	callLambda = `
provider "aws" {}

variable "prefix" {
  type = string
}

module "it" {
  source = "../modules/lambda"

  core = {
    prefix            = var.prefix
    control_table     = "${var.prefix}-control"
    inbound_queue_arn = "arn:aws:sqs:us-east-1:000000000000:${var.prefix}-inbound"
  }
  %s
}
`
)

// TestBadInputOfLambdas has what the module lambda refuses, before it makes anything, and with which words.
func TestBadInputOfLambdas(t *testing.T) {
	w := newWorkspace(t, "")
	w.refuses(callLambda, []badInput{
		// What SQS takes for a name of a queue.
		{`name = ""`, "Want a name of 1 to 64 characters"},
		{`name = "no.dots"`, "Want a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -."},
		{`name = "no dots"`, "Want a name of 1 to 64 characters"},
		{`name = "größe"`, "Want a name of 1 to 64 characters"},
		{"name = \"two\\nlines\"", "Want a name of 1 to 64 characters"},
		{`name = "` + strings.Repeat("n", 65) + `"`, "Want a name of 1 to 64 characters"},
		{`name = "` + strings.Repeat("n", 64) + `"`, "more than the 80 characters that SQS allows"},
		{"name = \"" + strings.Repeat("n", 64) + "\"\n mode = \"deliver\"\n priorities = [\"ab\"]", "more than the 80 characters that SQS allows"},
		{"name = \"inbound\"\n priorities = [\"dlq\"]", "would be the dead-letter queue of the inbound queue"},
		{`name = null`, "null"},

		{"name = \"a\"\n priorities = [\"high\", \"low\", \"high\"]", "Want priorities that are unique"},
		{"name = \"a\"\n priorities = []", "Want 1 to 8 priorities."},
		{"name = \"a\"\n priorities = [\"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"]", "Want 1 to 8 priorities."},
		{"name = \"a\"\n priorities = [\"very high\"]", "Want priorities of 1 to 64 characters"},
		{"name = \"a\"\n mode = \"deliver\"\n priorities = [\"a\", \"a-dlq\"]", "the name of the other one's dead-letter queue"},

		{"name = \"a\"\n mode = \"push\"", "Want a mode of managed or deliver."},
		{"name = \"a\"\n shards = 0", "Want 1 to 1024 shards, a whole number."},
		{"name = \"a\"\n shards = 1025", "Want 1 to 1024 shards"},
		{"name = \"a\"\n shards = 1.5", "Want 1 to 1024 shards"},
		{"name = \"a\"\n shards = \"many\"", "a number is required"},
		{"name = \"a\"\n retention_seconds = 59", "Want a retention_seconds of 60 (a minute) to 157680000 (five years)."},
		{"name = \"a\"\n retention_seconds = 157680001", "Want a retention_seconds of 60"},
		{"name = \"a\"\n max_attempts = 0", "Want 1 to 1000 max_attempts"},
		{"name = \"a\"\n max_attempts = 1001", "Want 1 to 1000 max_attempts"},
		{"name = \"a\"\n mode = \"deliver\"\n max_attempts = 3", "none for mode deliver"},
		{"name = \"a\"\n timeout_seconds = 0.05", "Want a timeout_seconds of 0.1 to 2592000"},
		{"name = \"a\"\n timeout_seconds = 2592001", "Want a timeout_seconds of 0.1 to 2592000"},
		{"name = \"a\"\n backoff_seconds = { min = 10, max = 1 }", "Want backoff_seconds with 0.001 <= min <= max"},
		{"name = \"a\"\n backoff_seconds = { min = 0, max = 1 }", "Want backoff_seconds with 0.001 <= min <= max"},
		{"name = \"a\"\n consumer_visibility_timeout_seconds = 60", "only for mode deliver"},
		{"name = \"a\"\n mode = \"deliver\"\n consumer_visibility_timeout_seconds = 43201", "of 0 to 43200"},
		{"name = \"a\"\n mode = \"deliver\"\n consumer_message_retention_seconds = 59", "of 60 to 1209600"},
		{"name = \"a\"\n consumer_message_retention_seconds = 3600", "only for mode deliver"},
		{"name = \"a\"\n mode = \"deliver\"\n consumer_receives_max = 0", "of 1 to 1000"},
		{"name = \"a\"\n consumer_principals = [\"arn:aws:iam::111122223333:role/a\"]", "only for mode deliver"},
		{"name = \"a\"\n mode = \"deliver\"\n consumer_principals = [\"billing\"]", "Want consumer_principals that are ARNs"},
		{"name = \"a\"\n kms_key_arn = \"alias/mine\"", "Want a kms_key_arn such as"},
		{"name = \"a\"\n iam_path = \"kinesin\"", "Want an iam_path that begins and ends with a slash"},
		{"name = \"a\"\n age_alarm_seconds = 0", "Want an age_alarm_seconds of 1 to 1209600"},
		{"name = \"a\"\n tags = { \"kinesin:lambda\" = \"b\" }", "Want tags whose keys do not begin with kinesin:"},
	})
}

// TestBadInputOfCore is the same for the module core.
func TestBadInputOfCore(t *testing.T) {
	w := newWorkspace(t, "")
	prefix := `prefix = "` + w.prefix + "\"\n "
	w.refuses(callCore, []badInput{
		{`prefix = ""`, "Want a prefix of 1 to 20 characters"},
		{`prefix = "a.b"`, "Want a prefix of 1 to 20 characters of a-z, A-Z, 0-9, - and _."},
		{`prefix = "` + strings.Repeat("p", 21) + `"`, "Want a prefix of 1 to 20 characters"},
		{prefix + `billing_mode = "FREE"`, "Want a billing_mode of PAY_PER_REQUEST or PROVISIONED."},
		{prefix + `capacity = { tasks = { read = { min = 0, max = 1 } } }`, "Want for each table and index whole numbers of units with 1 <= min <= max."},
		{prefix + `capacity = { control = { write = { min = 5, max = 4 } } }`, "Want for each table and index"},
		{prefix + `capacity = { schedule = { write = { min = 1.5, max = 4 } } }`, "Want for each table and index"},
		{prefix + `capacity = { task = { write = { min = 5, max = 9 } } }`, "there is no task."},
		{prefix + `capacity = { tasks = { writes = { min = 5, max = 9 } } }`, "there is no writes."},
		{prefix + `capacity = { tasks = { write = { min = 5, maximum = 9 } } }`, `attribute "max" is required`},
		{prefix + `capacity = { tasks = { write = null } }`, "Want for each table and index"},
		{prefix + `capacity = { tasks = null }`, "Want for each table and index"},
		{prefix + `tags = { "kinesin:prefix" = "zz" }`, "Want tags whose keys do not begin with kinesin:"},
		{prefix + `capacity_target_percent = 91`, "Want a capacity_target_percent of 20 to 90."},
		{prefix + `kms_key_arn = "arn:aws:kms:us-east-1:000000000000:alias/mine"`, "that of the key, not of an alias"},
		{prefix + `lambda_kms_key_arns = ["alias/mine"]`, "those of keys, not of aliases"},
		{prefix + `other_kms_key_arns = ["alias/mine"]`, "Want other_kms_key_arns such as"},
		{prefix + `kms_key_arn = "arn:aws-cn:kms:cn-north-1:000000000000:key/mine"`, "in the partition aws or aws-us-gov"},
		{prefix + `message_bytes_max = 262143`, "Want a message_bytes_max of 262144"},
		{prefix + `message_bytes_max = 1048577`, "to 1048576 (1 MiB), a whole number"},
		{prefix + `iam_path = "/kinesin"`, "Want an iam_path that begins and ends with a slash"},
		{prefix + `inbound_age_alarm_seconds = 0`, "Want an inbound_age_alarm_seconds of 1 to 1209600"},
		{prefix + `throttle_alarm_requests = -1`, "Want a throttle_alarm_requests of 0 or more."},
		{prefix + `deletion_protection = "perhaps"`, "a bool is required"},
	})
}

// callFrom calls the module lambda for an installation in the region and account of the argument.
const callFrom = `
provider "aws" {}

variable "prefix" {
  type = string
}

module "it" {
  source = "../modules/lambda"

  name = "a"
  core = {
    prefix            = var.prefix
    control_table     = "${var.prefix}-control"
    inbound_queue_arn = "arn:aws:sqs:%s:${var.prefix}-inbound"
  }
}
`

// TestOtherPlace has a provider for another region, or another account, than the installation's.
func TestOtherPlace(t *testing.T) {
	w := newWorkspace(t, "")
	w.refuses(callFrom, []badInput{
		{"eu-west-1:000000000000", "is in the region eu-west-1, and the provider of this module call in us-east-1: configure a provider for eu-west-1"},
		{"us-east-1:111122223333", "is in the account 111122223333, and the provider of this module call in 000000000000"},
	})
}

// TestBadInputOfProduction has the mistakes that a line in the map of the example production may have.
func TestBadInputOfProduction(t *testing.T) {
	w := newWorkspace(t, "examples/production")
	for lambdas, want := range map[string]string{
		`{a={}}`:                        "Want for each lambda an object with its team",
		`{a={team="x",max_atempts=5}}`:  "There is no setting max_atempts: want of each lambda team, and any of ",
		`{a={team="x",shards="many"}}`:  "a number is required",
		`{a={team="x",max_attempts=0}}`: "Want 1 to 1000 max_attempts",
		`{a-b={team="x",priorities=["c"]},a={team="x",priorities=["b-c"]}}`: "Two lambdas would have a queue of one name",
	} {
		if got := w.run("apply", "-auto-approve", "-var", "lambdas="+lambdas); got.Code != 1 || !strings.Contains(said(got), want) {
			t.Errorf("with %s: exit status %d, want 1 and %q: %s", lambdas, got.Code, want, said(got))
		}
	}
	w.nothing()
}

// badInput is a case: arguments of a module, and what the refusal says.
type badInput struct{ arguments, want string }

// refuses applies each case, and looks that nothing came of it.
func (w *workspace) refuses(call string, cases []badInput) {
	w.t.Helper()
	// Initialised once: all cases call the same module from a folder in the same place.
	w.dir = filepath.Join(w.root, "first")
	if err := os.Mkdir(w.dir, 0o750); err != nil {
		w.t.Fatal(err)
	}
	w.write("main.tf", fmt.Sprintf(call, ""))
	w.must("init")
	first := w.dir
	for i, c := range cases {
		w.dir = filepath.Join(w.root, fmt.Sprint("case", i))
		if err := os.CopyFS(w.dir, os.DirFS(first)); err != nil {
			w.t.Fatal(err)
		}
		w.write("main.tf", fmt.Sprintf(call, c.arguments))
		switch got := w.run("apply", "-auto-approve"); {
		case got.Code != 1 || !strings.Contains(said(got), c.want):
			w.t.Errorf("with %s: exit status %d, want 1 and %q:\n%s%s", c.arguments, got.Code, c.want, got.Stdout, got.Stderr)
		case strings.Contains(got.Stdout, "Creating..."):
			w.t.Errorf("with %s: refused, but not before the apply:\n%s", c.arguments, got.Stdout)
		}
	}
	w.nothing()
}

// nothing fails the test when there is anything in the account, or a table or a queue of the test's.
func (w *workspace) nothing() {
	w.t.Helper()
	kinds, err := os.ReadDir(w.account)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kind := range kinds {
		w.t.Errorf("a %s was made", kind.Name())
	}
	tables, err := dynamodb.NewFromConfig(w.aws.Config(w.t)).ListTables(w.t.Context(), &dynamodb.ListTablesInput{ExclusiveStartTableName: &w.prefix})
	if err != nil {
		w.t.Fatal(err)
	}
	if names := tables.TableNames; len(names) > 0 && strings.HasPrefix(names[0], w.prefix) {
		w.t.Errorf("table %s was made", names[0])
	}
	queues, err := sqs.NewFromConfig(w.aws.Config(w.t)).ListQueues(w.t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: &w.prefix})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, url := range queues.QueueUrls {
		w.t.Errorf("queue %s was made", url)
	}
}
