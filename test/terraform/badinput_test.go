package terraform_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// callWithCore calls the module lambda for what is said to be an installation.
const callWithCore = `
provider "aws" {}

variable "prefix" {
  type = string
}

module "it" {
  source = "../modules/lambda"

  name = "a"
  core = %s
}
`

// TestBadInputOfLambdas has what the module lambda refuses, before it makes anything, and with which words.
func TestBadInputOfLambdas(t *testing.T) {
	w := newWorkspace(t, "")
	w.refuses(callLambda, append([]badInput{
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
		{"name = \"a\"\n key_retention_seconds = 59", "Want a key_retention_seconds of 60 (a minute) to 157680000 (five years)."},
		{"name = \"a\"\n poison_bound = 1", "Want a poison_bound of 2 to 1000"},
		{"name = \"a\"\n mode = \"deliver\"\n poison_bound = 3", "none for mode deliver"},
		{"name = \"a\"\n start_within_seconds = 0", "Want a start_within_seconds of 0.001 to 31536000"},
		{"name = \"a\"\n mode = \"deliver\"\n start_within_seconds = 60", "none for mode deliver"},
		{"name = \"a\"\n limit_key_concurrency = 0", "Want a limit_key_concurrency of 1 to 100000"},
		{"name = \"a\"\n limit_key_concurrency = 1.5", "a whole number"},
		{"name = \"a\"\n limit_key_rate = 0", "Want a limit_key_rate of 0.001 to 1000000"},
		{"name = \"a\"\n mode = \"deliver\"\n priorities = [\"high\"]\n limit_key_rate = 5", "none for mode deliver"},
		{"name = \"a\"\n crons = { \"a b\" = { schedule = \"@daily\" } }", "Want up to 100 crons, with names of 1 to 64"},
		{"name = \"a\"\n crons = { x = { schedule = \"@dayly\" } }", "Want crons whose schedule has five fields"},
		{"name = \"a\"\n crons = { x = { schedule = \"* * * *\" } }", "Want crons whose schedule has five fields"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", zone = \"Central European Time\" } }", "an IANA name such as Europe/Berlin"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", start = \"tomorrow\" } }", "times by RFC 3339"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", start = \"2027-01-02T00:00:00Z\", end = \"2027-01-01T00:00:00Z\" } }", "whose start is before their end"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", overlap = \"both\" } }", "an overlap of skip, allow, queue, cancel or replace"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", catch_up_max = 5 } }", "both beside a catch_up of all"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", jitter_seconds = 86401 } }", "a jitter_seconds of 0 to 86400"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", failures_max = 0 } }", "a failures_max of 1 to 1000"},
		{"name = \"a\"\n crons = { x = { schedule = \"@daily\", priority = \"urgent\" } }", "whose priority is one that the lambda has"},
		{"name = \"a\"\n mode = \"deliver\"\n crons = { x = { schedule = \"@daily\" } }", "Want no crons for mode deliver"},
		{"name = \"a\"\n objective = { within_seconds = 0, objective = 99 }", "within_seconds of 0.001 to 86400"},
		{"name = \"a\"\n objective = { within_seconds = 5, objective = 100 }", "100 would leave no budget"},
		{"name = \"a\"\n objective = { within_seconds = 5, objective = 99, window_hours = 1.5 }", "window_hours of 1 to 2160"},
		{"name = \"a\"\n quotas = { recovery = 0 }", "Want quotas whose recovery is 1 to 1000000"},
		{"name = \"a\"\n retry_share = 11", "Want a retry_share of 0.01 to 10"},
		{"name = \"a\"\n breaker = { failures = 2 }", "Want a breaker with failures of 0.01 to 1"},
		{"name = \"a\"\n breaker = { failures = 0.5, window_seconds = 5 }", "window_seconds of 10 to 3600"},
		{"name = \"a\"\n mode = \"deliver\"\n priorities = [\"high\"]\n breaker = { failures = 0.5 }", "none for mode deliver"},
		{"name = \"a\"\n target = { url = \"ftp://mail.example.com\" }", "Want a target whose url is an http or https URL"},
		{"name = \"a\"\n target = { url = \"https://mail.example.com\", slots = 0 }", "Want a target with slots of 1 to 10000"},
		{"name = \"a\"\n mode = \"deliver\"\n priorities = [\"high\"]\n target = { url = \"https://mail.example.com\" }", "none for mode deliver"},
		{"name = \"a\"\n priority_weights = { high = 0 }", "Want priority_weights of 1 to 1000"},
		{"name = \"a\"\n priority_weights = { urgent = 8 }", "for priorities that the lambda has"},
		{"name = \"a\"\n mode = \"deliver\"\n priorities = [\"high\"]\n priority_weights = { high = 8 }", "none for mode deliver"},
		{"name = \"a\"\n quotas = { rate = 0 }", "Want quotas whose rates and admits are 0.001 to 1000000"},
		{"name = \"a\"\n quotas = { admit_by_identity = { crm = 1000001 } }", "Want quotas whose rates and admits are 0.001 to 1000000"},
		{"name = \"a\"\n quotas = { burst = 5 }", "each beside a rate"},
		{"name = \"a\"\n quotas = { rate = 5, burst = 1.5 }", "Want quotas whose bursts are 1 to 100000"},
		{"name = \"a\"\n quotas = { by_priority = { urgent = { rate = 5 } } }", "for priorities that the lambda has"},
		{"name = \"a\"\n quotas = { by_priority = { low = {} } }", "with a rate or a concurrency each"},
		{"name = \"a\"\n quotas = { concurrency = 0 }", "Want quotas whose concurrency is 1 to 100000"},
		{"name = \"a\"\n mode = \"deliver\"\n quotas = { concurrency = 5 }", "none for mode deliver"},
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
		{"name = \"a\"\n sender_principals = [\"arn:aws:iam::111122223333:role/a\"]", "only for mode deliver"},
		{"name = \"a\"\n mode = \"deliver\"\n sender_principals = [\"arn:aws:iam::111122223333:role/*\"]", "Want up to 40 sender_principals"},
		{"name = \"a\"\n kms_key_arn = \"alias/mine\"", "Want a kms_key_arn such as"},
		{"name = \"a\"\n iam_path = \"kinesin\"", "Want an iam_path that begins and ends with a slash"},
		{"name = \"a\"\n alarm_thresholds = { age_seconds = 0 }", "an age_seconds of 1 to 1209600"},
		{"name = \"a\"\n alarm_thresholds = { dlq_messages = -1 }", "dlq_messages of 0 or more"},
		{"name = \"a\"\n backoff_seconds = { min = null, max = 5 }", "Want backoff_seconds with 0.001 <= min <= max"},
		{"name = \"a\"\n backoff_seconds = { min = 1, max = null }", "Want backoff_seconds with 0.001 <= min <= max"},
		{"name = \"a\"\n iam_path = \"/" + strings.Repeat("p", 511) + "/\"", "of up to 512 characters"},
	}, badTags("name = \"a\"\n ", 47)...))
}

