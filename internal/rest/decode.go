package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
)

// listsMax is how many elements a list or map of a request may have, by its name.
var listsMax = map[string]int{ //nolint:gochecknoglobals // a table
	"lambdas": api.LambdasMax,
	"results": api.ResultsMax,
	"running": api.HeldMax,
}

// decode reads a JSON object into the struct that into points to. It is stricter than encoding/json, because
// people write requests by hand, and a misspelt delay must not mean now: it refuses unknown names, names in
// other letters, names that come twice, required ones that are missing, null, values of another type, and what
// is no text. A list is bounded while it is decoded. An error says where it is and what is allowed there.
func decode(data []byte, into any) error {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax, is := errors.AsType[*json.SyntaxError](err); is {
			return fmt.Errorf("the body is not JSON, at byte %d: %w", syntax.Offset, err)
		}
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if err := api.CheckJSONText(data); err != nil {
		return err
	}
	return decodeObject(place{"the body", noIndex}, whole, reflect.ValueOf(into).Elem())
}

// place names a value of a request in an error: a field, or an element of a list.
type place struct {
	name  string
	index int
}

const noIndex = -1

// String is called for errors alone, since a list may be long.
func (p place) String() string {
	if p.index == noIndex {
		return p.name
	}
	return fmt.Sprintf("%s[%d]", p.name, p.index)
}

// decodeObject reads a valid JSON value into a struct.
func decodeObject(where place, raw []byte, into reflect.Value) error {
	fields := fieldsOf(into.Type())
	seen := make(map[string]bool, len(fields.names))
	err := jsonform.EachMember(where, raw, func(name string, value json.RawMessage) error {
		index, known := fields.index[name]
		switch {
		case !known:
			return fmt.Errorf("unknown field %q in %s; allowed here: %s", api.Visible(name), where, strings.Join(fields.names, ", "))
		case seen[name]:
			return fmt.Errorf("field %q is twice in %s", name, where)
		}
		seen[name] = true
		return decodeValue(place{name, noIndex}, value, into.FieldByIndex(index))
	})
	if err != nil {
		return err
	}
	for _, name := range fields.required {
		if !seen[name] {
			return fmt.Errorf("%s has no field %q, which it needs", where, name)
		}
	}
	return nil
}

// decodeValue reads a valid JSON value into a field.
func decodeValue(name place, raw []byte, into reflect.Value) error {
	if own, is := reflect.TypeAssert[fromJSON](into.Addr()); is {
		if _, takesNull := own.(*anyJSON); takesNull || !jsonform.IsNull(raw) {
			return named(name, own.fromJSON(raw))
		}
	}
	if jsonform.IsNull(raw) {
		return fmt.Errorf("%s: null is no value; leave the field out", name)
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return decodeValue(name, raw, into.Elem())
	case reflect.Struct:
		return decodeObject(name, raw, into)
	case reflect.Slice:
		return decodeList(name, raw, into)
	case reflect.Map:
		return decodeMap(name, raw, into)
	default:
		if json.Unmarshal(raw, into.Addr().Interface()) != nil {
			return fmt.Errorf("%s: %s is not %s", name, api.Visible(jsonform.Shown(raw)), wantOf(into.Type()))
		}
		return nil
	}
}

func decodeList(name place, raw []byte, into reflect.Value) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("%s: %s is no list", name, api.Visible(jsonform.Shown(raw)))
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, 0))
	for n := 0; d.More(); n++ {
		if n == listsMax[name.name] {
			return fmt.Errorf("%s: more than %d elements", name, listsMax[name.name])
		}
		into.Grow(1)
		into.SetLen(n + 1)
		if err := decodeElement(place{name.name, n}, d, into.Index(n)); err != nil {
			return err
		}
	}
	return nil
}

// decodeElement reads the next element of a list. Texts are read by themselves, because there may be very
// many.
func decodeElement(name place, d *json.Decoder, into reflect.Value) error {
	if into.Kind() == reflect.String {
		token, err := d.Token()
		text, isText := token.(string)
		if err != nil || !isText {
			return fmt.Errorf("%s is not a text", name)
		}
		into.SetString(text)
		return nil
	}
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return decodeValue(name, raw, into)
}

func decodeMap(name place, raw []byte, into reflect.Value) error {
	values := reflect.MakeMap(into.Type())
	err := jsonform.EachMember(name, raw, func(member string, value json.RawMessage) error {
		if values.MapIndex(reflect.ValueOf(member)).IsValid() {
			return fmt.Errorf("%s: %q is there twice", name, api.Visible(member))
		}
		if values.Len() == listsMax[name.name] {
			return fmt.Errorf("%s: more than %d", name, listsMax[name.name])
		}
		one := reflect.New(into.Type().Elem())
		if jsonform.IsNull(value) || json.Unmarshal(value, one.Interface()) != nil {
			return fmt.Errorf("%s: the value of %q is not %s", name, api.Visible(member), wantOf(into.Type().Elem()))
		}
		values.SetMapIndex(reflect.ValueOf(member), one.Elem())
		return nil
	})
	into.Set(values)
	return err
}

func named(name place, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// wantOf says what is allowed for a type.
func wantOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Float64:
		return "a number"
	case reflect.Uint32:
		return "a whole number from 0 to 4294967295"
	default:
		return "a whole number that is not negative"
	}
}

// fields are those of a struct by their names in JSON.
type fields struct {
	names    []string // in order
	required []string // of names
	index    map[string][]int
}

func fieldsOf(t reflect.Type) fields {
	f := fields{index: map[string][]int{}}
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		f.names = append(f.names, name)
		if options == "" { // as the document has it
			f.required = append(f.required, name)
		}
		f.index[name] = field.Index
	}
	slices.Sort(f.names)
	return f
}
