package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// followFileBytesMax bounds a file of what follows, as a line of a batch. The server's bound is that of a
// payload, without those that are blobs.
const followFileBytesMax = 6 << 20

const followFields = "lambda, delay (or in), due (or at), key, payload, payload_text, payload_base64, priority, collection, limit_key, tags, " +
	"start_before, max_attempts, timeout, backoff_min, backoff_max (or backoff), traceparent, then, else, finally"

// followLists are the tasks that follow one, each a followTask.
type followLists struct {
	Then    json.RawMessage `json:"then"`
	Else    json.RawMessage `json:"else"`
	Finally json.RawMessage `json:"finally"`
}

// followTask is a task that follows, in the form that plain HTTP has of it. In, At and Backoff are names that
// a line of a batch has.
type followTask struct {
	Lambda        string            `json:"lambda"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadText   *string           `json:"payload_text"`
	PayloadBase64 *string           `json:"payload_base64"`
	Delay         string            `json:"delay"`
	In            string            `json:"in"`
	Due           string            `json:"due"`
	At            string            `json:"at"`
	StartBefore   string            `json:"start_before"`
	Priority      string            `json:"priority"`
	Collection    string            `json:"collection"`
	Key           string            `json:"key"`
	OnConflict    string            `json:"on_conflict"`
	LimitKey      string            `json:"limit_key"`
	Tags          map[string]string `json:"tags"`
	MaxAttempts   int               `json:"max_attempts"`
	Timeout       string            `json:"timeout"`
	BackoffMin    string            `json:"backoff_min"`
	BackoffMax    string            `json:"backoff_max"`
	Backoff       string            `json:"backoff"`
	Traceparent   string            `json:"traceparent"`

	followLists
}

// readFollow reads what follows a task from the file of a flag, or from stdin for "-".
func (a *app) readFollow(flag, path string, item *sdk.Item) error {
	data, err := a.readFollowFile(flag, path)
	if err != nil {
		return err
	}
	if err := parseFollow(data, item); err != nil {
		return usagef("--%s: %v", flag, err)
	}
	if n := followupsIn(item); n > task.FollowupsMax {
		return usagef("--%s: %d follow-ups, with those of follow-ups: want at most %d; nothing was scheduled", flag, n, task.FollowupsMax)
	}
	return nil
}

// followupsIn counts what follows an item, with what follows that.
func followupsIn(item *sdk.Item) (n int) {
	for _, list := range [][]sdk.Item{item.Then, item.Else, item.Finally} {
		for i := range list {
			n += 1 + followupsIn(&list[i])
		}
	}
	return n
}

func (a *app) readFollowFile(flag, path string) ([]byte, error) {
	r, err := a.open(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, followFileBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	if len(data) > followFileBytesMax {
		return nil, usagef("--%s: more than %d bytes", flag, followFileBytesMax)
	}
	return data, nil
}

// oneJSON returns the one JSON value that a text is.
func oneJSON(data []byte) (json.RawMessage, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax, is := errors.AsType[*json.SyntaxError](err); is {
			return nil, fmt.Errorf("not JSON, at byte %d: %w", syntax.Offset, err)
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return bytes.TrimLeft(whole, jsonSpace), api.CheckJSONText(data)
}

// parseFollow reads what follows a task: a list of what follows a success, such a task alone, or an object
// with then, else and finally.
func parseFollow(data []byte, item *sdk.Item) error {
	whole, err := oneJSON(data)
	if err != nil {
		return err
	}
	switch whole[0] {
	case '[':
		return (&followLists{Then: whole}).follow(item, "", 0)
	case '{':
	default:
		return errors.New("want a list of tasks, a task, or an object with then, else and finally")
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(whole, &names); err != nil {
		return err
	}
	var lists followLists
	if _, isTask := names["lambda"]; isTask {
		one, err := parseFollowTask(whole, "", 0)
		item.Then = append(item.Then, one)
		return err
	}
	if err := decodeStrict(whole, &lists, "then, else and finally, each a list of tasks, or a task with its lambda"); err != nil {
		return err
	}
	return lists.follow(item, "", 0)
}

func decodeStrict(text []byte, into any, fields string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	return jsonProblem(err, fields)
}

// follow gives an item what follows it. where is its place, and so many tasks come before it.
func (f *followLists) follow(item *sdk.Item, where string, depth int) error {
	for _, list := range []struct {
		name string
		from json.RawMessage
		to   *[]sdk.Item
	}{{"then", f.Then, &item.Then}, {"else", f.Else, &item.Else}, {"finally", f.Finally, &item.Finally}} {
		if list.from == nil {
			continue
		}
		var tasks []json.RawMessage
		if err := json.Unmarshal(list.from, &tasks); err != nil || tasks == nil {
			return at(where+list.name, errors.New("want a list of tasks"))
		}
		if len(tasks) > 0 && depth+1 >= task.ChainDepthMax {
			return at(where+list.name+"[0]", fmt.Errorf("it is task %d of a row: at most %d tasks may follow each other, the first one included", depth+2, task.ChainDepthMax))
		}
		for i, text := range tasks {
			one, err := parseFollowTask(text, fmt.Sprintf("%s%s[%d]", where, list.name, i), depth+1)
			if err != nil {
				return err
			}
			*list.to = append(*list.to, one)
		}
	}
	return nil
}

// at says where an error is.
func at(where string, err error) error {
	if where == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", task.ShortPlace(where), err)
}

// parseFollowTask reads the task at a place, with those that follow it.
func parseFollowTask(text []byte, where string, depth int) (sdk.Item, error) {
	var f followTask
	if err := decodeStrict(text, &f, followFields); err != nil {
		return sdk.Item{}, at(where, err)
	}
	item, err := f.item()
	if err != nil {
		return item, at(where, err)
	}
	if where != "" {
		where += "."
	}
	return item, f.follow(&item, where, depth)
}

// item returns the task without those that follow it.
func (f *followTask) item() (item sdk.Item, err error) {
	item = sdk.Item{
		Lambda: f.Lambda, Priority: f.Priority, Collection: f.Collection, Key: f.Key, OnConflict: sdk.Conflict(f.OnConflict), LimitKey: f.LimitKey,
		Tags: f.Tags, MaxAttempts: f.MaxAttempts, Traceparent: f.Traceparent,
	}
	switch {
	case f.Lambda == "":
		return item, errors.New(`"lambda" is missing`)
	case moreThanOne(f.Delay, f.In, f.Due, f.At):
		return item, errors.New(`"delay" and "due" exclude each other: a task is due once`)
	case f.Backoff != "" && f.BackoffMin+f.BackoffMax != "":
		return item, errors.New(`"backoff" is both "backoff_min" and "backoff_max"`)
	case f.MaxAttempts < 0 || f.MaxAttempts > task.AttemptsMax:
		return item, fmt.Errorf(`"max_attempts": %d is out of range: want 1 to %d`, f.MaxAttempts, task.AttemptsMax)
	}
	if item.Payload, err = f.payload(); err != nil {
		return item, err
	}
	duration := func(to *time.Duration) func(string) error {
		return func(text string) (err error) { *to, err = api.ParseDuration(text); return err }
	}
	moment := func(to *time.Time) func(string) error {
		return func(text string) (err error) { *to, err = parseTime(text); return err }
	}
	for _, d := range []struct {
		name, text string
		set        func(text string) error
	}{
		{"delay", f.Delay, duration(&item.In)},
		{"in", f.In, duration(&item.In)},
		{"due", f.Due, moment(&item.At)},
		{"at", f.At, moment(&item.At)},
		{"start_before", f.StartBefore, moment(&item.StartBefore)},
		{"timeout", f.Timeout, duration(&item.Timeout)},
		{"backoff_min", f.BackoffMin, duration(&item.BackoffMin)},
		{"backoff_max", f.BackoffMax, duration(&item.BackoffMax)},
		{"backoff", f.Backoff, (rangeValue{&item.BackoffMin, &item.BackoffMax}).Set},
	} {
		if d.text == "" {
			continue
		}
		if err := d.set(d.text); err != nil {
			return item, fmt.Errorf("%q: %w", d.name, err)
		}
	}
	return item, nil
}

func moreThanOne(texts ...string) bool {
	return len(slices.DeleteFunc(texts, func(text string) bool { return text == "" })) > 1
}

func (f *followTask) payload() ([]byte, error) {
	given := 0
	for _, is := range []bool{len(f.Payload) > 0, f.PayloadText != nil, f.PayloadBase64 != nil} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("want one of payload, payload_text and payload_base64")
	case f.PayloadText != nil:
		return []byte(*f.PayloadText), nil
	case f.PayloadBase64 != nil:
		payload, err := base64.StdEncoding.DecodeString(*f.PayloadBase64)
		if err != nil {
			return nil, fmt.Errorf(`"payload_base64": %w`, err)
		}
		return payload, nil
	case len(f.Payload) == 0:
		return nil, nil
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, f.Payload)
	return compact.Bytes(), err
}
