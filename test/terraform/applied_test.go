package terraform_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// policyBytesMax is what IAM takes of a managed policy, white space apart.
const policyBytesMax = 6144

// appliedPolicies are the IAM policies that were made, by their names without the prefix.
func (w *workspace) appliedPolicies() map[string]policy {
	w.t.Helper()
	all := map[string]policy{}
	for name, r := range w.recorded("aws_iam_policy") {
		p, err := parsePolicy(r.text("policy"))
		if err != nil {
			w.t.Errorf("policy %s: %v", name, err)
		}
		if n := len(r.text("policy")); n > policyBytesMax {
			w.t.Errorf("policy %s has %d characters, IAM takes %d", name, n, policyBytesMax)
		}
		all[strings.TrimPrefix(name, w.prefix+"-")] = p
	}
	return all
}

// allInOne replays what a server with all roles called against the policies of all roles.
func (w *workspace) allInOne(r *recording) {
	w.t.Helper()
	var policies []policy
	applied := w.appliedPolicies()
	for role := range serverRoles {
		policies = append(policies, applied[role])
	}
	calls := r.all(w.t)
	for _, c := range calls {
		if !allows(policies, c, r.of(c).context()) {
			w.t.Errorf("a server with all roles called %s on %s, which no policy allows", c.action, c.resource)
		}
	}
	if len(calls) == 0 {
		w.t.Error("the server called nothing")
	}
	for _, p := range policies {
		for _, g := range p.grants() {
			if g.action == "sqs:CreateQueue" || strings.HasPrefix(g.action, "kms:") {
				w.t.Errorf("%s on %s is allowed, which nobody asked for", g.action, g.resource)
			}
		}
	}
}

// keyActions are what policies allow of a KMS key of the customer's, by the service that uses it for the
// role, and why. No call of Kinesin's shows them: the services make them. They are those that AWS documents.
var keyActions = map[string]string{
	"sqs kms:Decrypt":              "to receive from an encrypted queue, and to send to it: SQS checks the data key then",
	"sqs kms:GenerateDataKey":      "to send to an encrypted queue",
	"dynamodb kms:Decrypt":         "to read and write a table under the key",
	"dynamodb kms:DescribeKey":     "DynamoDB looks whether the key is usable",
	"dynamodb kms:Encrypt":         "to write a table under the key",
	"dynamodb kms:GenerateDataKey": "to write a table under the key",
	"dynamodb kms:ReEncrypt":       "when the table's data key is renewed",
}

// keyUsers are who may use the key for what.
var keyUsers = map[string][]string{
	"inbound": {"dynamodb", "sqs"}, "scheduler": {"dynamodb", "sqs"}, "hsc": {"dynamodb", "sqs"}, "registrar": {"dynamodb"},
	"invoices-sender": {"sqs"}, "receipts-sender": {"sqs"}, "reports-sender": {"sqs"}, "invoices-worker": {"sqs"},
}

// usesOfKey holds the policies to that: every use is through a service, of this key alone, and has a reason.
func (w *workspace) usesOfKey(key string) {
	w.t.Helper()
	applied := w.appliedPolicies()
	for name, p := range applied {
		services := map[string]bool{}
		for i := range p.Statement {
			w.usesOfKeyIn(name, &p.Statement[i], key, services)
		}
		for service := range services {
			if !slices.Contains(keyUsers[name], service) {
				w.t.Errorf("%s may use the key through %s", name, service)
			}
		}
		for _, service := range keyUsers[name] {
			if !services[service] {
				w.t.Errorf("%s may not use the key through %s", name, service)
			}
		}
	}
	through := map[string][]string{"kms:ViaService": {"sqs.us-east-1.amazonaws.com"}}
	decrypt := call{"kms:Decrypt", key}
	generate := call{"kms:GenerateDataKey", key}
	for _, c := range []struct {
		who     string
		call    call
		context map[string][]string
		want    bool
	}{
		{"hsc", decrypt, through, true},
		{"hsc", generate, through, true},
		{"hsc", decrypt, map[string][]string{"kms:ViaService": {"dynamodb.us-east-1.amazonaws.com"}}, true},
		{"hsc", decrypt, map[string][]string{"kms:ViaService": {"s3.us-east-1.amazonaws.com"}}, false},
		{"hsc", decrypt, nil, false},
		{"hsc", call{"kms:Decrypt", key + "0"}, through, false},
		{"invoices-worker", decrypt, through, true},
		{"invoices-worker", generate, through, false},
		{"receipts-sender", generate, through, true},
	} {
		if got := allows([]policy{applied[c.who]}, c.call, c.context); got != c.want {
			w.t.Errorf("%s, %s on %s with %v: %t, want %t", c.who, c.call.action, c.call.resource, c.context, got, c.want)
		}
	}
}

func (w *workspace) usesOfKeyIn(name string, s *statement, key string, services map[string]bool) {
	w.t.Helper()
	for _, action := range s.Action {
		if !strings.HasPrefix(action, "kms:") {
			continue
		}
		via := s.Condition["StringEquals"]["kms:ViaService"]
		if len(via) != 1 || !slices.Equal(s.Resource, texts{key}) {
			w.t.Errorf("%s: %s through %v on %v: want one service, and the key %s alone", name, action, via, s.Resource, key)
			continue
		}
		service, _, _ := strings.Cut(via[0], ".")
		services[service] = true
		if entry := service + " " + strings.TrimSuffix(action, "*"); keyActions[entry] == "" {
			w.t.Errorf("%s: %q has no reason in keyActions", name, entry)
		}
	}
}

// underKey looks that every table and queue is under the key; "" is none.
func underKey(t *testing.T, w *workspace, key string) {
	t.Helper()
	for name, r := range w.recorded("aws_sqs_queue") {
		if r.text("kms_master_key_id") != key {
			t.Errorf("queue %s is under the key %q", name, r.text("kms_master_key_id"))
		}
	}
	for name, r := range w.recorded("aws_dynamodb_table") {
		if blocks := r.blocks("server_side_encryption"); len(blocks) != 1 || blocks[0]["enabled"] != (key != "") || blocks[0].text("kms_key_arn") != key {
			t.Errorf("table %s has the encryption %s", name, fmt.Sprint(blocks))
		}
	}
}