// TestBadCore has an installation that is not one: what a module call hands on by hand, and no output of core
// would have.
func TestBadCore(t *testing.T) {
	w := newWorkspace(t, "")
	const want = "Want as core the output `lambdas` of the module core"
	const arn = `"arn:aws:sqs:us-east-1:000000000000:${var.prefix}-inbound"`
	const sound = `{ prefix = var.prefix, control_table = "${var.prefix}-control", inbound_queue_arn = ` + arn + ` }`
	const plain = "null\n prefix = var.prefix\n inbound_queue_arn = " + arn + "\n "
	w.refuses(callWithCore, []badInput{
		{`{ prefix = "other", control_table = "${var.prefix}-control", inbound_queue_arn = ` + arn + ` }`, want},
		{`{ prefix = var.prefix, control_table = "bad-control", inbound_queue_arn = ` + arn + ` }`, want},
		{`{ prefix = var.prefix, control_table = null, inbound_queue_arn = ` + arn + ` }`, want},
		{`{ prefix = var.prefix, control_table = "", inbound_queue_arn = ` + arn + ` }`, want},
		{`{ prefix = var.prefix, control_table = "${var.prefix}-control", inbound_queue_arn = "${` + arn + `}-dlq" }`, want},
		{`{ prefix = var.prefix, control_table = "${var.prefix}-control", inbound_queue_arn = "arn:aws:sqs:us-east-1:000000000000:x${var.prefix}-inbound" }`, want},
		{`{ prefix = var.prefix, control_table = "${var.prefix}-control", inbound_queue_arn = "${var.prefix}-inbound" }`, want},
		{`{ prefix = var.prefix, control_table = "${var.prefix}-control", inbound_queue_arn = null }`, want},
		{`{ prefix = null, control_table = "${var.prefix}-control", inbound_queue_arn = ` + arn + ` }`, "Want a core.prefix of 1 to 20 characters"},
		{`{ prefix = "", control_table = "-control", inbound_queue_arn = "arn:aws:sqs:us-east-1:000000000000:-inbound" }`, "Want a core.prefix of 1 to 20 characters"},
		{`null`, "Want the installation in one way: core, which is the output `lambdas` of the module core, or prefix and inbound_queue_arn, and there is neither."},
		{"null\n prefix = var.prefix", "one of them is missing"},
		{"null\n inbound_queue_arn = " + arn, "one of them is missing"},
		{"null\n prefix = \"a.b\"\n inbound_queue_arn = " + arn, "Want a prefix of 1 to 20 characters"},
		{"null\n prefix = \"other\"\n inbound_queue_arn = " + arn, "Want as inbound_queue_arn that of the queue PREFIX-inbound"},
		{sound + "\n prefix = var.prefix\n inbound_queue_arn = " + arn, "and there are both."},
		{plain + "core_kms_key_arn = \"alias/mine\"", "Want a core_kms_key_arn such as"},
		{plain + "other_kms_key_arns = [\"alias/mine\"]", "Want other_kms_key_arns such as"},
		{plain + "message_bytes_max = 1", "Want a message_bytes_max of 262144"},
		{plain + "server_principals = [\"servers\"]", "Want server_principals that are ARNs"},
		{plain + "operator_principals = [\"oncall\"]", "Want operator_principals that are ARNs"},
		{sound + "\n server_principals = [\"arn:aws:iam::111122223333:role/a\"]", "only beside prefix and inbound_queue_arn"},
	})
}

