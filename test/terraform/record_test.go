package terraform_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/awslocal"
)

// call is something that IAM is asked about: sqs:SendMessage on arn:aws:sqs:….
type call struct{ action, resource string }

// sample is one request of a kind: what was sent, and the keys that rows were asked for by, of all requests
// of this kind.
type sample struct {
	target string // X-Amz-Target
	body   []byte
	keys   map[string]bool
}

// context is what conditions see of all requests of this kind.
func (s sample) context() map[string][]string {
	return map[string][]string{"dynamodb:LeadingKeys": slices.Collect(maps.Keys(s.keys))}
}

// recording stands before both emulators and writes down what passes.
type recording struct {
	awslocal.Endpoints

	mu     sync.Mutex // guards all below
	calls  map[call]*sample
	unread []string        // requests that it could make nothing of
	losing map[string]bool // tables: the answer to the next write to it is lost
	broken map[string]bool // tables whose rows cannot be read
}

// recordCalls starts a recording until the test is over.
func recordCalls(t *testing.T, before awslocal.Endpoints) *recording {
	t.Helper()
	r := &recording{calls: map[call]*sample{}, losing: map[string]bool{}, broken: map[string]bool{}}
	proxies := map[string]*httputil.ReverseProxy{}
	for service, at := range map[string]string{"DynamoDB_20120810": before.DynamoDB, "AmazonSQS": before.SQS} {
		to, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		proxies[service] = &httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
			// Whoever was stopped goes without a word.
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		target := req.Header.Get("X-Amz-Target")
		service, _, _ := strings.Cut(target, ".")
		proxy := proxies[service]
		if proxy == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		done, answered := r.add(target, body)
		if done && answered {
			proxy.ServeHTTP(w, req)
			return
		}
		if done {
			proxy.ServeHTTP(httptest.NewRecorder(), req)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	r.Endpoints = awslocal.Endpoints{DynamoDB: server.URL, SQS: server.URL}
	return r
}

// wanted is what a request may name.
type wanted struct {
	TableName    string
	IndexName    string
	Key          map[string]map[string]any
	Item         map[string]map[string]any
	RequestItems map[string]json.RawMessage
	Statements   []statementText
	QueueURL     string `json:"QueueUrl"`
	QueueName    string
	SourceArn    string // of moves
}

// statementText is a statement of a batch, with the values of its question marks.
type statementText struct {
	Statement  string
	Parameters []map[string]any
}

// leadingKey is the key that IAM looks at, or "": the value of the question mark behind the hash key's name.
func (s *statementText) leadingKey() string {
	m := statementOf.FindStringSubmatch(s.Statement)
	if m == nil {
		return ""
	}
	name := hashKeyOf(m[2])
	for _, form := range []string{"'" + name + "':?", " " + name + "=?"} { // of INSERT, of WHERE
		// The last one: what a statement SETs comes before.
		at := strings.LastIndex(s.Statement, form)
		if before := strings.Count(s.Statement[:max(at, 0)], "?"); at >= 0 && before < len(s.Parameters) {
			key, _ := s.Parameters[before]["S"].(string)
			return key
		}
	}
	return ""
}

// lose makes the answer to the next write to a table be lost: whether it was done is then to be found out.
func (r *recording) lose(table string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losing[table] = true
}

// fail makes reads of a table's rows fail, until heal.
func (r *recording) fail(table string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken[table] = true
}

func (r *recording) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.broken)
}

// has reports whether an action was called.
func (r *recording) has(action string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.calls {
		if c.action == action {
			return true
		}
	}
	return false
}

// fate is whether calls are to be done, and answered.
func (r *recording) fate(calls []call) (done, answered bool) {
	for _, c := range calls {
		_, table, _ := strings.Cut(c.resource, ":table/")
		table = table[strings.LastIndexByte(table, '-')+1:]
		switch strings.TrimPrefix(c.action, "dynamodb:") {
		case "GetItem", "BatchGetItem":
			if r.broken[table] {
				return false, false
			}
		case "PutItem", "DeleteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete":
			if r.losing[table] {
				delete(r.losing, table)
				return true, false
			}
		}
	}
	return true, true
}

