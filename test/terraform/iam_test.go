package terraform_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
	"github.com/kinesin-io/kinesin/test/harness"
)

// A platform team's configuration, and a product team's.
const (
	platformConfig = `
provider "aws" {}

variable "prefix" {
  type = string
}

module "core" {
  source = "../modules/core"

  prefix                = var.prefix
  deletion_protection   = false
  alarms                = false
  servers_create_queues = true
}

output "lambdas" {
  value = module.core.lambdas
}

output "environment" {
  value = module.core.serve_environment
}

output "documents" {
  value = merge(module.core.role_policy_documents, { registrar = module.core.registrar_policy_document })
}
`
	teamConfig = `
provider "aws" {}

variable "core" {
  type = any
}

variable "retention_seconds" {
  type    = number
  default = 3600
}

module "work" {
  source = "../modules/lambda"

  core              = var.core
  name              = "work"
  priorities        = ["high", "low"]
  max_attempts      = 2
  backoff_seconds   = { min = 0.5, max = 1 }
  retention_seconds = var.retention_seconds
  alarms            = false
}

module "send" {
  source = "../modules/lambda"

  core                                = var.core
  name                                = "send"
  mode                                = "deliver"
  priorities                          = ["normal"]
  consumer_visibility_timeout_seconds = 60
  retention_seconds                   = var.retention_seconds
  alarms                              = false
}

output "documents" {
  value = { worker = module.send.worker_policy_document, sender = module.send.sender_policy_document }
}
`
)

// installation is what both teams have made, with a recording for each role.
type installation struct {
	*workspace

	documents map[string]string
	recorded  map[string]*recording
	servers   map[string]*harness.Server
}

// serverRoles and otherRoles are all who have a policy: the servers, each with what `kinesin serve` is told,
// and the others.
var (
	serverRoles = map[string]string{"inbound": "inbound", "scheduler": "scheduler,dispatcher", "hsc": "hsc"}
	otherRoles  = []string{"registrar", "worker", "sender"}
)

// newInstallation applies both configurations: the team's under a recording, since its pipeline has a policy.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	n := &installation{
		workspace: newWorkspace(t, ""), documents: map[string]string{}, recorded: map[string]*recording{}, servers: map[string]*harness.Server{},
	}
	for role := range serverRoles {
		n.recorded[role] = recordCalls(t, n.aws)
	}
	for _, role := range otherRoles {
		n.recorded[role] = recordCalls(t, n.aws)
	}
	n.in("platform", platformConfig)
	n.apply()
	n.output("documents", &n.documents)
	core := n.must("output", "-json", "lambdas")

	n.in("team", teamConfig)
	n.env = append(slices.Clone(n.env), append(n.recorded["registrar"].Exports(), "TF_VAR_core="+core)...)
	n.apply()
	n.output("documents", &n.documents)
	return n
}

// in makes a configuration and goes there.
func (w *workspace) in(folder, text string) {
	w.t.Helper()
	w.dir = filepath.Join(w.root, folder)
	if err := os.Mkdir(w.dir, 0o750); err != nil {
		w.t.Fatal(err)
	}
	w.write("main.tf", text)
	w.must("init")
}

// start starts a server with one role, before which its recording stands.
func (n *installation) start(role string, args ...string) {
	n.t.Helper()
	n.servers[role] = harness.StartServer(n.t, harness.ServerOptions{
		Args: append([]string{"--roles", serverRoles[role]}, args...),
		Env:  append(n.recorded[role].Env(), "KINESIN_STORE=dynamodb", "KINESIN_QUEUE=sqs", "KINESIN_AWS_PREFIX="+n.prefix),
	})
}

// client runs a command at the server that clients talk to.
func (n *installation) client(args ...string) harness.Result {
	n.t.Helper()
	return n.servers["inbound"].Run(args...)
}

// TestIAM has everything done that a role does, writes down what each asks of AWS, and holds their policies
// to that: what was called is allowed, and what is allowed was called, or it is in unused with a reason.
func TestIAM(t *testing.T) {
	n := newInstallation(t)
	n.live()
	policies := map[string]policy{}
	for role, document := range n.documents {
		p, err := parsePolicy(document)
		if err != nil {
			t.Fatalf("the policy of %s: %v: %s", role, err, document)
		}
		policies[role] = p
	}
	for role, r := range n.recorded {
		calls := r.all(t)
		if len(calls) == 0 {
			t.Errorf("%s called nothing", role)
		}
		if role == "registrar" { // its queues, alarms and policies it makes by other rights, as the README says
			calls = slices.DeleteFunc(calls, func(c call) bool { return !strings.HasPrefix(c.action, "dynamodb:") })
		}
		n.allAllowed(role, policies[role], calls)
		n.allNeeded(role, policies[role], calls)
	}
	n.noMore(policies)
	n.noRegistrations(policies)
	t.Run("moto", func(t *testing.T) { n.enforced(t, policies) })
}