// badTags are what AWS takes of no tag, beside what a call needs besides, and more tags than there may be.
func badTags(besides string, most int) (cases []badInput) {
	const keys, values = "Want tags whose keys have 1 to 128", "Want tags whose values have up to 256"
	many := strings.Builder{}
	for i := range most + 1 {
		fmt.Fprintf(&many, "t%d = \"\", ", i)
	}
	for _, c := range []badInput{
		{`"kinesin:prefix" = "zz"`, "Want tags whose keys do not begin with kinesin:"},
		{`"Kinesin:Prefix" = "zz"`, "Want tags whose keys do not begin with kinesin:"},
		{`"aws:x" = "y"`, "nor with aws:"},
		{`"AWS:x" = "y"`, "nor with aws:"},
		{`"" = "x"`, keys},
		{`"a&b" = "x"`, keys},
		{`"` + strings.Repeat("k", 129) + `" = "x"`, keys},
		{`team = "R&D"`, values},
		{`team = null`, values},
		{`team = "` + strings.Repeat("v", 257) + `"`, values},
		{`team = "a", Team = "b"`, "differ in case only"},
		{many.String(), fmt.Sprintf("Want up to %d tags", most)},
	} {
		cases = append(cases, badInput{besides + "tags = { " + c.arguments + " }", c.want})
	}
	return cases
}

