package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/task"
)

func TestParseOutcome(t *testing.T) {
	t.Parallel()
	largest := `"` + strings.Repeat("x", resultBytesMax-2) + `"`
	for text, want := range map[string]controller.Outcome{
		`{"outcome":"snooze","delay":"90s"}`:              {Kind: task.OutcomeSnoozed, Delay: 90 * time.Second, Error: "snoozed for 1m30s"},
		`{"outcome":"snooze","delay":"0s"}`:               {Kind: task.OutcomeSnoozed, Error: "snoozed for 0s"},
		` {"outcome" : "release"} ` + "\n":                {Kind: task.OutcomeReleased, Error: "released by its command"},
		`{"outcome":"fatal"}`:                             {Kind: task.OutcomeFatal, Error: "failed for good, says its command"},
		`{"outcome":"fatal","error":"no"}`:                {Kind: task.OutcomeFatal, Error: "no"},
		`{"outcome":"snoozed","delay":"90s"}`:             {Kind: task.OutcomeSnoozed, Delay: 90 * time.Second, Error: "snoozed for 1m30s"},
		`{"outcome":"released"}`:                          {Kind: task.OutcomeReleased, Error: "released by its command"},
		`{"outcome":"fatal_failure","error":"no"}`:        {Kind: task.OutcomeFatal, Error: "no"},
		`{"result":{"n":1}}`:                              {Kind: task.OutcomeSuccess, Result: []byte(`{"n":1}`)},
		`{"outcome":"success"}`:                           {Kind: task.OutcomeSuccess},
		`{"then":[{"lambda":"ship"}]}`:                    {Kind: task.OutcomeSuccess},
		`{"outcome":"success","result":{"n": [1, null]}}`: {Kind: task.OutcomeSuccess, Result: []byte(`{"n": [1, null]}`)},
		`{"outcome":"success","result":null}`:             {Kind: task.OutcomeSuccess, Result: []byte(`null`)},
		`{"outcome":"success","result":` + largest + `}`:  {Kind: task.OutcomeSuccess, Result: []byte(largest)},
	} {
		got, err := parseOutcome([]byte(text))
		if err != nil || fmt.Sprint(got.Outcome) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v", shortened(text), got, err)
		}
	}
	for text, word := range map[string]string{
		"":                                     "it is empty",
		" \n":                                  "it is empty",
		"snooze":                               "want a JSON object",
		`"snooze"`:                             "want a JSON object",
		`{"outcome":"snooze"`:                  "unexpected EOF",
		`{"outcome":"success"}{}`:              "something follows",
		`{"outcome":"success"} x`:              "something follows",
		`{}`:                                   `outcome "": want snooze, release, fatal or success`,
		`{"outcome":"retry"}`:                  `outcome "retry": want snooze, release, fatal or success`,
		`{"outcome":1}`:                        "want a JSON object",
		`{"outcomes":"fatal"}`:                 `unknown field "outcomes"`,
		`{"outcome":"snooze"}`:                 "delay is missing",
		`{"outcome":"snooze","delay":"soon"}`:  `"soon" is no duration`,
		`{"outcome":"snooze","delay":90}`:      "want a JSON object",
		`{"outcome":"snooze","delay":"-1s"}`:   "is below zero",
		`{"outcome":"snooze","delay":"3651d"}`: "want 0s to 87600h",
		`{"outcome":"fatal","delay":"1s"}`:     `delay does not go with outcome "fatal", only with "snooze"`,
		`{"outcome":"release","error":"x"}`:    `error does not go with outcome "release", only with "fatal"`,
		`{"outcome":"fatal","result":1}`:       `result does not go with outcome "fatal", only with "success"`,
		`{"outcome":"success","result":` + largest[:9] + largest + `}`: "invalid character",
		`{"outcome":"fatal","error":"\ud800"}`:                         `error: \ud800 is half of a surrogate pair`,
		`{"outcome":"fatal","then":[]}`:                                `then does not go with outcome "fatal"`,
		`{"outcome":"success","then":[{"lambda":"a","delay":"soon"}]}`: `then[0]: delay: "soon" is no duration`,
		`{"outcome":"success","then":{"else":[{"lambda":"a"}]}}`:       `then[0]: the task has no field "lambda"`,
		`{"outcome":"success","result":[` + largest + `]}`:             "result: 32770 bytes: want 32768 at most",
	} {
		if got, err := parseOutcome([]byte(text)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %+v, %v", shortened(text), got, err)
		}
	}
}

