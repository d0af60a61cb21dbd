package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A scenario is a file of clients/conformance/scenarios; the README there says what its fields mean.
type scenario struct {
	About   string            `json:"about"`
	Needs   []string          `json:"needs"`
	Clocks  map[string]string `json:"clocks"`
	Lambdas []json.RawMessage `json:"lambdas"`
	Steps   []json.RawMessage `json:"steps"`
}

// A step has one of the fields of the first group.
type step struct {
	Call   string   `json:"call"`
	Answer string   `json:"answer"`
	Events []object `json:"events"`
	Never  object   `json:"never"`
	Fault  string   `json:"fault"`
	Pause  duration `json:"pause"`
	Tasks  *int     `json:"tasks"`
	Most   int      `json:"most"`

	On     string   `json:"on"`
	Within duration `json:"within"`
	Args   object   `json:"args"`
	Expect object   `json:"expect"`
	Error  string   `json:"error"`
	As     string   `json:"as"`
	Until  bool     `json:"until"`
	Later  bool     `json:"later"`
	Repeat int      `json:"repeat"`
}

type object = map[string]any

// duration is one as Go writes it.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func load(tb testing.TB, path string) (s scenario) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = strict(text, &s)
	}
	if err != nil {
		tb.Fatalf("%s: %v", filepath.Base(path), err)
	}
	return s
}

func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// reference is $(NAME.FIELD): a text in an answer.
var reference = regexp.MustCompile(`\$\(([\w.-]+)\)`)

// parse reads a step for the i-th time, with what earlier calls answered in place of references.
func parse(raw json.RawMessage, i int, answers object) (s step, err error) {
	text := strings.ReplaceAll(string(raw), "$i", strconv.Itoa(i))
	text = reference.ReplaceAllStringFunc(text, func(found string) string {
		var value any = answers
		for field := range strings.SplitSeq(found[2:len(found)-1], ".") {
			switch v := value.(type) {
			case object:
				value = v[field]
			case []any:
				n, _ := strconv.Atoi(field)
				value = v[n]
			}
		}
		word, isText := value.(string)
		if !isText {
			err = fmt.Errorf("no answer has %s", found)
		}
		return word
	})
	if err == nil {
		err = strict([]byte(text), &s)
	}
	return s, err
}

// fits reports whether a value has all that is wanted: of objects the fields, of a text with ~ the rest of it, everything
// else equal.
func fits(want, got any) bool {
	switch want := want.(type) {
	case object:
		fields, isObject := got.(object)
		for name, value := range want {
			isObject = isObject && fits(value, fields[name])
		}
		return isObject
	case []any:
		list, isList := got.([]any)
		isList = isList && len(list) == len(want)
		for i := range want {
			isList = isList && fits(want[i], list[i])
		}
		return isList
	case string:
		if part, isPart := strings.CutPrefix(want, "~"); isPart {
			text, _ := got.(string)
			return strings.Contains(text, part)
		}
	}
	return reflect.DeepEqual(want, got)
}
