package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// A group from its creation to its end, without a worker: its members are cancelled.
func TestAGroupFromCreateToItsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "greet")
	s.must("lambda", "create", "report")
	created := s.doWith(`[{"lambda":"report","payload":{"n": 7},"delay":"1h","tags":{"a":"b"}}]`, "group", "create", "--then", "-", "--expires-in", "2d")
	created.check(t, "create", 0)
	id := strings.TrimSpace(created.stdout)
	s.doWith(`{"lambda":"nope"}`, "group", "create", "--then", "-").check(t, "unknown lambda", 1, `then[0]: unknown lambda "nope"`)
	s.doWith(`{"lambda":"report","then":[{"lambda":"nope"}]}`, "group", "create", "--then", "-").check(t, "unknown lambda that follows", 1, `then[0]: then[0]: unknown lambda "nope"`)
	s.doWith(`{"lambda":"report","then":[{"lambda":"greet","delay":"1h"}]}`, "group", "create", "--then", "-").check(t, "chain", 0)
	for text, want := range map[string]string{
		`{}`: `then[0]: the task has no field "lambda"`, `{"lambda":"a","dealy":"1s"}`: `unknown field "dealy"`, `[{"lambda":"a"},{}]`: `then[1]: the task has no field "lambda"`,
		`{"lambda":"a","delay":"soon"}`: `then[0]: delay: "soon"`, `{"lambda":"a","payload":1,"payload_text":"x"}`: "want one of payload", `x`: "the file is not JSON",
		`{"lambda":"a","then":[{"lambda":"b"},{"else":[{}]}]}`: `then[0].then[1].else[0]: the task has no field "lambda"`,
		`{"lambda":"a"} {}`: "not JSON, at byte 16", `{"lambda":"a","delay":"1s","due":"2030-01-01T00:00:00Z"}`: "want due or delay, not both",
	} {
		s.doWith(text, "group", "create", "--then", "-").check(t, text, 2, want)
	}
	ids := strings.Fields(s.must("group", "add", id, "--lambda", "greet", "--payload", "Ada", "--in", "1h"))
	batch := s.doWith("{\"payload_text\":\"Bob\",\"delay\":\"1h\"}\n\n{\"lambda\":\"greet\",\"delay\":\"1h\"}\n", "group", "add", id, "--lambda", "greet", "--batch", "-", "--offset", "1", "-o", "json")
	batch.check(t, "batch", 0)
	for i, line := range strings.Split(strings.TrimSpace(batch.stdout), "\n") {
		var one struct {
			ID    string
			Index int
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Index != i+1 {
			t.Fatalf("%q: %v", line, err)
		}
		ids = append(ids, one.ID)
	}
	followed := s.doWith(`{"then":[{"lambda":"report"}],"else":[{"lambda":"greet"}]}`, "group", "add", id, "--lambda", "greet", "--in", "1h", "--then", "-")
	followed.check(t, "a member that is followed", 0)
	if got := s.must("chain", "get", strings.TrimSpace(followed.stdout)); !strings.Contains(got, "then  report  planned") || !strings.Contains(got, "else  greet  planned") {
		t.Error(got)
	}
	ids = append(ids, strings.TrimSpace(followed.stdout))
	s.doWith("{\"delay\":\"1h\"}\n{\"key\":\"k\"}\n", "group", "add", id, "--lambda", "greet", "--batch", "-").check(t, "key", 1, `line 2: "key" is not for members`)
	s.doWith("", "group", "add", id, "--lambda", "greet", "--offset", "9").check(t, "offset", 1, "has 4 members: the next are added at 4, not at 9")
	s.doWith("", "group", "seal", id, "--members", "5").check(t, "other number", 1, "has 4 members, not 5")
	s.doWith("", "group", "seal", id, "--members", "0").check(t, "none", 1, "has 4 members, not 0")
	if got := s.must("group", "seal", id, "--members", "4"); got != "sealed with 4 members" {
		t.Errorf("%q", got)
	}
	s.doWith("", "group", "add", id, "--lambda", "greet").check(t, "sealed", 1, "is sealed with 4 members: it gets no more")
	if got := s.must("group", "get", id); !strings.Contains(got, "scheduled 4") || !strings.Contains(got, "sealed") {
		t.Errorf("%q", got)
	}
	s.must(append([]string{"cancel"}, ids...)...)
	var shown struct {
		State    string
		Members  int
		Counts   map[string]int
		FollowUp string `json:"follow_up"`
	}
	for shown.State != "done" {
		if err := json.Unmarshal([]byte(s.must("group", "get", id, "-o", "json")), &shown); err != nil {
			t.Fatal(err)
		}
	}
	if shown.Members != 4 || shown.Counts["cancelled"] != 4 {
		t.Errorf("%+v", shown)
	}
	if got := s.must("get", shown.FollowUp, "--payload"); !strings.Contains(got, `{"n":7}`) || !strings.Contains(got, "report") {
		t.Errorf("%q", got)
	}
	if got := s.must("group", "members", id); strings.Count(got, "cancelled") != 4 {
		t.Errorf("%q", got)
	}
	s.doWith("", "group", "get", "x").check(t, "unknown", 1, "there is no group")
}