// TestBadInputOfCore is the same for the module core.
func TestBadInputOfCore(t *testing.T) {
	w := newWorkspace(t, "")
	prefix := `prefix = "` + w.prefix + "\"\n "
	w.refuses(callCore, append([]badInput{
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
		{prefix + `capacity_target_percent = 91`, "Want a capacity_target_percent of 20 to 90."},
		{prefix + `kms_key_arn = "arn:aws:kms:us-east-1:000000000000:alias/mine"`, "that of the key, not of an alias"},
		{prefix + `lambda_kms_key_arns = ["alias/mine"]`, "those of keys, not of aliases"},
		{prefix + `other_kms_key_arns = ["alias/mine"]`, "Want other_kms_key_arns such as"},
		{prefix + `kms_key_arn = "arn:aws-cn:kms:cn-north-1:000000000000:key/mine"`, "in the partition aws or aws-us-gov"},
		{prefix + `message_bytes_max = 262143`, "Want a message_bytes_max of 262144"},
		{prefix + `message_bytes_max = 1048577`, "to 1048576 (1 MiB), a whole number"},
		{prefix + `iam_path = "/kinesin"`, "Want an iam_path that begins and ends with a slash"},
		{prefix + `alarm_thresholds = { inbound_age_seconds = 0 }`, "an inbound_age_seconds of 1 to 1209600"},
		{prefix + `alarm_thresholds = { throttled_requests = -1 }`, "inbound_dlq_messages and throttled_requests of 0 or more."},
		{prefix + `iam_path = "/` + strings.Repeat("p", 511) + `/"`, "of up to 512 characters"},
		{prefix + `deletion_protection = "perhaps"`, "a bool is required"},
	}, badTags(prefix, 49)...))
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

// TestBadInputOfProduction has the mistakes that the map of the example production may have, or a line in it.
func TestBadInputOfProduction(t *testing.T) {
	w := newWorkspace(t, "examples/production")
	const object, twice = "Want for each lambda an object with its team", "Two lambdas would have a queue of one name"
	for _, c := range []badInput{
		{`{a={}}`, object},
		{`{a={team=null}}`, object},
		{`{a={team=""}}`, object},
		{`{a={team=["x"]}}`, object},
		{`{a=null}`, object},
		{`{a="x"}`, object},
		{`null`, object},
		{`"x"`, object},
		{`[{team="x"}]`, object},
		{`{a={team="x",max_atempts=5}}`, "There is no setting max_atempts: want of each lambda team, and any of "},
		{`{a={team="x",shards="many"}}`, "a number is required"},
		{`{a={team="x",priorities="high"}}`, "list of string required"},
		{`{a={team="x",max_attempts=0}}`, "Want 1 to 1000 max_attempts"},
		{`{a-b={team="x",priorities=["c"]},a={team="x",priorities=["b-c"]}}`, twice},
		{`{a={team="x",mode="deliver",priorities=["b"]},a-b={team="x",priorities=["dlq"]}}`, twice},
		{`{a={team="x",mode="deliver",priorities=["b"]},a-b={team="x",mode="deliver",priorities=["c","dlq"]}}`, twice},
		{`{receipts={team="x"},Receipts={team="x"}}`, "differ in case only"},
	} {
		got := w.run("apply", "-auto-approve", "-var", "lambdas="+c.arguments)
		if got.Code != 1 || !strings.Contains(said(got), c.want) {
			t.Errorf("with %s: exit status %d, want 1 and %q: %s", c.arguments, got.Code, c.want, said(got))
		} else if raw.MatchString(said(got)) {
			t.Errorf("with %s: refused in other words, too: %s", c.arguments, said(got))
		}
	}
	w.nothing()
}

// raw is what terraform and tofu say by themselves of an expression that fails: it tells nobody what is
// wanted.
var raw = regexp.MustCompile(`Error: (Operation failed|Invalid (index|template interpolation value|function argument|for_each argument)|Iteration over|` +
	`Missing Configuration|Unsupported attribute|Attempt to|Error in function call|Invalid value for validation)`)

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
	w.write("main.tf", fmt.Sprintf(call, cases[0].arguments))
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
		case raw.MatchString(said(got)):
			w.t.Errorf("with %s: refused in other words, too:\n%s%s", c.arguments, got.Stdout, got.Stderr)
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