// allAllowed replays what a role called.
func (n *installation) allAllowed(role string, p policy, calls []call) {
	n.t.Helper()
	for _, c := range calls {
		if !allows([]policy{p}, c, n.recorded[role].of(c).context()) {
			n.t.Errorf("%s called %s on %s, which its policy does not allow", role, c.action, n.short(c.resource))
		}
	}
}

// allNeeded looks for what a policy allows beyond that.
func (n *installation) allNeeded(role string, p policy, calls []call) {
	n.t.Helper()
	for _, g := range p.grants() {
		needed := slices.ContainsFunc(calls, func(c call) bool {
			return like(g.resource, c.resource) && (c.action == g.action || slices.Contains(alone[g.action], c.action))
		})
		entry := role + " " + g.action + " " + n.short(g.resource)
		switch reason, listed := unused[entry]; {
		case !needed && !listed:
			n.t.Errorf("%q: nothing in this run needed it; take it out of the policy, or say in unused why it is there", entry)
		case listed && reason == "":
			n.t.Errorf("%q has no reason in unused", entry)
		}
	}
}

// short is a resource as the table unused has it: without the account, and without what differs from run to
// run.
func (n *installation) short(resource string) string {
	return strings.ReplaceAll(resource[strings.LastIndexByte(resource, ':')+1:], n.prefix+"-", "")
}

// alone tells which call shows, besides itself, that an action is needed: writes go in batches, and one that
// is alone by itself, and how many come at a time is chance.
var alone = map[string][]string{
	"dynamodb:PutItem":       {"dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"},
	"dynamodb:PartiQLInsert": {"dynamodb:PutItem"},
	"dynamodb:PartiQLUpdate": {"dynamodb:PutItem"},
	"dynamodb:DeleteItem":    {"dynamodb:PartiQLDelete"},
	"dynamodb:PartiQLDelete": {"dynamodb:DeleteItem"},
	"dynamodb:GetItem":       {"dynamodb:BatchGetItem"},
	"dynamodb:BatchGetItem":  {"dynamodb:GetItem"},
}

const onlyFIFO = "the dead-letter queues of FIFO queues, of which the run has none"

const readBack = "a write whose answer is lost is read back, and no answer is lost in a run"

// unused is what policies allow though no call of the run needed it, and why.
var unused = map[string]string{
	"inbound sqs:ReceiveMessage *-*-dlq.fifo":          onlyFIFO,
	"inbound sqs:DeleteMessage *-*-dlq.fifo":           onlyFIFO,
	"inbound sqs:ChangeMessageVisibility *-*-dlq.fifo": onlyFIFO,
	"inbound sqs:StartMessageMoveTask *-*-dlq.fifo":    onlyFIFO,
	"inbound sqs:ListMessageMoveTasks *-*-dlq.fifo":    onlyFIFO,
	"inbound sqs:PurgeQueue *-*-dlq.fifo":              onlyFIFO,
	"scheduler dynamodb:UpdateItem table/payloads":     "payloads of tasks that are 14 days overdue are put off, and a run takes minutes",
	"hsc dynamodb:GetItem table/schedule":              readBack,
	"hsc dynamodb:BatchGetItem table/schedule":         readBack,
}

