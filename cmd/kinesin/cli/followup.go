package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const followUpFields = "lambda, payload, payload_text, payload_base64, delay, due, start_before, priority, collection, key, limit_key, tags, " +
	"max_attempts, timeout, backoff_min, backoff_max, traceparent, then, else, finally"

// followUp is a task that follows, in the form that the plain API has of it.
type followUp struct {
	Lambda        string            `json:"lambda"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadText   *string           `json:"payload_text"`
	PayloadBase64 *string           `json:"payload_base64"`
	Delay         string            `json:"delay"`
	Due           string            `json:"due"`
	StartBefore   string            `json:"start_before"`
	Priority      string            `json:"priority"`
	Collection    string            `json:"collection"`
	Key           string            `json:"key"`
	LimitKey      string            `json:"limit_key"`
	Tags          map[string]string `json:"tags"`
	MaxAttempts   int               `json:"max_attempts"`
	Timeout       string            `json:"timeout"`
	BackoffMin    string            `json:"backoff_min"`
	BackoffMax    string            `json:"backoff_max"`
	Traceparent   string            `json:"traceparent"`
	Then          []followUp        `json:"then"`
	Else          []followUp        `json:"else"`
	Finally       []followUp        `json:"finally"`
}

func parseFollowUp(text []byte) (sdk.Item, error) {
	var f followUp
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		if field, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field "); isUnknown {
			return sdk.Item{}, fmt.Errorf("unknown field %s: want %s", field, followUpFields)
		}
		return sdk.Item{}, fmt.Errorf("not a JSON object of a task: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, end := d.Token(); !errors.Is(end, io.EOF) {
		return sdk.Item{}, errors.New("something follows the JSON object")
	}
	return f.item(0)
}

// item returns the task, which so many come before, with those that follow it.
func (f *followUp) item(depth int) (item sdk.Item, err error) {
	item = sdk.Item{
		Lambda: f.Lambda, Priority: f.Priority, Collection: f.Collection, Key: f.Key, LimitKey: f.LimitKey, Tags: f.Tags,
		MaxAttempts: f.MaxAttempts, Traceparent: f.Traceparent,
	}
	switch {
	case f.Lambda == "":
		return item, errors.New(`"lambda" is missing`)
	case f.Delay != "" && f.Due != "":
		return item, errors.New(`"delay" and "due" exclude each other`)
	case f.MaxAttempts < 0 || f.MaxAttempts > task.AttemptsMax:
		return item, fmt.Errorf(`"max_attempts": %d is out of range: want 1 to %d`, f.MaxAttempts, task.AttemptsMax)
	}
	if item.Payload, err = f.payload(); err != nil {
		return item, err
	}
	for _, d := range []struct {
		name, text string
		set        func(text string) error
	}{
		{"delay", f.Delay, func(text string) (err error) { item.In, err = parseDuration(text); return err }},
		{"due", f.Due, func(text string) (err error) { item.At, err = parseTime(text); return err }},
		{"start_before", f.StartBefore, func(text string) (err error) { item.StartBefore, err = parseTime(text); return err }},
		{"timeout", f.Timeout, func(text string) (err error) { item.Timeout, err = parseDuration(text); return err }},
		{"backoff_min", f.BackoffMin, func(text string) (err error) { item.BackoffMin, err = parseDuration(text); return err }},
		{"backoff_max", f.BackoffMax, func(text string) (err error) { item.BackoffMax, err = parseDuration(text); return err }},
	} {
		if d.text == "" {
			continue
		}
		if err := d.set(d.text); err != nil {
			return item, fmt.Errorf("%q: %w", d.name, err)
		}
	}
	return item, f.follow(&item, depth)
}

// follow gives an item what follows it.
func (f *followUp) follow(item *sdk.Item, depth int) error {
	for _, list := range []struct {
		name string
		from []followUp
		to   *[]sdk.Item
	}{{"then", f.Then, &item.Then}, {"else", f.Else, &item.Else}, {"finally", f.Finally, &item.Finally}} {
		if len(list.from) > 0 && depth+1 >= task.ChainDepthMax {
			return errTooDeep
		}
		for i := range list.from {
			one, err := list.from[i].item(depth + 1)
			if errors.Is(err, errTooDeep) {
				return err
			}
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", list.name, i, err)
			}
			*list.to = append(*list.to, one)
		}
	}
	return nil
}

func (f *followUp) payload() ([]byte, error) {
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
