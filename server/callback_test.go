package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// accepted is a receiver that answers 202, and gives the tokens of its calls to whom asks.
func accepted(t *testing.T) (url string, tokens chan string) {
	t.Helper()
	tokens = make(chan string, 100)
	return receiver(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		tokens <- r.Header.Get("kinesin-callback-token")
	}).URL, tokens
}

// report does what a receiver does.
func (r *running) report(token, body string) (int, map[string]any) {
	r.t.Helper()
	response, err := r.http.Post(r.url+"/v1/attempts/"+token, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func TestLongWorkBehindATarget(t *testing.T) {
	t.Parallel()
	url, tokens := accepted(t)
	r := serve(t, Config{TargetsAllow: loopback})
	r.target("mail", url, 0)
	want := func(token, body string, status int) map[string]any {
		t.Helper()
		got, answer := r.report(token, body)
		if got != status {
			t.Errorf("%s: %d %v, want %d", body, got, answer, status)
		}
		return answer
	}
	id := r.now("mail", "x")[0]
	token := <-tokens
	if want(token, `{"outcome":"running"}`, 200)["cancel"] != false {
		t.Error("it is to be cancelled")
	}
	r.wantMetric("kinesin_target_attempts_open", "1")
	want(token, `{"outcome":"success","result":{"n":7}}`, 200)
	if got := r.ends(id, "success"); string(got.Result) != `{"n":7}` || len(got.Attempts) != 1 {
		t.Errorf("%v", got)
	}
	r.until("the slot is free", func() bool { v, _ := r.metric("kinesin_target_attempts_open"); return v == "0" })
	want(token, `{"outcome":"success","result":{"n":8}}`, 200) // as the answer to the first may be lost
	want(token, `{"outcome":"fatal_failure"}`, 409)
	want(token, `{"outcome":"running"}`, 409)

	id = r.now("mail", "y")[0]
	token = <-tokens
	want(token, `{"outcome":"retriable_failure","error":"not yet"}`, 200)
	again := <-tokens
	want(token, `{"outcome":"success"}`, 409) // the second attempt has the task
	want(again, `{"outcome":"fatal_failure","error":"never"}`, 200)
	if got := r.ends(id, "fatal_failure"); len(got.Attempts) != 2 || got.Attempts[0].Error != "not yet" || got.Attempts[1].Error != "never" {
		t.Errorf("%v", got)
	}

	forged := "A" + token[1:]
	if forged == token {
		forged = "B" + token[1:]
	}
	for _, bad := range []string{"", "{}", `{"outcome":"done"}`, `{"outcome":"success","output":1}`, `{"outcome":"success"}{}`} {
		want(token, bad, 400)
	}
	want(forged, `{"outcome":"success"}`, 403)
	want(token[:40], `{"outcome":"success"}`, 403)
	want("x", `{}`, 403)
	want(again, `{"outcome":"great"}`, 400)
	want(again, `nonsense`, 400)
	want(again, `{"outcome":"success","result":"`+strings.Repeat("x", callbackBytesMax)+`"}`, 413)
	if text := r.logs.String(); strings.Contains(text, token) || strings.Contains(text, again) {
		t.Error("a token is in the log")
	}
}

// A token does what its receiver may do where nobody else may do anything without one.
func TestAReportNeedsNoOtherToken(t *testing.T) {
	t.Parallel()
	r := serve(t, Config{TargetsAllow: loopback, AuthTokenFile: tokenFile(t, goodToken)})
	if status, _ := r.report("x", `{"outcome":"success"}`); status != http.StatusForbidden {
		t.Error(status)
	}
	response, err := r.http.Get(r.url + "/v1/attempts/x")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != http.MethodPost {
		t.Error(response.StatusCode, response.Header)
	}
}
