package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const batchFields = "lambda, in, at, start_before, priority, collection, key, on_conflict, limit_key, tags, max_attempts, timeout, backoff, traceparent, payload, then, else, finally"

// batchLine is a line of a batch.
type batchLine struct {
	Lambda      string          `json:"lambda"`
	In          *string         `json:"in"`
	At          *string         `json:"at"`
	Priority    string          `json:"priority"`
	Collection  string          `json:"collection"`
	Key         string          `json:"key"`
	OnConflict  string          `json:"on_conflict"`
	LimitKey    string          `json:"limit_key"`
	Traceparent string          `json:"traceparent"`
	Payload     json.RawMessage `json:"payload"`

	StartBefore string            `json:"start_before"`
	MaxAttempts *int              `json:"max_attempts"`
	Timeout     string            `json:"timeout"`
	Backoff     string            `json:"backoff"`
	Tags        map[string]string `json:"tags"`

	followLists
}

// parseLine reads a line. Its errors do not contain the number of the line.
func parseLine(raw *rawLine, lambda string) (sdk.Item, error) {
	if raw.tooLong {
		return sdk.Item{}, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "longer than %d bytes", batchLineBytesMax)
	}
	if !utf8.Valid(raw.text) { // the decoder would replace the bytes
		return sdk.Item{}, invalid(errors.New("not valid UTF-8; encode the payload as text, or schedule it with --payload-file"))
	}
	var l batchLine
	if !l.scan(raw.text) {
		l = batchLine{}
		if err := decodeLine(raw.text, &l); err != nil {
			return sdk.Item{}, invalid(err)
		}
	}
	return l.item(lambda)
}

// item returns the task of a line.
func (l *batchLine) item(lambda string) (sdk.Item, error) {
	item := sdk.Item{
		Lambda: l.Lambda, Priority: l.Priority, Collection: l.Collection, Key: l.Key, OnConflict: sdk.Conflict(l.OnConflict),
		LimitKey: l.LimitKey, Traceparent: l.Traceparent,
	}
	if item.Lambda == "" {
		item.Lambda = lambda
	}
	if item.Lambda == "" {
		return item, invalid(errors.New(`"lambda" is missing`))
	}
	if err := l.due(&item); err != nil {
		return item, invalid(err)
	}
	if err := l.settings(&item); err != nil {
		return item, invalid(err)
	}
	payload, err := l.payload()
	if err != nil {
		return item, invalid(err)
	}
	item.Payload = payload
	if err := l.follow(&item, "", 0); err != nil {
		return item, invalid(err)
	}
	return item, nil
}

func invalid(err error) error {
	return &api.Error{Reason: kinesinv1.Reason_REASON_INVALID, Text: err.Error()}
}

func decodeLine(text []byte, l *batchLine) error {
	if err := api.CheckJSONText(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(l)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			return errors.New("something follows the JSON object")
		}
		return nil
	}
	return jsonProblem(err, batchFields)
}

// jsonProblem says what is wrong with a JSON object of which only these fields are known.
func jsonProblem(err error, fields string) error {
	wrongType, isType := errors.AsType[*json.UnmarshalTypeError](err)
	field, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case isType && wrongType.Field != "":
		return fmt.Errorf("%q: want %s, have a JSON %s", wrongType.Field, wantOf(wrongType.Field), wrongType.Value)
	case isType:
		return fmt.Errorf("want a JSON object, have a JSON %s", wrongType.Value)
	case isUnknown:
		return fmt.Errorf("unknown field %s: want %s", field, fields)
	}
	return fmt.Errorf("not a JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
}

func (l *batchLine) due(item *sdk.Item) (err error) {
	switch {
	case l.In != nil && l.At != nil:
		return errors.New(`"in" and "at" exclude each other: a task is due once`)
	case l.In != nil:
		if item.In, err = api.ParseDuration(*l.In); err != nil {
			return fmt.Errorf(`"in": %w`, err)
		}
	case l.At != nil:
		if item.At, err = parseTime(*l.At); err != nil {
			return fmt.Errorf(`"at": %w`, err)
		}
	}
	return nil
}

// wantOf returns what a field has to be.
func wantOf(field string) string {
	switch field {
	case "max_attempts":
		return "a whole number"
	case "tags":
		return "an object of strings"
	}
	return "a string"
}

