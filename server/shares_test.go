package server

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// What an installation stores a bounded number of: when one identity has as much as it may have, another one may
// still make some, who has admin on all lambdas too, and whoever wants to cancel.
func TestEachIdentityHasAShare(t *testing.T) {
	tokens := map[string]string{}
	var identities, grants strings.Builder
	for _, who := range []string{"a", "b", "root"} {
		tokens[who] = who + strings.Repeat("0", 40)
		fmt.Fprintf(&identities, "  - {name: %s, token_sha256: %x}\n", who, sha256.Sum256([]byte(tokens[who])))
		allow := `"*:*"`
		if who != "root" {
			allow = fmt.Sprintf(`"schedule:%[1]s-*", "read:%[1]s-*", "cancel:%[1]s-*", "operate:%[1]s-*", "admin:%[1]s-*"`, who)
		}
		fmt.Fprintf(&grants, "  - {identity: %s, allow: [%s]}\n", who, allow)
	}
	policy := writeFile(t, filepath.Join(t.TempDir(), "policy.yaml"), "identities:\n"+identities.String()+"grants:\n"+grants.String())
	r := serve(t, Config{PolicyFile: policy, LambdasMax: 20})
	transport := r.http.Transport
	call := func(who, method, body string) (int, string) {
		t.Helper()
		r.http.Transport = bearer{tokens[who], transport}
		status, answer := r.post(method, body)
		text, _ := answer["message"].(string)
		return status, text
	}
	for _, who := range []string{"a", "b"} {
		if status, text := call(who, "LambdaService/CreateLambda", `{"name":"`+who+`-x"}`); status != http.StatusOK {
			t.Fatal(status, text)
		}
		if status, text := call(who, "TaskService/Schedule", `{"items":[`+strings.Repeat(`{"lambda":"`+who+`-x","delay":"1h"},`, 499)+`{"lambda":"`+who+`-x","delay":"1h"}]}`); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	job := func(who string, _ int) (string, string) {
		return "JobService/CreateJob", fmt.Sprintf(`{"action":"reschedule","by":"1s","where":"lambda = \"%s-x\"","pace":1}`, who)
	}
	for what, c := range map[string]struct {
		least, most int
		says        string
		one         func(who string, i int) (method, body string)
	}{
		"jobs": {30, 50, "there may be 100", job},
		"lambdas": {6, 9, "serve --lambdas-max", func(who string, i int) (string, string) {
			return "LambdaService/CreateLambda", fmt.Sprintf(`{"name":"%s-%d"}`, who, i)
		}},
		"gates": {300, 500, "there may be 1000 gates", func(who string, i int) (string, string) {
			return "GateService/SetGate", fmt.Sprintf(`{"lambda":"%s-x","action":"pause","reason":"r","tag":"t=%d"}`, who, i)
		}},
	} {
		made := 0
		for {
			method, body := c.one("a", made)
			status, text := call("a", method, body)
			if status != http.StatusOK {
				if status != http.StatusTooManyRequests || !strings.Contains(text, c.says) || !strings.Contains(text, "as many as are left for others") {
					t.Errorf("%s: %d %s", what, status, text)
				}
				break
			}
			made++
		}
		if made < c.least || made > c.most {
			t.Errorf("%s: a made %d", what, made)
		}
		for _, who := range []string{"b", "root"} {
			method, body := c.one(strings.Replace(who, "root", "a", 1), 5000)
			if status, text := call(who, method, body); status != http.StatusOK {
				t.Errorf("%s: %s is refused: %d %s", what, who, status, text)
			}
		}
		if value, found := r.metric(fmt.Sprintf("kinesin_room_refused_total{room=%q}", what)); !found || value == "0" {
			t.Errorf("%s: %s refused in the metrics", what, value)
		}
	}
	method, body := job("a", 0)
	if status, text := call("a", method, body); status == http.StatusOK {
		t.Error("one more job is taken:", text)
	}
	if status, text := call("a", "JobService/CreateJob", `{"action":"cancel","where":"lambda = \"a-x\"","pace":1}`); status != http.StatusOK {
		t.Errorf("a job that cancels is refused: %d %s", status, text)
	}
}
