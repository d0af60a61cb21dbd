package terraform_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	// motoReadyMax is how long moto may take to start, on a busy machine.
	motoReadyMax = time.Minute
	// motoAnswerMax is how long one answer may take.
	motoAnswerMax = 20 * time.Second
	// motoFree is how many calls moto lets pass before it looks at permissions: more than it takes to set up.
	// Then enforce ends that.
	motoFree = "100000"
	// motoAccount is the account that moto has.
	motoAccount = ":123456789012:"
)

// motoPython is the interpreter with moto's server.
var motoPython = sync.OnceValues(func() (string, error) { return loopback.Installed("moto") })

// moto is a server that enforces policies: for SQS by queue, for DynamoDB by action alone.
type moto struct {
	t   *testing.T
	url string
}

// user is whom moto knows by an access key.
type user struct {
	Key    string `xml:"CreateAccessKeyResult>AccessKey>AccessKeyId"`
	Secret string `xml:"CreateAccessKeyResult>AccessKey>SecretAccessKey"`
}

// root is whom moto asks nothing while it is set up.
var root = user{Key: "root", Secret: "root"}

func startMoto(t *testing.T) *moto {
	t.Helper()
	path, err := motoPython()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(harness.FreeAddr(t), ":")
	server := harness.Start(t, harness.Command{
		Path: path, Args: []string{"-m", "moto.server", "-H", host, "-p", port}, Env: []string{"INITIAL_NO_AUTH_ACTION_COUNT=" + motoFree},
	})
	m := &moto{t: t, url: "http://" + host + ":" + port}
	for deadline := time.Now().Add(motoReadyMax); ; time.Sleep(50 * time.Millisecond) {
		if response, err := http.Get(m.url + "/moto-api/data.json"); err == nil {
			_ = response.Body.Close()
			return m
		}
		if !server.Alive() || time.Now().After(deadline) {
			t.Fatalf("moto does not answer: %s", server.Stderr())
		}
	}
}

