package terraform_test

import (
	"strings"
	"testing"
)

const (
	guardCore = `
provider "aws" {}

variable "prefix" {
  type = string
}

module "core" {
  source = "../modules/core"

  prefix              = var.prefix
  deletion_protection = false
  alarms              = false
}
`
	guardLambda = `
provider "aws" {}

variable "prefix" {
  type = string
}

variable "name" {
  default = "work"
}

variable "mode" {
  default = "managed"
}

variable "priorities" {
  type    = list(string)
  default = ["high", "low"]
}

variable "shards" {
  default = 2
}

variable "max_attempts" {
  default = 5
}

module "work" {
  source = "../modules/lambda"

  core = {
    prefix            = var.prefix
    control_table     = "${var.prefix}-control"
    inbound_queue_arn = "arn:aws:sqs:us-east-1:000000000000:${var.prefix}-inbound"
  }
  name       = var.name
  mode       = var.mode
  priorities = var.priorities
  shards     = var.shards

  max_attempts = var.mode == "managed" ? var.max_attempts : null
}
`
)

// TestGuard changes what of a lambda is fixed, and takes its name a second time: refused, and the lambda is
// as it was.
func TestGuard(t *testing.T) {
	w := newWorkspace(t, "")
	w.in("core", guardCore)
	w.apply()
	core := w.dir
	w.in("first", guardLambda)
	w.apply()
	first, made := w.dir, len(w.recorded("aws_sqs_queue"))

	for change, want := range map[string]string{
		"name=other":          "a lambda keeps its name: put it back",
		"mode=deliver":        "these are fixed: put them back",
		`priorities=["high"]`: "these are fixed: put them back",
		"shards=1":            "shards only grow: want as many, or more",
	} {
		if got := w.run("plan", "-var", change); got.Code != 1 || !strings.Contains(said(got), want) {
			t.Errorf("with %s: exit status %d, want 1 and %q: %s", change, got.Code, want, said(got))
		}
		if got := w.run("apply", "-auto-approve", "-var", change); got.Code != 1 || strings.Contains(got.Stdout, "Destroying...") {
			t.Errorf("apply with %s: exit status %d: %s", change, got.Code, said(got))
		}
	}
	w.unchanged()
	for _, more := range []string{"shards=8", "shards=4"} { // what lies between the first and the newest is for servers to refuse
		if got := w.must("apply", "-auto-approve", "-var", more); strings.Contains(got, "Destroying...") {
			t.Errorf("apply with %s: %s", more, got)
		}
	}
	w.apply()
	if got := w.must("plan", "-var", "max_attempts=7"); !strings.Contains(got, "max_attempts = 5 -> 7") {
		t.Errorf("the plan does not say what changes: %s", got)
	}

	w.in("second", guardLambda)
	got := w.run("apply", "-auto-approve", "-var", `priorities=["high"]`)
	if got.Code != 1 || !strings.Contains(said(got), "ConditionalCheckFailedException") || strings.Contains(said(got), "Creation complete") {
		t.Errorf("a name that is taken: exit status %d: %s", got.Code, said(got))
	}
	w.holdsNothing()
	w.apply("-var", `priorities=["high"]`, "-var", "name=other")
	w.unchanged("-var", `priorities=["high"]`, "-var", "name=other")
	w.must("destroy", "-auto-approve", "-var", `priorities=["high"]`, "-var", "name=other")
	if left := len(w.recorded("aws_sqs_queue")); left != made {
		t.Errorf("%d queues after another state was destroyed, want %d", left, made)
	}
	w.dir = first
	w.unchanged()
	w.must("destroy", "-auto-approve")
	w.dir = core
	w.must("destroy", "-auto-approve")
	w.gone()
}

// holdsNothing fails the test when there is a resource in the state.
func (w *workspace) holdsNothing() {
	w.t.Helper()
	for line := range strings.Lines(w.must("state", "list")) {
		if !strings.Contains(line, "data.") {
			w.t.Errorf("in the state is %s", line)
		}
	}
}

// TestGuardOfCore changes the prefix and the region of an installation, and takes its prefix a second time:
// refused, and the installation is as it was.
func TestGuardOfCore(t *testing.T) {
	w := newWorkspace(t, "")
	w.in("first", guardCore)
	w.apply()
	first, made := w.dir, len(w.recorded("aws_sqs_queue"))
	for _, args := range [][]string{{"plan"}, {"apply", "-auto-approve"}} {
		got := w.run(append(args, "-var", "prefix="+w.prefix+"2")...)
		if got.Code != 1 || !strings.Contains(said(got), "another prefix is another installation") || strings.Contains(got.Stdout, "Destroying...") {
			t.Errorf("%v with another prefix: exit status %d: %s", args, got.Code, said(got))
		}
	}
	w.write("main.tf", strings.Replace(guardCore, `"aws" {}`, `"aws" { region = "eu-west-1" }`, 1))
	if got := w.run("plan", "-refresh=false"); got.Code != 1 || !strings.Contains(said(got), "in the region us-east-1, and the provider is for eu-west-1") {
		t.Errorf("another region: exit status %d: %s", got.Code, said(got))
	}
	w.write("main.tf", guardCore)
	w.unchanged()

	other := w.aws.Prefix(t)
	w.in("second", guardCore)
	if got := w.run("apply", "-auto-approve"); got.Code != 1 || !strings.Contains(said(got), "ResourceInUseException") {
		t.Errorf("a prefix that is taken: exit status %d: %s", got.Code, said(got))
	}
	w.holdsNothing()
	w.apply("-var", "prefix="+other)
	w.must("destroy", "-auto-approve", "-var", "prefix="+other)
	if left := len(w.recorded("aws_sqs_queue")); left != made {
		t.Errorf("%d queues after another state was destroyed, want %d", left, made)
	}
	w.dir = first
	w.unchanged()
	w.must("destroy", "-auto-approve")
	w.gone()
}

// TestQueueOfTwo has two states with lambdas that differ in name and share a queue's, which nothing refuses,
// and goes the way out of docs/reference/terraform.md: the first one has its queue in the end.
func TestQueueOfTwo(t *testing.T) {
	w := newWorkspace(t, "")
	w.in("core", guardCore)
	w.apply()
	core := w.dir
	w.env = append(w.env, "TF_VAR_name=work-eu", `TF_VAR_priorities=["high"]`)
	w.in("first", guardLambda)
	w.apply()
	first := w.dir

	w.in("second", guardLambda)
	w.apply("-var", "name=work", "-var", `priorities=["eu-high"]`)
	w.must("state", "rm", `module.work.aws_sqs_queue.priority["eu-high"]`, `module.work.aws_sqs_queue_policy.priority["eu-high"]`)
	w.write("main.tf", "provider \"aws\" {}\n")
	w.apply()
	w.holdsNothing()

	w.dir = first
	if got := w.apply(); !strings.Contains(got, " 0 destroyed") || strings.Contains(got, "aws_sqs_queue.priority[\"high\"]: Creating...") {
		t.Errorf("the first one lost its queue: %s", got)
	}
	w.unchanged()
	w.must("destroy", "-auto-approve")
	w.dir = core
	w.must("destroy", "-auto-approve")
	w.gone()
}
