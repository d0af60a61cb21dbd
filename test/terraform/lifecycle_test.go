package terraform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	// registeredMax is how long a lambda may take from an apply until servers know it, on a busy machine.
	registeredMax = 60 * time.Second
	// sqsMessageBytesMax is the largest message of a queue of which nothing is said: what setup makes has
	// that, while the provider would say 262144.
	sqsMessageBytesMax = 1 << 20
)

// TestLifecycle is the example minimal, from nothing to nothing.
func TestLifecycle(t *testing.T) {
	w := newWorkspace(t, "examples/minimal")
	w.apply()
	w.unchanged()

	calls := recordCalls(t, w.aws)
	server := w.serve(calls.Env()...)
	w.works(server, "greet")
	w.sameAsSetup()
	w.unchanged() // nor does a server that is at work change anything

	w.write("more.tf", `
module "more" {
  source = "../../modules/lambda"

  core       = module.core.lambdas
  name       = "more"
  priorities = ["one"]
  alarms     = false
}
`)
	w.must("init")
	if said := w.apply(); !strings.Contains(said, " 0 changed, 0 destroyed") {
		t.Errorf("a lambda more changes others:\n%s", said)
	}
	w.works(server, "more")
	w.sameAsSetup()
	w.unchanged()

	if code := server.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	w.allInOne(calls)
	w.must("destroy", "-auto-approve")
	w.gone()
}

// TestProduction is the example production: provisioned, with alarms, under a key, and with all that is the
// account's alone.
func TestProduction(t *testing.T) {
	const key = "arn:aws:kms:us-east-1:000000000000:key/12345678-1234-1234-1234-123456789012"
	w := newWorkspace(t, "examples/production")
	w.env = append(w.env, "TF_VAR_kms_key_arn="+key)
	w.apply()
	w.usesOfKey(key)
	underKey(t, w, key)
	w.capacityFits()
	w.ageAlarms(map[string]int{"inbound": 120, "receipts-high": 300, "reports-bulk": 300, "invoices-normal": 1800})
	w.unchanged()

	server := w.serve()
	for _, lambda := range []string{"receipts", "reports"} {
		w.works(server, lambda)
	}
	w.delivers(server, "invoices")
	w.sameAsSetup()
	w.unchanged()
	if code := server.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	w.kept()
	if err := os.Remove(filepath.Join(w.dir, "keep.tf")); err != nil {
		t.Fatal(err)
	}
	w.apply()
	if got := w.run("destroy", "-auto-approve"); got.Code == 0 {
		t.Error("protected tables were deleted")
	}
	left := w.recorded("aws_sqs_queue")
	for _, name := range []string{"-inbound", "-inbound-dlq"} {
		if left[w.prefix+name] == nil {
			t.Errorf("destroy was refused at the tables, and the queue %s is gone, tasks and all", w.prefix+name)
		}
	}
	w.apply("-var", "deletion_protection=false")
	w.must("destroy", "-auto-approve", "-var", "deletion_protection=false")
	w.gone()
}

// capacityFits holds what scales writes to what a managed task takes of each by docs/reference/cost.md: whatever bears
// fewer tasks a second than the one before it would slow that one down. Schedule comes first, since it is
// where tasks come in.
func (w *workspace) capacityFits() {
	w.t.Helper()
	scaled := map[string]record{}
	for _, r := range w.recorded("aws_appautoscaling_target") {
		if strings.HasSuffix(r.text("scalable_dimension"), ":WriteCapacityUnits") {
			scaled[strings.TrimPrefix(r.text("resource_id"), "table/"+w.prefix+"-")] = r
		}
	}
	for _, bound := range []string{"min_capacity", "max_capacity"} {
		before := 0.0
		for _, one := range []struct {
			name  string
			units float64 // a task
		}{{"schedule", 2}, {"tasks", 3}} {
			tasks := float64(scaled[one.name].number(bound)) / one.units
			if tasks == 0 || tasks < before {
				w.t.Errorf("%s bears %.0f tasks a second by its %s, and what comes before it %.0f", one.name, tasks, bound, before)
			}
			before = tasks
		}
	}
}