// add writes a request down and says whether it is to be done, and answered.
func (r *recording) add(target string, body []byte) (done, answered bool) {
	var in wanted
	service, operation, found := strings.Cut(target, ".")
	calls := []call{}
	if found && json.Unmarshal(body, &in) == nil {
		calls = asked(service, operation, &in)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(calls) == 0 {
		r.unread = append(r.unread, target+" "+string(body))
		return true, true
	}
	for i, c := range calls {
		s := r.calls[c]
		if s == nil {
			s = &sample{target: target, body: body, keys: map[string]bool{}}
			r.calls[c] = s
		}
		for _, row := range []map[string]map[string]any{in.Key, in.Item} {
			if key, ok := row[hashKeyOf(in.TableName)]["S"].(string); ok {
				s.keys[key] = true
			}
		}
		if len(in.Statements) > 0 {
			key := in.Statements[i].leadingKey() // asked has a call for each
			if key == "" {
				r.unread = append(r.unread, target+" "+string(body))
			}
			s.keys[key] = true
		}
	}
	return r.fate(calls)
}

// hashKeys are the attributes that IAM means by dynamodb:LeadingKeys.
var hashKeys = map[string]string{"schedule": "p", "tasks": "i", "payloads": "i", "control": "c"}

func hashKeyOf(table string) string { return hashKeys[table[strings.LastIndexByte(table, '-')+1:]] }

// All resources are in one account, as the emulators have it.
const (
	arnTable = "arn:aws:dynamodb:us-east-1:000000000000:table/"
	arnQueue = "arn:aws:sqs:us-east-1:000000000000:"
)

// statementOf finds the verb of a PartiQL statement, its table and its index.
var statementOf = regexp.MustCompile(`(?i)^\s*(INSERT INTO|UPDATE|DELETE FROM|SELECT .*? FROM)\s+"([^"]+)"(?:\."([^"]+)")?`)

var statementActions = map[string]string{"INSERT": "PartiQLInsert", "UPDATE": "PartiQLUpdate", "DELETE": "PartiQLDelete", "SELECT": "PartiQLSelect"}

// asked are the actions that IAM looks up for a request: it knows statements by their verbs and no batches of
// SQS.
func asked(service, operation string, in *wanted) (calls []call) {
	switch {
	case service == "AmazonSQS":
		name := cmp.Or(in.QueueName, in.QueueURL[strings.LastIndexByte(in.QueueURL, '/')+1:], in.SourceArn[strings.LastIndexByte(in.SourceArn, ':')+1:])
		if name == "" {
			return nil
		}
		return []call{{"sqs:" + strings.TrimSuffix(operation, "Batch"), arnQueue + name}}
	case len(in.Statements) > 0:
		for _, s := range in.Statements {
			m := statementOf.FindStringSubmatch(s.Statement)
			if m == nil {
				return nil
			}
			verb, _, _ := strings.Cut(strings.ToUpper(m[1]), " ")
			resource := arnTable + m[2]
			if m[3] != "" {
				resource += "/index/" + m[3]
			}
			calls = append(calls, call{"dynamodb:" + statementActions[verb], resource})
		}
		return calls
	case len(in.RequestItems) > 0:
		for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
			calls = append(calls, call{"dynamodb:" + operation, arnTable + table})
		}
		return calls
	case in.TableName == "":
		return nil
	case in.IndexName != "":
		return []call{{"dynamodb:" + operation, arnTable + in.TableName + "/index/" + in.IndexName}}
	}
	return []call{{"dynamodb:" + operation, arnTable + in.TableName}}
}

// all are the calls so far, in order.
func (r *recording) all(t *testing.T) []call {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.unread {
		t.Errorf("a request that IAM cannot be asked about: %.300s", text)
	}
	return slices.SortedFunc(maps.Keys(r.calls), func(a, b call) int {
		return cmp.Or(strings.Compare(a.action, b.action), strings.Compare(a.resource, b.resource))
	})
}

// of is what was sent for a call, and the keys it was sent for.
func (r *recording) of(c call) sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.calls[c]
}