// registrationWrites are all ways to write a row.
var registrationWrites = []string{"PutItem", "UpdateItem", "DeleteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}

// noRegistrations has servers write all kinds of control rows but registrations, alone and among others,
// whatever other server's policy they have besides; and read these.
func (n *installation) noRegistrations(policies map[string]policy) {
	n.t.Helper()
	control := arnTable + n.prefix + "-control"
	all := []policy{}
	for role := range serverRoles {
		all = append(all, policies[role])
	}
	for _, action := range registrationWrites {
		for _, keys := range [][]string{{catalog.RegistrationKind}, {"member", catalog.RegistrationKind}, {catalog.RegistrationKind, "member"}} {
			if allows(all, call{"dynamodb:" + action, control}, map[string][]string{"dynamodb:LeadingKeys": keys}) {
				n.t.Errorf("servers may %s rows of control with the kinds %v", action, keys)
			}
		}
	}
	row := map[string][]string{"dynamodb:LeadingKeys": {catalog.RegistrationKind}}
	for role := range serverRoles {
		for _, action := range []string{"GetItem", "Query"} {
			if !allows([]policy{policies[role]}, call{"dynamodb:" + action, control}, row) {
				n.t.Errorf("%s may not %s registrations", role, action)
			}
		}
	}
	for _, action := range []string{"PutItem", "DeleteItem"} {
		// A role that has a server's policy besides loses nothing by it.
		if c := (call{"dynamodb:" + action, control}); !allows(append(all, policies["registrar"]), c, row) {
			n.t.Errorf("a pipeline whose role is a server's, too, may not %s registrations", action)
		}
	}
}

// noMore asks for some of what would be worst.
func (n *installation) noMore(policies map[string]policy) {
	n.t.Helper()
	table := func(name string) string { return arnTable + n.prefix + "-" + name }
	queue := func(name string) string { return arnQueue + n.prefix + "-" + name }
	for role, p := range policies {
		refused := []call{
			{"dynamodb:DeleteTable", table("tasks")},
			{"dynamodb:UpdateTable", table("tasks")},
			{"dynamodb:Scan", table("schedule")},
			{"dynamodb:GetItem", arnTable + "other-tasks"},
			{"dynamodb:GetItem", arnTable + n.prefix + "x-tasks"},
			{"dynamodb:Query", table("tasks")},
			{"sqs:DeleteQueue", queue("work-high")},
			{"sqs:PurgeQueue", queue("inbound")},
			{"sqs:SetQueueAttributes", queue("inbound")},
			{"sqs:SendMessage", arnQueue + "other-inbound"},
			{"sqs:SendMessage", queue("inbound-dlq")},
			{"sqs:ReceiveMessage", queue("inbound-dlq")},
			{"sqs:DeleteMessage", queue("inbound-dlq")},
			{"iam:PassRole", "arn:aws:iam::000000000000:role/admin"},
		}
		switch role {
		case "worker":
			refused = append(refused, call{"sqs:ReceiveMessage", queue("work-high")}, call{"sqs:SendMessage", queue("send-normal")}, call{"sqs:ReceiveMessage", queue("inbound")})
		case "sender":
			refused = append(refused, call{"sqs:ReceiveMessage", queue("inbound")}, call{"sqs:SendMessage", queue("send-normal")})
		case "registrar":
			refused = append(refused, call{"dynamodb:Query", table("control")}, call{"dynamodb:PutItem", table("tasks")}, call{"sqs:SendMessage", queue("inbound")})
			row := map[string][]string{"dynamodb:LeadingKeys": {"lambda"}}
			if c := (call{"dynamodb:PutItem", table("control")}); allows([]policy{p}, c, row) {
				n.t.Error("registrar may write rows that are no registrations")
			}
		case "scheduler":
			refused = append(refused, call{"sqs:ReceiveMessage", queue("inbound")}, call{"sqs:SendMessage", queue("inbound")}, call{"dynamodb:Scan", table("tasks")})
		case "hsc":
			refused = append(refused, call{"dynamodb:Query", table("schedule")}, call{"dynamodb:Query", table("tasks") + "/index/dead"})
			for _, action := range []string{"SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"} {
				refused = append(refused, call{"sqs:" + action, queue("inbound")})
			}
		case "inbound":
			refused = append(refused, call{"sqs:ReceiveMessage", queue("work-high")}, call{"dynamodb:DeleteItem", table("tasks")},
				call{"sqs:PurgeQueue", queue("send-normal")}, call{"sqs:StartMessageMoveTask", queue("inbound-dlq")}, call{"sqs:PurgeQueue", queue("inbound-dlq")})
		}
		for _, c := range refused {
			if allows([]policy{p}, c, nil) {
				n.t.Errorf("%s may %s on %s", role, c.action, n.short(c.resource))
			}
		}
	}
}

// live has every role do all that it does.
func (n *installation) live() {
	n.t.Helper()
	n.start("inbound", "--deliver-direct", "0s")
	n.start("scheduler")
	n.start("hsc")
	n.known(n.servers["inbound"], "work")
	n.known(n.servers["inbound"], "send")
	n.client("lambda", "create", "made", "--priorities", "one").Must(n.t)
	worker := n.servers["hsc"].CommandWorker("--lambda", "work", "--lambda", "made", "--concurrency", "4", "--grace", "1s", "--", "sh", "-c", workerScript)
	script, err := filepath.Abs("../../examples/consumer/consume.py")
	if err != nil {
		n.t.Fatal(err)
	}
	consumer := harness.Start(n.t, harness.Command{
		Path: n.python(), Args: []string{script, n.prefix + "-send-normal"}, Env: n.recorded["worker"].Env(),
	})
	n.schedule()
	n.send()
	n.consumeMore()
	n.batch("made", 40, "0s", "slow")
	n.lastLonger()
	worker.Signal(syscall.SIGTERM) // with work in hand, and more on its way to it
	worker.Wait(harness.ExitMax)
	consumer.Kill()
	n.deadLetters()
	n.replace()
	for role := range serverRoles {
		if code := n.servers[role].Shutdown(); code != 0 {
			n.t.Errorf("the server with %s ended with %d", role, code)
		}
	}
	n.must("destroy", "-auto-approve")
}

// workerScript does as the payload says.
const workerScript = `case "$(head -c 20)" in fail*) exit 1 ;; slow*) sleep 4 ;; esac`

// python is an interpreter with the AWS SDK.
func (n *installation) python() string {
	n.t.Helper()
	path, err := motoPython()
	if err != nil {
		n.t.Fatal(err)
	}
	return path
}

// schedule has tasks of all kinds run: at once and later, with a key, with a large payload, failing,
// cancelled, delivered; and has every server lose an answer.
func (n *installation) schedule() {
	n.t.Helper()
	// Its message goes back to its queue, since its payload cannot be read for a while.
	hsc := n.recorded["hsc"]
	hsc.fail("payloads")
	first := n.client("schedule", "work", "--payload-file", n.large()).Must(n.t)
	for deadline := time.Now().Add(registeredMax); !hsc.has("sqs:ChangeMessageVisibility"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.t.Fatal("no message goes back to its queue")
		}
	}
	hsc.heal()
	n.reaches(n.servers["inbound"], first, "success")
	ids := []string{
		n.client("schedule", "work", "--in", "2s", "--key", "once").Must(n.t),
		n.client("schedule", "work", "--in", "20s", "--priority", "low").Must(n.t),
		n.client("schedule", "work", "--in", "1s", "--payload-file", n.large()).Must(n.t),
		n.client("schedule", "made", "--in", "1s", "--payload", "slow").Must(n.t),
	}
	n.client("schedule", "work", "--in", "5s", "--key", "once").Must(n.t)
	failing := n.client("schedule", "work", "--payload", "fail").Must(n.t)
	delivered := n.client("schedule", "send", "--in", "3s", "--payload", "hello").Must(n.t)
	n.recorded["scheduler"].lose("schedule")
	hsc.lose("tasks")
	n.batch("work", 40, "2s", "number")
	n.batch("send", 20, "2s", "number")

	later := n.batch("work", 12, "1h", "number")
	n.client(append([]string{"cancel", n.client("schedule", "work", "--in", "1h").Must(n.t)}, later[:10]...)...).Must(n.t)
	n.client("get", later[0], later[11], ids[0]).Must(n.t)
	n.client("list", "work").Must(n.t)
	for _, id := range ids {
		n.reaches(n.servers["inbound"], id, "success")
	}
	n.reaches(n.servers["inbound"], failing, "dead")
	n.reaches(n.servers["inbound"], delivered, "delivered")
	n.client("list", "work", "--state", "dead").Must(n.t)
	n.client("list", "work", "--state", "success").Must(n.t)
	n.client("get", ids[2], "--payload").Must(n.t)
}