// ageAlarms holds the alarms of queues to how old a message may be, in seconds. SQS counts from when it was
// sent, and deliveries are sent up to 15 minutes ahead.
func (w *workspace) ageAlarms(want map[string]int) {
	w.t.Helper()
	alarms := w.recorded("aws_cloudwatch_metric_alarm")
	for name, seconds := range want {
		if got := alarms[w.prefix+"-"+name+"-age"].number("threshold"); got != seconds {
			w.t.Errorf("the alarm of %s goes off at %d s, want %d", name, got, seconds)
		}
	}
}

// kept fails the test when a destroy deletes anything that `keep` in the configuration is to keep.
func (w *workspace) kept() {
	w.t.Helper()
	got := w.run("destroy", "-auto-approve")
	if got.Code != 1 || !strings.Contains(said(got), "nstance cannot be destroyed") || strings.Contains(got.Stdout, "Destroying...") {
		w.t.Errorf("destroy of what is to be kept: exit status %d: %s", got.Code, said(got))
	}
	w.unchanged()
}

// TestBillingMode goes from on demand to provisioned and back, with the tables as they are: by the module
// alone that is refused, for want of capacity of the index; as the README of the module core says it goes.
func TestBillingMode(t *testing.T) {
	w := newWorkspace(t, "")
	w.in("billing", `
provider "aws" {}

variable "prefix" {
  type = string
}

variable "mode" {
  type    = string
  default = "PAY_PER_REQUEST"
}

module "core" {
  source = "../modules/core"

  prefix              = var.prefix
  billing_mode        = var.mode
  deletion_protection = false
}
`)
	w.apply()
	scaled := w.recorded("aws_appautoscaling_target")
	if len(scaled) != 0 {
		t.Errorf("on demand, and scaled: %v", scaled)
	}
	if got := w.run("apply", "-auto-approve", "-var", "mode=PROVISIONED"); got.Code != 1 || !strings.Contains(said(got), "index") {
		t.Errorf("to provisioned, without capacity of the index: exit status %d: %s", got.Code, said(got))
	}
	w.provision()
	if said := w.apply("-var", "mode=PROVISIONED"); !strings.Contains(said, " 0 changed, 0 destroyed") {
		t.Errorf("to provisioned: %s", said)
	}
	w.unchanged("-var", "mode=PROVISIONED")
	w.sameAsSetup()
	if scaled := w.recorded("aws_appautoscaling_target"); len(scaled) != 10 {
		t.Errorf("%d targets of autoscaling, want 10: four tables and an index, reads and writes", len(scaled))
	}
	if said := w.apply(); !strings.Contains(said, " 4 changed, 20 destroyed") {
		t.Errorf("to on demand: %s", said)
	}
	w.unchanged()
	w.must("destroy", "-auto-approve")
	w.gone()
}

// provision gives the tables capacity, as the README of the module core does by the command line of AWS.
func (w *workspace) provision() {
	w.t.Helper()
	db := dynamodb.NewFromConfig(w.aws.Config(w.t))
	capacity := &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(50), WriteCapacityUnits: aws.Int64(100)}
	for _, table := range []string{"schedule", "payloads", "control", "tasks"} {
		in := &dynamodb.UpdateTableInput{
			TableName: aws.String(w.prefix + "-" + table), BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: capacity,
		}
		if table == "tasks" {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{
				Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: aws.String("dead"), ProvisionedThroughput: capacity},
			}}
		}
		// The apply that was refused changed some already.
		var invalid smithy.APIError
		_, err := db.UpdateTable(w.t.Context(), in)
		if err != nil && (!errors.As(err, &invalid) || invalid.ErrorCode() != "ValidationException") {
			w.t.Fatal(err)
		}
	}
}

// serve starts a server as the outputs say, with other variables besides.
func (w *workspace) serve(more ...string) *harness.Server {
	w.t.Helper()
	var env map[string]string
	w.output("serve_environment", &env)
	options := harness.ServerOptions{Env: append(w.aws.Env(), more...)}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		options.Env = append(options.Env, name+"="+env[name])
	}
	return harness.StartServer(w.t, options)
}