// settings sets what a task may have of its own, which else its lambda has. The server checks their bounds.
func (l *batchLine) settings(item *sdk.Item) (err error) {
	item.Tags = l.Tags
	if l.MaxAttempts != nil {
		if item.MaxAttempts = *l.MaxAttempts; item.MaxAttempts < 1 || item.MaxAttempts > task.AttemptsMax {
			return fmt.Errorf(`"max_attempts": %d is out of range: want 1 to %d`, item.MaxAttempts, task.AttemptsMax)
		}
	}
	if l.StartBefore != "" {
		if item.StartBefore, err = parseTime(l.StartBefore); err != nil {
			return fmt.Errorf(`"start_before": %w`, err)
		}
	}
	if l.Timeout != "" {
		if item.Timeout, err = api.ParseDuration(l.Timeout); err != nil {
			return fmt.Errorf(`"timeout": %w`, err)
		}
		if item.Timeout == 0 {
			return errors.New(`"timeout": 0 is out of range; leave it out for that of the lambda`)
		}
	}
	if l.Backoff != "" {
		if err := (rangeValue{&item.BackoffMin, &item.BackoffMax}).Set(l.Backoff); err != nil {
			return fmt.Errorf(`"backoff": %w`, err)
		}
	}
	return nil
}

// payload returns a string without its quotes, and any other value as its JSON text.
func (l *batchLine) payload() ([]byte, error) {
	switch {
	case len(l.Payload) == 0 || bytes.Equal(l.Payload, []byte("null")):
		return nil, nil
	case l.Payload[0] != '"':
		return l.Payload, nil
	}
	if bytes.IndexByte(l.Payload, '\\') < 0 && utf8.Valid(l.Payload) {
		return l.Payload[1 : len(l.Payload)-1], nil
	}
	var text string
	err := json.Unmarshal(l.Payload, &text)
	return []byte(text), err
}

// scan reads the most common line, an object of strings without escapes, several times faster than
// decodeLine. It returns false for any other line, of which it may have read a part.
func (l *batchLine) scan(text []byte) bool {
	if bytes.IndexByte(text, '\\') >= 0 || !utf8.Valid(text) {
		return false
	}
	rest, ok := after(text, '{')
	for ok {
		var name, value []byte
		if name, rest, ok = quoted(rest); !ok {
			return false
		}
		if rest, ok = after(rest, ':'); !ok {
			return false
		}
		if value, rest, ok = quoted(rest); !ok || !l.set(name, value) {
			return false
		}
		if end, ended := after(rest, '}'); ended {
			return len(bytes.TrimLeft(end, jsonSpace)) == 0
		}
		rest, ok = after(rest, ',')
	}
	return false
}

const jsonSpace = " \t\r\n"

// after skips space and then c.
func after(text []byte, c byte) (rest []byte, found bool) {
	text = bytes.TrimLeft(text, jsonSpace)
	if len(text) == 0 || text[0] != c {
		return nil, false
	}
	return text[1:], true
}

// quoted returns the string without escapes, with its quotes, with which the text begins.
func quoted(text []byte) (s, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, jsonSpace)
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(text[1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	s = text[:end+2]
	for _, c := range s {
		if c < ' ' { // not allowed in a JSON string
			return nil, nil, false
		}
	}
	return s, text[end+2:], true
}

// set sets a field; name and value have their quotes. It returns false for an unknown field and for a second
// value.
func (l *batchLine) set(name, value []byte) bool {
	if string(name) == `"payload"` {
		l.Payload = value
		return true
	}
	text := string(value[1 : len(value)-1])
	var field *string
	switch string(name) {
	case `"lambda"`:
		field = &l.Lambda
	case `"priority"`:
		field = &l.Priority
	case `"collection"`:
		field = &l.Collection
	case `"key"`:
		field = &l.Key
	case `"on_conflict"`:
		field = &l.OnConflict
	case `"limit_key"`:
		field = &l.LimitKey
	case `"traceparent"`:
		field = &l.Traceparent
	case `"in"`:
		l.In = &text
		return true
	case `"at"`:
		l.At = &text
		return true
	default:
		return false
	}
	first := *field == ""
	*field = text
	return first
}
