package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/task"
)

// What each operation makes of requests and answers is in test/golden.

// sendTo calls a handler with METHOD PATH BODY.
func sendTo(t *testing.T, h http.Handler, request string) *httptest.ResponseRecorder {
	t.Helper()
	parts := append(strings.SplitN(request, " ", 3), "")
	r := httptest.NewRequestWithContext(t.Context(), parts[0], parts[1], strings.NewReader(parts[2]))
	if parts[2] != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What has no place in a file that people read.
func TestBodiesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		request string
		status  int
		says    string
	}{
		{"POST /v1/lambdas/mail/tasks {\"key\":\"\xff\"}", 400, `key: byte \\xff is no UTF-8`},
		{`POST /v1/lambdas/mail/tasks {"payload_text":"` + strings.Repeat("x", 8<<20) + `"}`, 413, `more than 8388608 bytes`},
		{
			"POST /v1/lambdas/mail/tasks {\"then\":[" + strings.Repeat(`{"lambda":"m","then":[`, 99) + `{"lambda":"m"}` + strings.Repeat("]}", 100),
			400, `(100 steps down): it is task 101 of a row: at most 100 tasks`,
		},
	} {
		if w := sendTo(t, New(Services{}, api.Hooks{}), c.request); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%.80s: %d %s, want %d %s", c.request, w.Code, w.Body, c.status, c.says)
		}
	}
}

// keys serves tasks by any key.
type keys struct {
	kinesinv1connect.UnimplementedTaskServiceHandler

	asked string
}

func (k *keys) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	k.asked = r.GetKeys()[0].GetKey()
	return &kinesinv1.GetResponse{Results: []*kinesinv1.GetResult{{Task: &kinesinv1.Task{Id: "k1"}}}}, nil
}

// A key in a path may have any bytes.
func TestAKeyOfAnyBytes(t *testing.T) {
	k := &keys{}
	if w := sendTo(t, New(Services{Tasks: k}, api.Hooks{}), "GET /v1/lambdas/mail/keys/a%2Fb%20%ff%2e%2E"); w.Code != http.StatusOK || k.asked != "a/b \xff.." {
		t.Errorf("%d; asked for %q", w.Code, k.asked)
	}
}

// A condition in the header that differs from the one in the query is refused, and so is one where no task is changed.
func TestConditionsThatAreRefused(t *testing.T) {
	for target, says := range map[string]string{
		"/v1/tasks/k1?if_seq=8": "if_seq is given twice: 8 and 7",
		"/v1/crons/nightly":     "If-Match is for calls that change one task",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, target, http.NoBody)
		r.Header.Set("If-Match", `"7"`)
		w := httptest.NewRecorder()
		New(Services{}, api.Hooks{}).ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// Without a service the server says that it cannot.
func TestWithoutServices(t *testing.T) {
	h := New(Services{}, api.Hooks{})
	for _, path := range []string{"/v1/lambdas", "/v1/jobs", "/v1/stats"} {
		if w := sendTo(t, h, "GET "+path); w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "serve --roles") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

type failing struct {
	kinesinv1connect.UnimplementedLambdaServiceHandler
}

func (failing) ListLambdas(context.Context, *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	panic("a secret")
}

func (failing) GetLambda(context.Context, *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	return nil, errors.New("a secret")
}

// Of an internal error, such as a panic, the hook gets the cause and the caller nothing.
func TestInternalErrors(t *testing.T) {
	for _, path := range []string{"/v1/lambdas", "/v1/lambdas/mail"} {
		var told error
		h := New(Services{Lambdas: failing{}}, api.Hooks{Internal: func(_ context.Context, _ string, err error) { told = err }})
		w := sendTo(t, h, "GET "+path)
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || told == nil || !strings.Contains(told.Error(), "a secret") {
			t.Errorf("%s: %d %s; the hook got %v", path, w.Code, w.Body, told)
		}
	}
}

// The document names each route once, and every operation has another name.
func TestTheDocumentNamesAllRoutes(t *testing.T) {
	h := New(Services{}, api.Hooks{})
	w := sendTo(t, h, "GET "+documentPath)
	ids := regexp.MustCompile(`"operationId":"(\w+)"`).FindAllStringSubmatch(w.Body.String(), -1)
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id[1]] = true
	}
	want := len(routes(Services{}.withDefaults())) + 1 // and the reports of targets
	if w.Code != http.StatusOK || len(seen) != want || len(ids) != want {
		t.Errorf("%d: %d operations with %d names, want %d", w.Code, len(ids), len(seen), want)
	}
	if again := sendTo(t, New(Services{}, api.Hooks{}), "GET "+documentPath); again.Body.String() != w.Body.String() {
		t.Error("another document the second time")
	}
}

// Every procedure has a route, or says why it has none.
func TestEveryProcedureIsServed(t *testing.T) {
	const (
		byHand   = "its route has a form of its own"
		oneWorld = "an operator's, who has the command line and the SDK for it"
		stream   = "a stream"
	)
	without := map[protoreflect.Name]string{
		"Schedule": byHand, "Get": byHand, "Wait": byHand, "Cancel": byHand, "Reschedule": byHand, "Update": byHand, "Redrive": byHand,
		"AddMembers": byHand,
		"Work":       stream,
	}
	served := map[protoreflect.MessageDescriptor]bool{}
	for _, r := range routes(Services{}.withDefaults()) {
		if r.input != nil {
			served[r.input] = true
		}
	}
	for _, service := range api.Services() {
		isOfOperators := slices.Contains([]protoreflect.Name{"AccessService", "BackupService", "InboundService", "KeyringService"}, service.Name())
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			why := without[m.Name()]
			delete(without, m.Name())
			if isOfOperators {
				why = oneWorld
			}
			if served[m.Input()] == (why != "") {
				t.Errorf("%s: served is %t, and it has none because it is %q", m.FullName(), served[m.Input()], why)
			}
		}
	}
	for name := range without {
		t.Errorf("there is no procedure %s", name)
	}
}

// Generated types have the words of answers from it, which are those that the server uses.
func TestTheDocumentHasTheWordsOfAnswers(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]struct {
					Words []string `json:"x-extensible-enum"`
				}
			}
		}
	}
	if err := json.Unmarshal(sendTo(t, New(Services{}, api.Hooks{}), "GET "+documentPath).Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	states := []string{task.Accepted.String()}
	var ends []string
	for _, s := range task.States() {
		if states = append(states, s.String()); s.IsEnd() {
			ends = append(ends, s.String())
		}
	}
	var outcomes []string
	for o := task.OutcomeSuccess; !strings.HasPrefix(o.String(), "outcome("); o++ {
		outcomes = append(outcomes, o.String())
	}
	for field, want := range map[string][]string{"Task.state": states, "ScheduleResult.state": states, "Parent.state": ends, "Attempt.outcome": outcomes} {
		message, name, _ := strings.Cut(field, ".")
		if have := document.Components.Schemas[message].Properties[name].Words; !slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s may be %q, want %q", field, have, want)
		}
	}
	if have := document.Components.Schemas["Problem"].Properties["reason"].Words; !slices.Contains(have, "key_conflict") || slices.Contains(have, "unspecified") {
		t.Errorf("reasons: %q", have)
	}
	for _, message := range []string{"Task", "Claimed"} {
		if have := document.Components.Schemas[message].Required; !slices.Contains(have, "id") || !slices.Contains(have, "lambda") {
			t.Errorf("a %s has %q", message, have)
		}
	}
}