func TestTakeOutcome(t *testing.T) {
	t.Parallel()
	files, err := newOutcomeFiles()
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) string {
		path := files.next()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if o, err := takeOutcome(files.next()); o != nil || err != nil {
		t.Errorf("no file: %v, %v", o, err)
	}
	path := write(`{"outcome":"release"}`)
	if o, err := takeOutcome(path); err != nil || o.Kind != task.OutcomeReleased {
		t.Errorf("release: %v, %v", o, err)
	}
	if o, err := takeOutcome(path); o != nil || err != nil {
		t.Errorf("the file is still there: %v, %v", o, err)
	}
	folder := files.next()
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, word := range map[string]string{
		write(strings.Repeat(" ", outcomeBytesMax+1)): "outcome file: 1081345 bytes: want 1081344 at most",
		write("{"): "outcome file: want a JSON object",
		folder:     "outcome file: it is no regular file",
	} {
		if o, err := takeOutcome(path); err == nil || err.Error() != word && !strings.HasPrefix(err.Error(), word) {
			t.Errorf("%s: %v, %v", word, o, err)
		}
	}
	if err := removeOutcomes(t.TempDir()); err == nil {
		t.Error("another directory is removed")
	}
	if err := files.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(files.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// The exit status and the file together decide.
func TestConcluded(t *testing.T) {
	t.Parallel()
	exit := func(code int) error { return &executor.ExitError{Code: code, Tail: "tail"} }
	killed := &executor.ExitError{Code: -1, Signal: syscall.SIGKILL}
	wrong := errors.New("outcome file: wrong")
	says := func(kind task.Outcome) *controller.Outcome { return &controller.Outcome{Kind: kind} }
	for name, c := range map[string]struct {
		err   error
		said  *controller.Outcome
		wrong error
		want  string
	}{
		"success":                 {nil, nil, nil, "<nil>"},
		"failure":                 {exit(1), nil, nil, "exit status 1: tail"},
		"success with a result":   {nil, says(task.OutcomeSuccess), nil, "<nil>"},
		"snoozed, exit 0":         {nil, says(task.OutcomeSnoozed), nil, "said snoozed"},
		"snoozed, exit 1":         {exit(1), says(task.OutcomeSnoozed), nil, "said snoozed"},
		"released, exit 65":       {exit(65), says(task.OutcomeReleased), nil, "said released"},
		"says success and fails":  {exit(1), says(task.OutcomeSuccess), nil, "exit status 1: tail"},
		"wrong":                   {nil, nil, wrong, "outcome file: wrong"},
		"wrong and fails":         {exit(65), nil, wrong, "outcome file: wrong (exit status 65: tail)"},
		"killed while it wrote":   {killed, nil, wrong, "signal: killed"},
		"killed after it wrote":   {killed, says(task.OutcomeSnoozed), nil, "signal: killed"},
		"could not even be begun": {errors.New("start"), nil, nil, "start"},
	} {
		got := concluded(c.err, c.said, c.wrong)
		text := fmt.Sprint(got)
		if ended, is := errors.AsType[*sdkconfig.OutcomeError](got); is {
			text = "said " + ended.Outcome.Kind.String()
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func FuzzOutcome(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"outcome":"snooze","delay":"90s"}`, `{"outcome":"release"}`, `{"outcome":"fatal","error":"x"}`,
		`{"outcome":"success","result":{"n":[1,null]}}`, `{"outcome":"success","result":` + strings.Repeat("[", 20_000),
		`{"outcome":"snooze","delay":"1w2d12h"}`, `{"outcome":"snooze","delay":"-9e99s"}`, "\x00", `{"OUTCOME":"release"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parseOutcome(data[:min(len(data), outcomeBytesMax)])
		switch {
		case err != nil:
		case len(o.Result) > resultBytesMax || o.Result != nil && !json.Valid(o.Result):
			t.Errorf("result %q", o.Result)
		case o.Delay < 0 || o.Delay > snoozeMax:
			t.Errorf("delay %v", o.Delay)
		}
	})
}
