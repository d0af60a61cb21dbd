package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

const batchFields = "lambda, in, at, priority, collection, key, payload"

// batchLine is a task as a line of a batch says it.
type batchLine struct {
	Lambda     string          `json:"lambda"`
	In         *string         `json:"in"`
	At         *string         `json:"at"`
	Priority   string          `json:"priority"`
	Collection string          `json:"collection"`
	Key        string          `json:"key"`
	Payload    json.RawMessage `json:"payload"`
}

// parseLine reads a line. Its errors do not name the line: whoever prints them does.
func parseLine(raw *rawLine, lambda string) (sdk.Item, error) {
	if raw.tooLong {
		return sdk.Item{}, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "longer than %d bytes", batchLineBytesMax)
	}
	var l batchLine
	if err := decodeLine(raw.text, &l); err != nil {
		return sdk.Item{}, invalid(err)
	}
	item := sdk.Item{Lambda: l.Lambda, Priority: l.Priority, Collection: l.Collection, Key: l.Key}
	if item.Lambda == "" {
		item.Lambda = lambda
	}
	if item.Lambda == "" {
		return item, invalid(errors.New(`"lambda" is missing`))
	}
	if err := l.due(&item); err != nil {
		return item, invalid(err)
	}
	payload, err := l.payload()
	if err != nil {
		return item, invalid(err)
	}
	item.Payload = payload
	return item, nil
}

func invalid(err error) error {
	return &api.Error{Reason: kinesinv1.Reason_REASON_INVALID, Text: err.Error()}
}

func decodeLine(text []byte, l *batchLine) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(l)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			return errors.New("something follows the JSON object")
		}
		return nil
	}
	wrongType, isType := errors.AsType[*json.UnmarshalTypeError](err)
	field, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case isType && wrongType.Field != "":
		return fmt.Errorf("%q: want a string, have a JSON %s", wrongType.Field, wrongType.Value)
	case isType:
		return fmt.Errorf("want a JSON object, have a JSON %s", wrongType.Value)
	case isUnknown:
		return fmt.Errorf("unknown field %s: want %s", field, batchFields)
	}
	return fmt.Errorf("not a JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
}

func (l *batchLine) due(item *sdk.Item) (err error) {
	switch {
	case l.In != nil && l.At != nil:
		return errors.New(`"in" and "at" exclude each other: a task is due once`)
	case l.In != nil:
		if item.In, err = parseDuration(*l.In); err != nil {
			return fmt.Errorf(`"in": %w`, err)
		}
	case l.At != nil:
		if item.At, err = parseTime(*l.At); err != nil {
			return fmt.Errorf(`"at": %w`, err)
		}
	}
	return nil
}

// payload takes a string as it is, and any other value as its JSON text.
func (l *batchLine) payload() ([]byte, error) {
	switch {
	case len(l.Payload) == 0 || bytes.Equal(l.Payload, []byte("null")):
		return nil, nil
	case l.Payload[0] != '"':
		return l.Payload, nil
	}
	var text string
	err := json.Unmarshal(l.Payload, &text)
	return []byte(text), err
}
