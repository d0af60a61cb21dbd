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
}
`
)

// TestGuard changes what of a lambda is fixed, and takes its name a second time: refused, and the lambda is as it was.
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
		"shards=3":            "these are fixed: put them back",
	} {
		if got := w.run("plan", "-var", change); got.Code != 1 || !strings.Contains(said(got), want) {
			t.Errorf("with %s: exit status %d, want 1 and %q: %s", change, got.Code, want, said(got))
		}
		if got := w.run("apply", "-auto-approve", "-var", change); got.Code != 1 || strings.Contains(got.Stdout, "Destroying...") {
			t.Errorf("apply with %s: exit status %d: %s", change, got.Code, said(got))
		}
	}
	w.unchanged()

	w.in("second", guardLambda)
	got := w.run("apply", "-auto-approve", "-var", `priorities=["high"]`)
	if got.Code != 1 || !strings.Contains(said(got), "ConditionalCheckFailedException") || strings.Contains(got.Stdout, "aws_sqs_queue.priority[\"high\"]: Creating...") {
		t.Errorf("a name that is taken: exit status %d: %s", got.Code, said(got))
	}
	w.must("destroy", "-auto-approve", "-var", `priorities=["high"]`)
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
