package terraform_test

import (
	"strings"
	"testing"
)

const keyConfig = `
provider "aws" {}

variable "prefix" {
  type = string
}

variable "key" {
  type    = string
  default = null
}

variable "others" {
  type    = list(string)
  default = []
}

module "core" {
  source = "../modules/core"

  prefix              = var.prefix
  kms_key_arn         = var.key
  other_kms_key_arns  = var.others
  deletion_protection = false
  alarms              = false
}

module "send" {
  source = "../modules/lambda"

  core       = module.core.lambdas
  name       = "send"
  mode       = "deliver"
  priorities = ["normal"]
  alarms     = false
}
`

// TestKeyChanges goes from one key to another and then to none, as the README of the module core says it:
// whatever tables and queues are under, or were until now, everybody may use.
func TestKeyChanges(t *testing.T) {
	const first, second = "arn:aws:kms:us-east-1:000000000000:key/first", "arn:aws:kms:us-east-1:000000000000:key/second"
	w := newWorkspace(t, "")
	w.in("keys", keyConfig)
	for _, step := range []struct {
		key    string
		others []string
	}{
		{first, nil},
		{first, []string{second}},
		{second, []string{first}},
		{second, nil},
		{"", []string{second}},
		{"", nil},
	} {
		var args []string
		usable := step.others
		if step.key != "" {
			args, usable = append(args, "-var", "key="+step.key), append([]string{step.key}, step.others...)
		}
		if len(step.others) > 0 {
			args = append(args, "-var", `others=["`+strings.Join(step.others, `", "`)+`"]`)
		}
		w.apply(args...)
		underKey(t, w, step.key)
		w.mayUse(usable, first, second)
		w.unchanged(args...)
	}
	w.must("destroy", "-auto-approve")
	w.gone()
}

// mayUse looks that all who have a policy may use these of the keys, and no other of them.
func (w *workspace) mayUse(usable []string, keys ...string) {
	w.t.Helper()
	applied := w.appliedPolicies()
	services := map[string][]string{
		"inbound": {"dynamodb", "sqs"}, "scheduler": {"dynamodb", "sqs"}, "hsc": {"dynamodb", "sqs"}, "registrar": {"dynamodb"},
		"send-sender": {"sqs"}, "send-worker": {"sqs"},
	}
	for name, through := range services {
		for _, service := range through {
			context := map[string][]string{"kms:ViaService": {service + ".us-east-1.amazonaws.com"}}
			for _, key := range keys {
				want := strings.Contains(strings.Join(usable, " "), key)
				if got := allows([]policy{applied[name]}, call{"kms:Decrypt", key}, context); got != want {
					w.t.Errorf("with %q, %s may use %s through %s: %t, want %t", usable, name, key, service, got, want)
				}
			}
		}
	}
}
