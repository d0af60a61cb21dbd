package terraform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// queuePolicy is the policy of a queue, as far as the modules write such.
type queuePolicy struct {
	Version   string
	Statement []queueStatement
}

type queueStatement struct {
	Sid       string
	Effect    string
	Principal principals
	Action    texts
	Resource  texts
	Condition map[string]map[string]texts
}

// principals are whom a statement is about: everybody is "*".
type principals struct{ AWS texts }

func (p *principals) UnmarshalJSON(data []byte) error {
	if string(data) == `"*"` {
		p.AWS = texts{"*"}
		return nil
	}
	type plain principals
	return json.Unmarshal(data, (*plain)(p))
}

// caller is who makes a call: the ARN of a role, or a service of AWS. The policies of a role allow it
// everything here, as those of an administrator, so that only the queue can refuse it.
type caller struct {
	arn     string
	service bool
	plain   bool // without TLS
}

const ownAccount = "000000000000"

// lets is what SQS answers: a Deny counts first, and who is of another account, or a service, needs an Allow.
func (p *queuePolicy) lets(c caller, action, resource string) (bool, error) {
	account := ""
	if !c.service {
		account = strings.Split(c.arn, ":")[4]
	}
	allowed := account == ownAccount
	for i := range p.Statement {
		s := &p.Statement[i]
		matches, err := s.matches(c, account, action, resource)
		switch {
		case err != nil:
			return false, fmt.Errorf("statement %s: %w", s.Sid, err)
		case matches && s.Effect == "Deny":
			return false, nil
		case matches:
			allowed = true
		}
	}
	return allowed, nil
}

func (s *queueStatement) matches(c caller, account, action, resource string) (bool, error) {
	who := func(pattern string) bool {
		return pattern == "*" || pattern == c.arn || account != "" && strings.HasSuffix(pattern, "::"+account+":root")
	}
	what := func(pattern string) bool { return like(pattern, action) }
	if !slices.ContainsFunc(s.Principal.AWS, who) || !slices.ContainsFunc(s.Action, what) || !slices.Contains(s.Resource, resource) {
		return false, nil
	}
	for operator, conditions := range s.Condition {
		for key, values := range conditions {
			var holds bool
			switch operator + " " + key {
			case "Bool aws:SecureTransport":
				holds = values[0] == fmt.Sprint(!c.plain)
			case "Bool aws:PrincipalIsAWSService":
				holds = values[0] == fmt.Sprint(c.service)
			case "ArnNotLike aws:PrincipalArn":
				holds = !slices.ContainsFunc(values, func(pattern string) bool { return like(pattern, c.arn) })
			default:
				return false, fmt.Errorf("a condition %s of %s is not known here", operator, key)
			}
			if !holds {
				return false, nil
			}
		}
	}
	return true, nil
}

const queueConfig = `
provider "aws" {}

variable "prefix" {
  type = string
}

module "core" {
  source = "../modules/core"

  prefix              = var.prefix
  deletion_protection = false
  alarms              = false
  iam_policies        = false
  sender_principals   = ["arn:aws:iam::000000000000:role/shop", "arn:aws:iam::444455556666:root"]
  operator_principals = ["arn:aws:iam::000000000000:role/oncall"]
}

module "work" {
  source = "../modules/lambda"

  core       = module.core.lambdas
  name       = "work"
  priorities = ["one"]
  alarms     = false
}

module "send" {
  source = "../modules/lambda"

  core                = module.core.lambdas
  name                = "send"
  mode                = "deliver"
  priorities          = ["one"]
  alarms              = false
  sender_principals   = ["arn:aws:iam::000000000000:role/till"]
  consumer_principals = ["arn:aws:iam::555566667777:role/billing"]
}
`

