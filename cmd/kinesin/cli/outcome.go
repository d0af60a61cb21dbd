package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// resultBytesMax bounds the result that a command may give.
	resultBytesMax = task.ResultBytesMax
	// outcomeBytesMax bounds an outcome file: a result of the largest size, and what is to follow the task.
	outcomeBytesMax = resultBytesMax + 1<<20
	// snoozeMax bounds the delay of a snooze; servers shorten a longer one.
	snoozeMax = 3650 * day
	// outcomesDir begins the name of a worker's directory of outcome files.
	outcomesDir = "kinesin-worker-"
)

// outcomeFiles gives each attempt the name of a file of its own, into which its command may write how the
// attempt ends. It is safe for concurrent use.
type outcomeFiles struct {
	dir  string
	last atomic.Uint64
}

func newOutcomeFiles() (*outcomeFiles, error) {
	dir, err := os.MkdirTemp("", outcomesDir)
	if err != nil {
		return nil, fmt.Errorf("make a directory for the outcome files of commands: %w", err)
	}
	return &outcomeFiles{dir: dir}, nil
}

// next returns the name of a file that does not exist.
func (f *outcomeFiles) next() string {
	return filepath.Join(f.dir, strconv.FormatUint(f.last.Add(1), 10)+".json")
}

// Close removes all files.
func (f *outcomeFiles) Close() error { return removeOutcomes(f.dir) }

// removeOutcomes removes a directory that newOutcomeFiles made, and no other.
func removeOutcomes(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), outcomesDir) {
		return fmt.Errorf("%s is no directory of outcome files", dir)
	}
	return os.RemoveAll(dir)
}

// takeOutcome reads and removes an outcome file. It returns nil for one that does not exist, and an error
// that says what is wrong with the file.
func takeOutcome(path string) (*outcomeSaid, error) {
	defer func() { _ = os.RemoveAll(path) }() // what cannot be removed goes with its directory
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // the exit status alone says how the attempt ended
	case err != nil:
		return nil, fmt.Errorf("outcome file: %w", err)
	case !info.Mode().IsRegular():
		return nil, errors.New("outcome file: it is no regular file")
	case info.Size() > outcomeBytesMax:
		return nil, fmt.Errorf("outcome file: %d bytes: want %d at most", info.Size(), outcomeBytesMax)
	}
	data, err := settings.ReadAtMost(path, outcomeBytesMax)
	if err != nil {
		return nil, fmt.Errorf("outcome file: %w", err)
	}
	o, err := parseOutcome(data)
	if err != nil {
		return nil, fmt.Errorf("outcome file: %w", err)
	}
	return o, nil
}

// outcomeSaid is what a command wrote into its outcome file.
type outcomeSaid struct {
	controller.Outcome

	then []sdk.Step
}

func said(o controller.Outcome) (*outcomeSaid, error) { return &outcomeSaid{Outcome: o}, nil }

// stepsOf returns the tasks that are to follow a success.
func stepsOf(list json.RawMessage) ([]sdk.Step, error) {
	if list == nil {
		return nil, nil
	}
	all, err := edgeIn("then", list)
	if err != nil {
		return nil, err
	}
	item, err := itemOf(all)
	if err != nil {
		return nil, fmt.Errorf("then: %w", err)
	}
	steps := make([]sdk.Step, len(item.Then))
	for i := range item.Then {
		steps[i] = item.Then[i].Step()
	}
	return steps, nil
}

// outcomeObject is the content of an outcome file.
type outcomeObject struct {
	Outcome string          `json:"outcome"`
	Delay   *string         `json:"delay"`
	Error   *string         `json:"error"`
	Result  json.RawMessage `json:"result"`
	Then    json.RawMessage `json:"then"`
}

// outcomeWords are the outcomes as get shows them and as results have them, each with the word of the file.
var outcomeWords = map[string]string{ //nolint:gochecknoglobals // a table
	task.OutcomeSnoozed.String(): "snooze", task.OutcomeReleased.String(): "release", task.OutcomeFatal.String(): "fatal",
}

// parseOutcome reads the content of an outcome file.
func parseOutcome(data []byte) (*outcomeSaid, error) {
	if err := api.CheckJSONText(data); err != nil {
		return nil, err
	}
	var o outcomeObject
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	switch err := d.Decode(&o); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty: want a JSON object")
	case err != nil:
		return nil, fmt.Errorf("want a JSON object with outcome, delay, error, result or then: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	if short, is := outcomeWords[o.Outcome]; is {
		o.Outcome = short
	} else if o.Outcome == "" && (o.Result != nil || o.Then != nil) {
		o.Outcome = "success"
	}
	if err := o.checkFields(); err != nil {
		return nil, err
	}
	switch o.Outcome {
	case "snooze":
		delay, err := snoozeDelay(o.Delay)
		if err != nil {
			return nil, err
		}
		return said(controller.Outcome{Kind: task.OutcomeSnoozed, Delay: delay, Error: fmt.Sprintf("snoozed for %v", delay)})
	case "release":
		return said(controller.Outcome{Kind: task.OutcomeReleased, Error: "released by its command"})
	case "fatal":
		text := "failed for good, says its command"
		if o.Error != nil && *o.Error != "" {
			text = *o.Error
		}
		return said(controller.Outcome{Kind: task.OutcomeFatal, Error: text})
	case "success":
		steps, err := stepsOf(o.Then)
		return &outcomeSaid{controller.Outcome{Kind: task.OutcomeSuccess, Result: o.Result}, steps}, err
	}
	return nil, fmt.Errorf("outcome %q: want snooze, release, fatal or success", shortened(o.Outcome))
}

// checkFields refuses a field that does not go with the outcome, and a result that is too large.
func (o *outcomeObject) checkFields() error {
	for _, f := range []struct {
		name, outcome string
		given         bool
	}{
		{"delay", "snooze", o.Delay != nil}, {"error", "fatal", o.Error != nil}, {"result", "success", o.Result != nil}, {"then", "success", o.Then != nil},
	} {
		if f.given && o.Outcome != f.outcome {
			return fmt.Errorf("%s does not go with outcome %q, only with %q", f.name, shortened(o.Outcome), f.outcome)
		}
	}
	if len(o.Result) > resultBytesMax {
		return fmt.Errorf("result: %d bytes: want %d at most", len(o.Result), resultBytesMax)
	}
	return nil
}

func snoozeDelay(text *string) (time.Duration, error) {
	if text == nil {
		return 0, errors.New(`delay is missing: want one such as "90s"`)
	}
	delay, err := api.ParseDuration(*text)
	if err != nil {
		return 0, fmt.Errorf("delay: %w", err)
	}
	if delay > snoozeMax {
		return 0, fmt.Errorf("delay %s: want 0s to %s", *text, formatDuration(snoozeMax))
	}
	return delay, nil
}
