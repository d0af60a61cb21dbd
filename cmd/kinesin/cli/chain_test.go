package cli_test

import (
	"strings"
	"testing"
)

// A chain is scheduled, shown, paused, resumed and cancelled, and its tasks say where in it they are.
func TestAChainFromScheduleToItsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "charge")
	s.must("lambda", "create", "ship")
	s.must("lambda", "create", "refund")
	scheduled := s.doWith(`{"then":[{"lambda":"ship","delay":"1h"}],"else":[{"lambda":"refund"}]}`,
		"schedule", "charge", "--in", "1h", "--then", "-")
	scheduled.check(t, "schedule", 0)
	id := strings.TrimSpace(scheduled.stdout)
	s.doWith(`[{"lambda":"nope"}]`, "schedule", "charge", "--then", "-").check(t, "unknown", 1, `then[0]`, `unknown lambda "nope"`)
	shown := s.object("chain", "get", id)
	root, _ := shown["root"].(map[string]any)
	followups, _ := root["followups"].([]any)
	if shown["state"] != "live" || root["id"] != id || len(followups) != 2 {
		t.Errorf("%v", shown)
	}
	s.must("chain", "pause", id)
	if s.object("chain", "get", id)["state"] != "paused" {
		t.Error("not paused")
	}
	s.do("chain", "cancel", id).check(t, "cancel", 0, "the chain is paused: what else and finally lead to starts when it is resumed (kinesin chain resume "+id+")")
	s.do("wait", id).check(t, "wait", 1)
	if got := s.must("chain", "get", id); !strings.Contains(got, "waits: the chain is paused") {
		t.Error(got)
	}
	s.must("chain", "resume", id)
	if got := s.must("chain", "get", id); strings.Contains(got, "the chain is paused") || !strings.Contains(got, "else  refund") {
		t.Error(got)
	}
	if o := s.do("chain", "cancel", id); o.code != 0 || strings.Contains(o.stderr, "paused") || !strings.Contains(o.stderr, "not cancelled, since else or finally leads to them: 1;") {
		t.Errorf("a chain that is not paused: %+v", o)
	}
	for _, want := range []string{"digraph", "refund"} {
		if got := s.must("chain", "get", id, "-o", "dot"); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	first := s.object("get", id)
	if link, _ := first["chain"].(map[string]any); link["root"] != id || link["followups"] != 2.0 || first["state"] != "cancelled" {
		t.Errorf("%v", first)
	}
	s.must("redrive", id)
	for form, want := range map[string]string{
		"text": "refund  enqueued  (from before a redrive)", "json": `"before_redrive":true`, "dot": `refund\nenqueued (from before a redrive)`, "mermaid": "refund<br/>enqueued (from before a redrive)",
	} {
		if got := s.must("chain", "get", id, "-o", form); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// Follow-ups have the JSON of plain HTTP, for schedule, its batches and groups alike. An error says where it
// is.
func TestWhatFollowsIsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"charge", "ship", "tell"} {
		s.must("lambda", "create", name)
	}
	const follows = `{"then":[{"lambda":"ship","delay":"2h","payload":{"a": 1},"limit_key":"c","tags":{"x":"y"},"timeout":"3s","backoff_min":"1s","backoff_max":"2s",` +
		`"max_attempts":3,"finally":[{"lambda":"tell","key":"k","payload_text":"t"}]}],"else":[{"lambda":"tell","payload_base64":"AAE="}]}`
	id := strings.TrimSpace(s.doWith(follows, "schedule", "charge", "--then", "-").stdout)
	line := s.doWith(`{"lambda":"charge",`+follows[1:], "schedule", "--batch", "-")
	line.check(t, "batch", 0)
	for _, one := range []string{id, strings.TrimSpace(line.stdout)} {
		if got, want := s.must("chain", "get", one, "-o", "json"), `"lambda":"ship","state":"planned","edge":"then","delay":"2h","attempt":0,"paused":false,"followups":[{"lambda":"tell","state":"planned","edge":"finally",`; !strings.Contains(strings.Join(strings.Fields(got), ""), want) {
			t.Errorf("%s", got)
		}
	}
	for text, want := range map[string]string{
		`{"lambda":"ship"}`: "", `[]`: "",
		`{"then":[{"lambda":"ship","else":[{"lambda":"tell"},{"lambda":"tell","dealy":"1h"}]}]}`: `then[0].else[1]: unknown field "dealy" in the task; allowed here: backoff_max, backoff_min, blob, collection, delay`,
		`[{"lambda":"ship","payload":1,"payload_text":"t"}]`:                                     "then[0]: the same in two forms: want one of payload",
		`[{"lambda":"ship","delay":"1h","due":"2030-01-01T00:00:00Z"}]`:                          `then[0]: want due or delay, not both`,
		`[{"lambda":"ship","then":{"lambda":"tell"}}]`:                                           "then[0]: then: {",
		`[{"lambda":"ship","then":[{"delay":"1h"}]}]`:                                            `then[0].then[0]: the task has no field "lambda", which it needs`,
		`[{"lambda":"ship","delay":"-1h"}]`:                                                      `then[0]: delay: "-1h" is below zero: want a duration as text`,
		`[` + strings.Repeat(`{"lambda":"ship"},`, 10_000) + `{"lambda":"ship"}]`:                "then: more than 10000 elements",
		`[{"lambda":"ship","max_attempts":"x"}]`:                                                 `then[0]: max_attempts: "x" is not a whole number from 1`,
		`{"follow":[]}`:                                                                          `then[0]: unknown field "follow" in the task`, `[{"lambda":`: "the file is not JSON, at byte", `3`: "then[0]: the task: 3 is no JSON object", `{"then":[],"next":[]}`: `unknown field "next" in the file; allowed here: else, finally, then`, `[{"lambda":"ship","request_id":"00"}]`: "request_id and blob are those of the client",
	} {
		exit := 2
		if want == "" {
			exit = 0
		}
		s.doWith(text, "schedule", "charge", "--then", "-").check(t, text, exit, want)
	}
}
