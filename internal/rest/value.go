package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/task"
)

// fromJSON is a value with a form of its own in requests.
type fromJSON interface {
	// fromJSON reads valid JSON.
	fromJSON(raw []byte) error
}

// duration is a duration, in requests and responses a text such as 1m30s. The wire has microseconds.
type duration time.Duration

func (d *duration) fromJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return fmt.Errorf("%s is no duration: %s", jsonform.Shown(raw), api.DurationWant)
	}
	return d.parse(text)
}

func (d *duration) parse(text string) error {
	parsed, err := api.ParseDuration(text)
	*d = duration(parsed)
	return err //nolint:wrapcheck // its callers say where
}

// MarshalJSON implements json.Marshaler.
func (d duration) MarshalJSON() ([]byte, error) {
	return append(api.AppendDuration([]byte{'"'}, d.micros()), '"'), nil
}

func (d duration) micros() int64 { return time.Duration(d).Microseconds() }

func durationOf(micros int64) duration { return duration(task.Micros(micros)) }

// moment is a time in microseconds since 1970, in requests and responses a text by RFC 3339.
type moment int64

func (m *moment) fromJSON(raw []byte) error {
	at, err := jsonform.ReadInstant(raw)
	*m = moment(at)
	return err //nolint:wrapcheck // its callers say where
}

// MarshalJSON implements json.Marshaler. The answer is in UTC.
func (m moment) MarshalJSON() ([]byte, error) {
	return jsonform.AppendInstant(nil, int64(m)), nil
}

// anyJSON is any JSON value, unchanged but for white space between its parts.
type anyJSON []byte

func (a *anyJSON) fromJSON(raw []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	*a = compact.Bytes()
	return nil
}

// MarshalJSON implements json.Marshaler.
func (a anyJSON) MarshalJSON() ([]byte, error) { return a, nil }

// binary are bytes, in requests and responses a text in base64.
type binary []byte

func (b *binary) fromJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return fmt.Errorf("%s is no text in base64", jsonform.Shown(raw))
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("not base64 (the standard alphabet, padded with =): %w", err)
	}
	*b = data
	return nil
}

// result is the value that a handler returned, in one of the three forms of a payload.
type result struct {
	Result       anyJSON `json:"result,omitempty" jsonschema:"the value that the handler returned, if it is JSON"`
	ResultText   *string `json:"result_text,omitempty" jsonschema:"the value that the handler returned, if it is other text, in UTF-8"`
	ResultBase64 *binary `json:"result_base64,omitempty" jsonschema:"the value that the handler returned, if it is other bytes, in base64"`
}

func (r result) bytes() ([]byte, error) {
	return oneOf("result", r.Result, r.ResultText, r.ResultBase64)
}

// oneOf returns the bytes of at most one form.
func oneOf(name string, value anyJSON, text *string, encoded *binary) (data []byte, err error) {
	forms := 0
	if value != nil {
		data, forms = value, forms+1
	}
	if text != nil {
		data, forms = []byte(*text), forms+1
	}
	if encoded != nil {
		data, forms = *encoded, forms+1
	}
	if forms > 1 {
		return nil, fmt.Errorf("%w: want one of %s, %s_text and %s_base64", errForms, name, name, name)
	}
	return data, nil
}

var errForms = errors.New("the same in two forms")
