package cli

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// FuzzBatchLine holds the short way of reading a line against the long one.
func FuzzBatchLine(f *testing.F) {
	for _, line := range []string{
		`{"lambda":"a","in":"3d","payload":"x"}`, ` { "lambda" : "a" , "key":"k" } `, `{}`, `{"lambda":"a",}`, `{"lambda":"a"}x`,
		`{"lambda":"a","lambda":"b"}`, `{"lambda":"\u0061"}`, `{"payload":{"a":[1]},"lambda":"a"}`, `{"payload":null}`, `{"in":1}`,
		`{"lambda" "a"}`, `{"at":"2027-01-01T00:00:00Z","priority":"p","collection":"c","traceparent":"t"}`, "{\"key\":\"\x01\"}", "{\"key\":\"\xff\"}", `{"Lambda":"a"}`,
		`{"lambda":"a","start_before":"2027-01-01T00:00:00Z","max_attempts":3,"tags":{"a":"b"}}`, `{"timeout":"5s","backoff":"1s..2s"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var short, long batchLine
		if !short.scan(text) {
			return
		}
		if err := decodeLine(text, &long); err != nil || !reflect.DeepEqual(short, long) {
			t.Errorf("%q: %s, decoded %s, %v", text, show(short), show(long), err)
		}
	})
}

func show(l batchLine) string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%q %q %q %q %q %q %q %q %q", l.Lambda, text(l.In), text(l.At), l.Priority, l.Collection, l.Key, l.LimitKey, l.Traceparent, l.Payload)
}

func TestSettingsInABatchLine(t *testing.T) {
	t.Parallel()
	line := `{"lambda":"a","on_conflict":"replace","start_before":"2100-01-01T00:00:00Z","max_attempts":3,"timeout":"5s","backoff":"1s..2m","tags":{"tenant":"acme"}}`
	got, err := parseLine(&rawLine{text: []byte(line)}, "")
	want := sdk.Item{
		Lambda: "a", OnConflict: sdk.ConflictReplace, StartBefore: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), MaxAttempts: 3, Timeout: 5 * time.Second,
		BackoffMin: time.Second, BackoffMax: 2 * time.Minute, Tags: map[string]string{"tenant": "acme"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for line, says := range map[string]string{
		`{"max_attempts":"3"}`:       `"max_attempts": want a whole number, have a JSON string`,
		`{"max_attempts":0}`:         `"max_attempts": 0 is out of range: want 1 to 1000`,
		`{"timeout":"0s"}`:           `"timeout": 0 is out of range`,
		`{"max_attempts":1001}`:      `"max_attempts": 1001 is out of range: want 1 to 1000`,
		`{"tags":["a"]}`:             `"tags": want an object of strings, have a JSON array`,
		`{"start_before":"tonight"}`: `"start_before": "tonight" is no time`,
		`{"timeout":"5"}`:            `"timeout": "5" is no duration`,
		`{"backoff":"5s"}`:           `"backoff": "5s" is not a range`,
		`{"tag":"a=b"}`:              `unknown field "tag": want lambda, in, at, start_before`,
	} {
		if _, err := parseLine(&rawLine{text: []byte(line)}, "a"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
}