// TestQueuePolicies asks each queue who may send to it and who may receive from it. All ask with rights for
// everything, so that what refuses is the queue.
func TestQueuePolicies(t *testing.T) {
	w := newWorkspace(t, "")
	w.in("queues", queueConfig)
	w.apply()
	policies := w.queuePolicies()
	role := func(name string) caller { return caller{arn: "arn:aws:iam::" + ownAccount + ":role/" + name} }
	callers := map[string]caller{
		"server":         role(w.prefix + "-servers"),
		"server, path":   role("kinesin/" + w.prefix + "-servers"),
		"another role":   role("x" + w.prefix + "-servers"),
		"administrator":  role("admin"),
		"shop":           role("shop"),
		"till":           role("till"),
		"on call":        role("oncall"),
		"vendor":         {arn: "arn:aws:iam::444455556666:role/any"},
		"vendor as ours": {arn: "arn:aws:iam::444455556666:role/" + w.prefix + "-servers"},
		"consumer":       {arn: "arn:aws:iam::555566667777:role/billing"},
		"service":        {service: true},
		"without TLS":    {arn: role(w.prefix + "-servers").arn, plain: true},
	}
	servers := []string{"server", "server, path"}
	everyOwn := []string{"administrator", "another role", "on call", "server", "server, path", "shop", "till"}
	for queue, want := range map[string]struct{ send, receive []string }{
		"inbound":      {send: append([]string{"on call", "shop", "vendor", "vendor as ours"}, servers...), receive: append([]string{"on call"}, servers...)},
		"inbound-dlq":  {send: []string{"on call"}, receive: []string{"on call"}},
		"work-one":     {send: append([]string{"on call"}, servers...), receive: append([]string{"on call"}, servers...)},
		"send-one":     {send: append([]string{"on call", "till"}, servers...), receive: append([]string{"consumer"}, everyOwn...)},
		"send-one-dlq": {send: []string{"on call"}, receive: everyOwn},
	} {
		arn := arnQueue + w.prefix + "-" + queue
		p, found := policies[arn]
		if !found {
			t.Errorf("%s has no policy, among %v", queue, slices.Sorted(maps.Keys(policies)))
			continue
		}
		for action, may := range map[string][]string{
			"sqs:SendMessage": want.send, "sqs:ReceiveMessage": want.receive, "sqs:DeleteMessage": want.receive, "sqs:ChangeMessageVisibility": want.receive,
		} {
			for name, c := range callers {
				got, err := p.lets(c, action, arn)
				if err != nil {
					t.Fatalf("%s: %v", queue, err)
				}
				if got != slices.Contains(may, name) {
					t.Errorf("%s lets %s %s: %t", queue, name, action, got)
				}
			}
		}
		// The policy never locks out those who may change it.
		if got, err := p.lets(callers["administrator"], "sqs:SetQueueAttributes", arn); err != nil || !got {
			t.Errorf("%s can never be opened again: %v", queue, err)
		}
	}
	if len(policies) != 5 {
		t.Errorf("policies of %v", slices.Sorted(maps.Keys(policies)))
	}
	w.must("destroy", "-auto-approve")
}

// queuePolicies are those in the state, by the queue that they are about.
func (w *workspace) queuePolicies() map[string]queuePolicy {
	w.t.Helper()
	var state struct {
		Values struct {
			RootModule struct {
				ChildModules []struct {
					Resources []struct {
						Type   string
						Values struct{ Policy string }
					}
				} `json:"child_modules"`
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal([]byte(w.must("show", "-json")), &state); err != nil {
		w.t.Fatal(err)
	}
	policies := map[string]queuePolicy{}
	for _, module := range state.Values.RootModule.ChildModules {
		for _, r := range module.Resources {
			if r.Type != "aws_sqs_queue_policy" {
				continue
			}
			var p queuePolicy
			if err := json.Unmarshal([]byte(r.Values.Policy), &p); err != nil || len(p.Statement) == 0 || len(p.Statement[0].Resource) != 1 {
				w.t.Fatalf("%v: %s", err, r.Values.Policy)
			}
			policies[p.Statement[0].Resource[0]] = p
		}
	}
	return policies
}
