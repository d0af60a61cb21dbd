package cli

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

func TestSettingsInABatchLine(t *testing.T) {
	t.Parallel()
	line := `{"lambda":"a","on_conflict":"replace","start_before":"2100-01-01T00:00:00Z","max_attempts":3,"timeout":"5s","backoff_min":"1s","backoff_max":"2m",` +
		`"tags":{"tenant":"acme"},"payload":"Ada","then":[{"lambda":"b","delay":"1h","payload_text":"Ada"}]}`
	got, err := parseLine(&rawLine{text: []byte(line)}, "")
	want := sdk.Item{
		Lambda: "a", OnConflict: sdk.ConflictReplace, StartBefore: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), MaxAttempts: 3, Timeout: 5 * time.Second,
		BackoffMin: time.Second, BackoffMax: 2 * time.Minute, Tags: map[string]string{"tenant": "acme"}, Payload: []byte(`"Ada"`),
		Then: []sdk.Item{{Lambda: "b", In: time.Hour, Payload: []byte("Ada")}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for line, says := range map[string]string{
		`{"max_attempts":"3"}`:                         `max_attempts: "3" is not a whole number from 1`,
		`{"max_attempts":0}`:                           `max_attempts: 0 is not a whole number from 1`,
		`{"timeout":"0s"}`:                             `timeout: "0s" is too short`,
		`{"tags":["a"]}`:                               `tags: ["a"] is no JSON object`,
		`{"start_before":"tonight"}`:                   `start_before: "tonight" is no time`,
		`{"backoff":"1s..2s"}`:                         `unknown field "backoff" in the line; allowed here: backoff_max, backoff_min, collection`,
		`{"in":"1h"}`:                                  `unknown field "in" in the line; allowed here: `,
		`{"request_id":"00"}`:                          `unknown field "request_id"`,
		`{"payload":"a","payload_text":"b"}`:           "want one of payload, payload_text and payload_base64",
		`{"then":[{"lambda":"b","blob":{"id":"00"}}]}`: "request_id and blob are those of the client",
	} {
		if _, err := parseLine(&rawLine{text: []byte(line)}, "a"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
	if _, err := parseLine(&rawLine{text: []byte("{}")}, ""); err == nil || !strings.Contains(err.Error(), `"lambda" is missing`) {
		t.Errorf("no lambda: %v", err)
	}
}

// BenchmarkBatchLine is what a line of a batch costs besides its call.
func BenchmarkBatchLine(b *testing.B) {
	line := &rawLine{number: 1, text: []byte(`{"lambda": "greet", "delay": "3d", "payload": "` + string(bytes.Repeat([]byte("x"), 100)) + `"}` + "\n")}
	result := &sdk.Result{ID: "k1AaH9TkKjeESSM2hg-xWNAAGh_U5Co7s9l8YBAADXgqjuXF0uJt1alrFM"}
	var out bytes.Buffer
	printer := batch{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseLine(line, ""); err != nil {
			b.Fatal(err)
		}
		printer.format(&out, 1, result)
		out.Reset()
	}
}