// send sends a signed request: to a service with a JSON protocol when there is a target, else a form.
func (m *moto) send(u user, service, target string, body []byte) (status int, answer []byte) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), motoAnswerMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/", bytes.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if target != "" {
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
		req.Header.Set("X-Amz-Target", target)
	}
	sum := sha256.Sum256(body)
	who := aws.Credentials{AccessKeyID: u.Key, SecretAccessKey: u.Secret}
	if err := v4.NewSigner().SignHTTP(ctx, who, req, hex.EncodeToString(sum[:]), service, "us-east-1", time.Now()); err != nil {
		m.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	answer, err = io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		m.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func (m *moto) must(service, target string, body []byte) []byte {
	m.t.Helper()
	status, answer := m.send(root, service, target, body)
	if status != http.StatusOK {
		m.t.Fatalf("moto: %s %s: %d %s", target, body, status, answer)
	}
	return answer
}

func (m *moto) iam(action string, arguments ...string) []byte {
	m.t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2010-05-08"}}
	for i := 0; i < len(arguments); i += 2 {
		form.Set(arguments[i], arguments[i+1])
	}
	return m.must("iam", "", []byte(form.Encode()))
}

// add makes a user with one policy.
func (m *moto) add(name, document string) (u user) {
	m.t.Helper()
	m.iam("CreateUser", "UserName", name)
	m.iam("PutUserPolicy", "UserName", name, "PolicyName", name, "PolicyDocument", document)
	if err := xml.Unmarshal(m.iam("CreateAccessKey", "UserName", name), &u); err != nil || u.Key == "" || u.Secret == "" {
		m.t.Fatalf("moto: access key of %s: %+v, %v", name, u, err)
	}
	return u
}

// enforce makes moto look at permissions from now on.
func (m *moto) enforce() {
	m.t.Helper()
	response, err := http.Post(m.url+"/moto-api/reset-auth", "text/plain", strings.NewReader("0"))
	if err != nil {
		m.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		m.t.Fatalf("moto: reset-auth: %s", response.Status)
	}
}

// denies reports whether a call is refused for want of permission; what else is wrong with it does not
// matter.
func (m *moto) denies(u user, s sample) bool {
	m.t.Helper()
	service := "dynamodb"
	body := s.body
	if strings.HasPrefix(s.target, "AmazonSQS.") {
		service, body = "sqs", impatient(m.t, body)
	}
	status, answer := m.send(u, service, s.target, body)
	denied := bytes.Contains(answer, []byte("AccessDenied"))
	if status == http.StatusForbidden && !denied {
		m.t.Fatalf("moto knows nobody with this key: %s", answer)
	}
	return denied
}

// impatient takes the wait out of a receive.
func impatient(t *testing.T, body []byte) []byte {
	t.Helper()
	var in map[string]any
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatal(err)
	}
	if _, waits := in["WaitTimeSeconds"]; waits {
		in["WaitTimeSeconds"] = 0
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// withoutURL are the calls of SQS that name their queue otherwise than by its URL.
var withoutURL = []string{"sqs:GetQueueUrl", "sqs:CreateQueue", "sqs:StartMessageMoveTask", "sqs:ListMessageMoveTasks"}

// forMoto is a policy as moto understands it: calls by their own names, in the account that it has. The
// evaluator of this package decides what it cannot tell (the table of a call, the queue of one that names no
// URL, and conditions).
func forMoto(t *testing.T, p policy) string {
	t.Helper()
	type plain struct {
		Effect   string
		Action   []string
		Resource []string
	}
	var out struct {
		Version   string
		Statement []plain
	}
	out.Version = p.Version
	for _, s := range p.Statement {
		for _, action := range s.Action {
			st := plain{Effect: s.Effect, Action: []string{action}, Resource: s.Resource}
			switch {
			case strings.HasPrefix(action, "dynamodb:"):
				st.Action, st.Resource = []string{motoAction(action)}, []string{"*"}
			case slices.Contains(withoutURL, action):
				st.Resource = []string{"*"}
			case action == "sqs:SendMessage" || action == "sqs:DeleteMessage" || action == "sqs:ChangeMessageVisibility":
				st.Action = append(st.Action, action+"Batch")
			}
			out.Statement = append(out.Statement, st)
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), ":000000000000:", motoAccount)
}

// motoAction is moto's name for an action of DynamoDB: it knows no statements.
func motoAction(action string) string {
	if strings.HasPrefix(action, "dynamodb:PartiQL") {
		return "dynamodb:BatchExecuteStatement"
	}
	return action
}

// expected is moto's answer to a call, if it and this package's evaluator are of one mind.
func expected(p policy, c call) bool {
	if strings.HasPrefix(c.action, "dynamodb:") {
		return slices.ContainsFunc(p.grants(), func(g call) bool { return motoAction(g.action) == motoAction(c.action) })
	}
	if slices.Contains(withoutURL, c.action) {
		return slices.ContainsFunc(p.grants(), func(g call) bool { return g.action == c.action })
	}
	return allows([]policy{p}, c, nil)
}

// enforced has each role, under its own access key, make every call that any of them made, and some that none
// may: moto lets through what the policy of the role is for, and refuses everything else.
func (n *installation) enforced(t *testing.T, policies map[string]policy) {
	t.Helper()
	m := startMoto(t)
	samples := map[call]sample{}
	for _, r := range n.recorded {
		for _, c := range r.all(t) {
			samples[c] = r.of(c)
		}
	}
	queues := map[string]bool{}
	for c := range samples {
		if name, ok := strings.CutPrefix(c.resource, arnQueue); ok && !queues[name] {
			queues[name] = true
			m.must("sqs", "AmazonSQS.CreateQueue", fmt.Appendf(nil, `{"QueueName": %q}`, name))
		}
	}
	users := map[string]user{}
	for role, p := range policies {
		users[role] = m.add(role, forMoto(t, p))
	}
	m.enforce()

	for name := range queues {
		for _, operation := range []string{"PurgeQueue", "DeleteQueue"} {
			samples[call{"sqs:" + operation, arnQueue + name}] = sample{
				target: "AmazonSQS." + operation, body: fmt.Appendf(nil, `{"QueueUrl": "%s%s%s"}`, m.url, "/123456789012/", name),
			}
		}
	}
	samples[call{"dynamodb:DeleteTable", arnTable + n.prefix + "-tasks"}] = sample{
		target: "DynamoDB_20120810.DeleteTable", body: fmt.Appendf(nil, `{"TableName": "%s-tasks"}`, n.prefix),
	}
	allowed, denied := map[string]int{}, map[string]int{}
	for _, role := range slices.Sorted(maps.Keys(users)) {
		for c, s := range samples {
			want := expected(policies[role], c)
			if got := !m.denies(users[role], s); got != want {
				t.Errorf("moto lets %s %s on %s: %t, want %t", role, c.action, n.short(c.resource), got, want)
			}
			if want {
				allowed[role]++
			} else {
				denied[role]++
			}
		}
		if allowed[role] == 0 || denied[role] == 0 {
			t.Errorf("%s: %d calls allowed and %d denied: want some of both", role, allowed[role], denied[role])
		}
	}
	t.Logf("allowed %v, denied %v", allowed, denied)
	n.boundaries(m, users, samples)
}

// boundaries are calls that a role must not make, by name: what the policies say, too, would else be wrong
// without a word.
func (n *installation) boundaries(m *moto, users map[string]user, samples map[call]sample) {
	m.t.Helper()
	for _, refused := range []struct {
		role string
		call call
	}{
		{"inbound", call{"sqs:ReceiveMessage", "work-high"}},
		{"scheduler", call{"sqs:ReceiveMessage", "inbound"}},
		{"scheduler", call{"sqs:SendMessage", "inbound"}},
		{"hsc", call{"dynamodb:Scan", "tasks"}},
		{"hsc", call{"sqs:ReceiveMessage", "inbound"}},
		{"registrar", call{"dynamodb:Query", "control"}},
		{"worker", call{"sqs:ReceiveMessage", "work-high"}},
		{"sender", call{"sqs:ReceiveMessage", "inbound"}},
	} {
		role, c := refused.role, refused.call
		arn := arnQueue
		if strings.HasPrefix(c.action, "dynamodb:") {
			arn = arnTable
		}
		s, recorded := samples[call{c.action, arn + n.prefix + "-" + c.resource}]
		if !recorded {
			m.t.Errorf("nobody called %s on %s", c.action, c.resource)
		} else if !m.denies(users[role], s) {
			m.t.Errorf("moto lets %s %s on %s", role, c.action, c.resource)
		}
	}
}
