package terraform_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// policy is an IAM policy document, as far as the modules write such.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid       string
	Effect    string
	Action    texts
	Resource  texts
	Condition map[string]map[string]texts
}

// texts is one text or a list of them.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// parsePolicy refuses what this evaluator does not know, rather than leaving it out.
func parsePolicy(document string) (p policy, err error) {
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields() // NotAction, Principal
	if err := decoder.Decode(&p); err != nil {
		return p, err
	}
	if p.Version != "2012-10-17" || len(p.Statement) == 0 {
		return p, fmt.Errorf("version %q with %d statements", p.Version, len(p.Statement))
	}
	sids := map[string]bool{}
	for _, s := range p.Statement {
		if s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action) == 0 || len(s.Resource) == 0 || sids[s.Sid] {
			return p, fmt.Errorf("statement %q: effect %q, %d actions, %d resources", s.Sid, s.Effect, len(s.Action), len(s.Resource))
		}
		sids[s.Sid] = true
		for operator, conditions := range s.Condition {
			if !slices.Contains([]string{"StringEquals", "ForAllValues:StringEquals", "ForAllValues:StringNotEquals", "Null"}, operator) {
				return p, fmt.Errorf("statement %q: condition %s is not known here", s.Sid, operator)
			}
			if len(conditions) == 0 {
				return p, fmt.Errorf("statement %q: condition %s of nothing", s.Sid, operator)
			}
			for key, values := range conditions {
				if strings.HasPrefix(operator, "ForAllValues:") && !slices.Equal(s.Condition["Null"][key], texts{"false"}) {
					return p, fmt.Errorf("statement %q: %s of %s holds without that key: want Null of it to be false", s.Sid, operator, key)
				}
				if operator == "Null" && !slices.Equal(values, texts{"true"}) && !slices.Equal(values, texts{"false"}) {
					return p, fmt.Errorf("statement %q: Null of %s is %v", s.Sid, key, values)
				}
			}
		}
	}
	return p, nil
}

// allows is IAM's answer when these policies are all that a role has: something allows it, and nothing denies
// it. The context holds what conditions may look at.
func allows(policies []policy, c call, context map[string][]string) bool {
	allowed := false
	for _, p := range policies {
		for i := range p.Statement {
			s := &p.Statement[i]
			if !s.covers(c) || !s.holds(context) {
				continue
			}
			if s.Effect == "Deny" {
				return false
			}
			allowed = true
		}
	}
	return allowed
}

func (s *statement) covers(c call) bool {
	action := func(pattern string) bool { return like(strings.ToLower(pattern), strings.ToLower(c.action)) }
	resource := func(pattern string) bool { return like(pattern, c.resource) }
	return slices.ContainsFunc(s.Action, action) && slices.ContainsFunc(s.Resource, resource)
}

// holds reports whether every condition does. An operator ForAllValues holds when there is nothing to look
// at, too.
func (s *statement) holds(context map[string][]string) bool {
	for operator, conditions := range s.Condition {
		for key, allowed := range conditions {
			values := context[key]
			if operator == "Null" {
				if (len(values) == 0) != (allowed[0] == "true") {
					return false
				}
				continue
			}
			if len(values) == 0 && !strings.HasPrefix(operator, "ForAllValues:") {
				return false
			}
			for _, value := range values {
				if slices.Contains(allowed, value) == strings.HasSuffix(operator, ":StringNotEquals") {
					return false
				}
			}
		}
	}
	return true
}

// like matches a text with a pattern in which * stands for any characters and ? for one.
func like(pattern, text string) bool {
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '*':
			for skip := 0; skip <= len(text)-i; skip++ {
				if like(pattern[i+1:], text[i+skip:]) {
					return true
				}
			}
			return false
		case i >= len(text), pattern[i] != '?' && pattern[i] != text[i]:
			return false
		}
	}
	return len(pattern) == len(text)
}