// large is a file with a payload that gets a row of its own.
func (n *installation) large() string {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "large")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789", 20_000)), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// lastLonger makes tasks with payloads last longer than these were written for, since the team keeps ended
// ones longer now.
func (n *installation) lastLonger() {
	n.t.Helper()
	path := n.large()
	cancelled := n.client("schedule", "work", "--in", "1h", "--payload-file", path).Must(n.t)
	run := n.client("schedule", "work", "--in", "20s", "--payload-file", path).Must(n.t)
	delivered := n.client("schedule", "send", "--in", "20s", "--payload-file", path).Must(n.t)
	n.apply("-var", "retention_seconds=8640000")
	deadline := time.Now().Add(registeredMax)
	for !strings.Contains(n.client("lambda", "get", "send").Must(n.t), "2400h") {
		if time.Now().After(deadline) {
			n.t.Fatalf("the lambda did not change: %s", n.client("lambda", "get", "send").Must(n.t))
		}
		time.Sleep(200 * time.Millisecond)
	}
	n.client("cancel", cancelled).Must(n.t)
	n.reaches(n.servers["inbound"], run, "success")
	n.reaches(n.servers["inbound"], delivered, "delivered")
}

// batch schedules several at once.
func (n *installation) batch(lambda string, count int, in, payload string) (ids []string) {
	n.t.Helper()
	var lines strings.Builder
	for i := range count {
		fmt.Fprintf(&lines, "{\"lambda\": %q, \"delay\": %q, \"payload_text\": \"%s %d\"}\n", lambda, in, payload, i)
	}
	got := n.servers["inbound"].Feed(lines.String(), "schedule", "--batch", "-")
	return strings.Fields(got.Must(n.t))
}