// known waits until the server knows a lambda.
func (w *workspace) known(server *harness.Server, lambda string) {
	w.t.Helper()
	deadline := time.Now().Add(registeredMax)
	for {
		got := server.Run("lambda", "get", lambda)
		if got.Code == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("lambda %s is not known %v after the apply: %s", lambda, registeredMax, got.Stderr)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// works has a task of a lambda run by a worker.
func (w *workspace) works(server *harness.Server, lambda string) {
	w.t.Helper()
	w.known(server, lambda)
	worker := server.CommandWorker("--lambda", lambda, "--", "cat")
	defer worker.Kill()
	for _, in := range []string{"0s", "2s"} {
		id := server.Run("schedule", lambda, "--in", in, "--payload", "hello").Must(w.t)
		w.reaches(server, id, "success")
	}
}

// delivers has a task of a deliver lambda put on its queue.
func (w *workspace) delivers(server *harness.Server, lambda string) {
	w.t.Helper()
	w.known(server, lambda)
	id := server.Run("schedule", lambda, "--in", "1s", "--payload", "hello").Must(w.t)
	w.reaches(server, id, "delivered")
}

func (w *workspace) reaches(server *harness.Server, id, state string) {
	w.t.Helper()
	deadline := time.Now().Add(registeredMax)
	for {
		var now struct{ State string }
		got := server.Run("get", id, "-o", "json")
		if got.Code == 0 {
			got.JSON(w.t, &now)
		}
		if now.State == state {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("task %s is %q, want %s: %s", id, now.State, state, got.Stdout)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// gone fails the test when anything is left.
func (w *workspace) gone() {
	w.t.Helper()
	kinds, err := os.ReadDir(w.account)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kind := range kinds {
		for name := range w.recorded(kind.Name()) {
			w.t.Errorf("%s %s is left", kind.Name(), name)
		}
	}
	for _, item := range w.setup().Items {
		if item.Outcome != "missing" {
			w.t.Errorf("%s %s is %s", item.Kind, item.Name, item.Outcome)
		}
	}
}

// setup is what `kinesin aws setup --dry-run` says.
func (w *workspace) setup() (report setupReport) {
	w.t.Helper()
	setup := harness.Command{Args: []string{"aws", "setup", "--aws-prefix", w.prefix, "--dry-run", "-o", "json"}, Env: w.aws.Env()}
	setup.Run(w.t).JSON(w.t, &report)
	return report
}

type setupReport struct {
	Items []setupItem `json:"items"`
}

type setupItem struct {
	Kind, Name, Outcome string
	Differences         []string
	Spec                json.RawMessage
}

// queueSpec and tableSpec are the specifications that setup prints.
type queueSpec struct {
	Visibility int    `json:"visibility_timeout_seconds"`
	Retention  int    `json:"message_retention_seconds"`
	ManagedSSE bool   `json:"sqs_managed_sse"`
	DLQ        string `json:"dead_letter_queue"`
	Receives   int    `json:"max_receive_count"`
}

type tableSpec struct {
	Key     []keyPart   `json:"key"`
	Indexes []indexSpec `json:"indexes"`
	TTL     string      `json:"ttl"`
}

type indexSpec struct {
	Name       string    `json:"name"`
	Key        []keyPart `json:"key"`
	Projection string    `json:"projection"`
}

type keyPart struct{ Attribute, Role, Type string }

// sameAsSetup compares what was applied with what `kinesin aws setup` would make: the same tables and queues,
// and each the same. The servers know the lambdas, so theirs are among them. Attributes that the emulators do
// not tell are compared by what was asked for.
func (w *workspace) sameAsSetup() {
	w.t.Helper()
	tables, queues := w.recorded("aws_dynamodb_table"), w.recorded("aws_sqs_queue")
	var names []string
	for _, item := range w.setup().Items {
		names = append(names, item.Name)
		if item.Outcome != "unchanged" {
			w.t.Errorf("%s %s: setup says %s: %v", item.Kind, item.Name, item.Outcome, item.Differences)
		}
		got, want := describeRecorded(w.t, tables[item.Name], queues[item.Name]), describeSpec(w.t, item)
		if got != want {
			w.t.Errorf("%s %s is\n  %s, setup wants\n  %s", item.Kind, item.Name, got, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if !slices.Contains(names, name) {
			w.t.Errorf("setup knows no table %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		if !slices.Contains(names, name) {
			w.t.Errorf("setup knows no queue %s", name)
		}
	}
}

// describeRecorded is of a table or of a queue that the modules made.
func describeRecorded(t *testing.T, table, queue record) string {
	t.Helper()
	switch {
	case table != nil:
		return recordedTable(table)
	case queue != nil:
		return recordedQueue(t, queue)
	}
	return "not made by the modules"
}

func describeSpec(t *testing.T, item setupItem) string {
	t.Helper()
	if item.Kind == "table" {
		return describeTable(t, item.Spec)
	}
	return describeQueue(t, item.Spec)
}

func describeTable(t *testing.T, spec json.RawMessage) string {
	t.Helper()
	var s tableSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		t.Fatal(err)
	}
	text := "key " + describeKey(s.Key)
	slices.SortFunc(s.Indexes, func(a, b indexSpec) int { return strings.Compare(a.Name, b.Name) })
	for _, i := range s.Indexes {
		text += fmt.Sprintf(", index %s %s %s", i.Name, describeKey(i.Key), i.Projection)
	}
	return text + ", ttl " + s.TTL
}

func describeKey(key []keyPart) string {
	var parts []string
	for _, k := range key {
		parts = append(parts, k.Attribute+":"+k.Type)
	}
	return strings.Join(parts, "+")
}

func recordedTable(r record) string {
	types := map[string]string{}
	for _, a := range r.blocks("attribute") {
		types[a.text("name")] = a.text("type")
	}
	key := func(of record) string {
		text := of.text("hash_key") + ":" + types[of.text("hash_key")]
		if name := of.text("range_key"); name != "" {
			text += "+" + name + ":" + types[name]
		}
		return text
	}
	text := "key " + key(r)
	indexes := r.blocks("global_secondary_index")
	slices.SortFunc(indexes, func(a, b record) int { return strings.Compare(a.text("name"), b.text("name")) })
	for _, i := range indexes {
		text += fmt.Sprintf(", index %s %s %s", i.text("name"), key(i), i.text("projection_type"))
	}
	text += ", ttl "
	for _, ttl := range r.blocks("ttl") {
		if ttl["enabled"] == true {
			text += ttl.text("attribute_name")
		}
	}
	return text
}

func describeQueue(t *testing.T, spec json.RawMessage) string {
	t.Helper()
	var s queueSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("visibility %d, retention %d, largest %d, encrypted %t, dead letters to %q after %d",
		s.Visibility, s.Retention, sqsMessageBytesMax, s.ManagedSSE, s.DLQ, s.Receives)
}

// recordedQueue leaves out the visibility that setup leaves to consumers.
func recordedQueue(t *testing.T, r record) string {
	t.Helper()
	var redrive struct {
		Target string `json:"deadLetterTargetArn"`
		Count  int    `json:"maxReceiveCount"`
	}
	if text := r.text("redrive_policy"); text != "" {
		if err := json.Unmarshal([]byte(text), &redrive); err != nil {
			t.Fatalf("redrive policy %s: %v", text, err)
		}
	}
	visibility := r.number("visibility_timeout_seconds")
	if name := r.text("name"); strings.HasSuffix(name, "-dlq") || redrive.Target != "" && !strings.HasSuffix(name, "-inbound") {
		visibility = 0
	}
	encrypted := r["sqs_managed_sse_enabled"] == true || r.text("kms_master_key_id") != ""
	return fmt.Sprintf("visibility %d, retention %d, largest %d, encrypted %t, dead letters to %q after %d",
		visibility, r.number("message_retention_seconds"), r.number("max_message_size"), encrypted, redrive.Target[strings.LastIndexByte(redrive.Target, ':')+1:], redrive.Count)
}