// grants are all that a policy allows, action by action and resource by resource.
func (p *policy) grants() (all []call) {
	for _, s := range p.Statement {
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				if s.Effect == "Allow" {
					all = append(all, call{action, resource})
				}
			}
		}
	}
	return all
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	const document = `{"Version": "2012-10-17", "Statement": [
		{"Sid": "a", "Effect": "Allow", "Action": ["sqs:Send*", "sqs:GetQueueUrl"], "Resource": "arn:q-*"},
		{"Sid": "b", "Effect": "Allow", "Action": "kms:Decrypt", "Resource": ["k1", "k2"], "Condition": {"StringEquals": {"kms:ViaService": "sqs"}}},
		{"Sid": "c", "Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": "t", "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["x", "y"]}, "Null": {"dynamodb:LeadingKeys": "false"}}},
		{"Sid": "e", "Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": "u", "Condition": {"ForAllValues:StringNotEquals": {"dynamodb:LeadingKeys": ["x", "y"]}, "Null": {"dynamodb:LeadingKeys": "false"}}},
		{"Sid": "d", "Effect": "Deny", "Action": "*", "Resource": "arn:q-secret?"}]}`
	p, err := parsePolicy(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		call    call
		context map[string][]string
		want    bool
	}{
		{call{"sqs:SendMessage", "arn:q-a"}, nil, true},
		{call{"SQS:getqueueurl", "arn:q-"}, nil, true},
		{call{"sqs:SendMessage", "arn:Q-a"}, nil, false},
		{call{"sqs:ReceiveMessage", "arn:q-a"}, nil, false},
		{call{"sqs:SendMessage", "arn:q-secret1"}, nil, false},
		{call{"sqs:SendMessage", "arn:q-secret12"}, nil, true},
		{call{"kms:Decrypt", "k2"}, map[string][]string{"kms:ViaService": {"sqs"}}, true},
		{call{"kms:Decrypt", "k2"}, map[string][]string{"kms:ViaService": {"s3"}}, false},
		{call{"kms:Decrypt", "k2"}, nil, false},
		{call{"kms:Decrypt", "k3"}, map[string][]string{"kms:ViaService": {"sqs"}}, false},
		{call{"dynamodb:PutItem", "t"}, map[string][]string{"dynamodb:LeadingKeys": {"x", "y"}}, true},
		{call{"dynamodb:PutItem", "t"}, map[string][]string{"dynamodb:LeadingKeys": {"x", "z"}}, false},
		{call{"dynamodb:PutItem", "t"}, nil, false},
		{call{"dynamodb:PutItem", "u"}, map[string][]string{"dynamodb:LeadingKeys": {"v", "w"}}, true},
		{call{"dynamodb:PutItem", "u"}, map[string][]string{"dynamodb:LeadingKeys": {"v", "y"}}, false},
		{call{"dynamodb:PutItem", "u"}, map[string][]string{"dynamodb:LeadingKeys": {"x"}}, false},
		{call{"dynamodb:PutItem", "u"}, nil, false},
	} {
		if got := allows([]policy{p}, c.call, c.context); got != c.want {
			t.Errorf("%v with %v: %v", c.call, c.context, got)
		}
	}
	if got := p.grants(); len(got) != 6 {
		t.Errorf("grants %v", got)
	}
	for _, bad := range []string{
		`{"Version": "2012-10-17", "Statement": []}`,
		strings.Replace(document, `"Action": "*"`, `"NotAction": "*"`, 1),
		strings.Replace(document, "ForAllValues:StringEquals", "ArnLike", 1),
		strings.Replace(document, "ForAllValues:StringNotEquals", "StringNotEquals", 1),
		strings.Replace(document, `, "Null": {"dynamodb:LeadingKeys": "false"}`, "", 1),
		strings.Replace(document, `"Null": {"dynamodb:LeadingKeys": "false"}`, `"Null": {"dynamodb:LeadingKeys": "true"}`, 1),
		strings.Replace(document, `"Null": {"dynamodb:LeadingKeys"`, `"Null": {"dynamodb:Attributes"`, 1),
		strings.Replace(document, `"Sid": "d"`, `"Sid": "a"`, 1),
		strings.Replace(document, "2012-10-17", "2008-10-17", 1),
		strings.Replace(document, `"Effect": "Deny"`, `"Effect": "deny"`, 1),
	} {
		if _, err := parsePolicy(bad); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}