// send puts tasks straight into the inbound queue, one of them of a lambda that is not there.
func (n *installation) send() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), registeredMax)
	defer cancel()
	key := n.client("inbound", "key").Must(n.t)
	config := awslocal.Endpoints{SQS: n.recorded["sender"].SQS}.Config(n.t)
	client, err := sqsinbound.New(sqs.NewFromConfig(config), n.prefix, key)
	if err != nil {
		n.t.Fatal(err)
	}
	id, err := sdk.NewLambda[string]("work").Schedule(ctx, client, "sent", sdk.In(time.Second))
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := sdk.NewLambda[string]("nobody").Schedule(ctx, client, "sent"); err != nil {
		n.t.Fatal(err)
	}
	if err := client.Close(ctx); err != nil {
		n.t.Error(err)
	}
	n.reaches(n.servers["inbound"], string(id), "success")
	for ctx.Err() == nil {
		if strings.Contains(n.client("inbound", "rejected", "list").Must(n.t), "unknown_lambda") {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	n.client("inbound", "rejected", "retry", "--all") // in vain: there is no such lambda still
	n.client("inbound", "rejected", "delete", "--all").Must(n.t)
}

// deadLetters has a message fail at its consumer until it is dead, and does all that there is to do with it.
func (n *installation) deadLetters() {
	n.t.Helper()
	c := sqs.NewFromConfig(n.aws.Config(n.t))
	name := n.prefix + "-send-normal"
	queue, err := c.GetQueueUrl(n.t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		n.t.Fatal(err)
	}
	count := func() string { return n.client("dead-letter", "count", "send").Must(n.t) }
	bury := func() {
		n.t.Helper()
		for deadline := time.Now().Add(registeredMax); count() == "about 0"; {
			if time.Now().After(deadline) {
				n.t.Fatal("no message gets to the dead-letter queue")
			}
			got, err := c.ReceiveMessage(n.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 1, WaitTimeSeconds: 2})
			if err != nil {
				n.t.Fatal(err)
			}
			if len(got.Messages) == 0 { // or the last poll of the consumer that was killed took it
				n.client("schedule", "send", "--payload", "hopeless").Must(n.t)
			}
			for i := range got.Messages {
				_, _ = c.ChangeMessageVisibility(n.t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: queue.QueueUrl, ReceiptHandle: got.Messages[i].ReceiptHandle})
			}
		}
	}
	bury()
	n.client("dead-letter", "list", "send", "--payload").Must(n.t)
	if out := n.client("dead-letter", "redrive", "send").Must(n.t); !strings.Contains(out, "redriven") {
		n.t.Errorf("redrive says %q", out)
	}
	bury()
	if out := n.client("dead-letter", "delete", "send").Must(n.t); !strings.Contains(out, "deleted") {
		n.t.Errorf("delete says %q", out)
	}
	n.client("dead-letter", "delete", "send", "--purge").Must(n.t)
	if left := count(); left != "about 0" {
		n.t.Errorf("%s are left", left)
	}
}

// consumeMore does what a consumer may, and the example does not.
func (n *installation) consumeMore() {
	n.t.Helper()
	c := sqs.NewFromConfig(awslocal.Endpoints{SQS: n.recorded["worker"].SQS}.Config(n.t))
	name := n.prefix + "-send-normal"
	queue, err := c.GetQueueUrl(n.t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		n.t.Fatal(err)
	}
	// So does AWS Lambda before it receives.
	if _, err := c.GetQueueAttributes(n.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: queue.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages},
	}); err != nil {
		n.t.Fatal(err)
	}
	_, err = c.ChangeMessageVisibility(n.t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: queue.QueueUrl, ReceiptHandle: aws.String("of none"), VisibilityTimeout: 10,
	})
	if err == nil {
		n.t.Error("the visibility of no message was changed")
	}
}

// replace starts a second server for each role and ends the first.
func (n *installation) replace() {
	n.t.Helper()
	for role := range serverRoles {
		first := n.servers[role]
		n.start(role)
		if code := first.Shutdown(); code != 0 {
			n.t.Errorf("the first server with %s ended with %d", role, code)
		}
	}
}
