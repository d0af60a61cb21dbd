package cli

import (
	"fmt"
	"reflect"
	"testing"
)

// FuzzBatchLine holds the short way of reading a line against the long one.
func FuzzBatchLine(f *testing.F) {
	for _, line := range []string{
		`{"lambda":"a","in":"3d","payload":"x"}`, ` { "lambda" : "a" , "key":"k" } `, `{}`, `{"lambda":"a",}`, `{"lambda":"a"}x`,
		`{"lambda":"a","lambda":"b"}`, `{"lambda":"\u0061"}`, `{"payload":{"a":[1]},"lambda":"a"}`, `{"payload":null}`, `{"in":1}`,
		`{"lambda" "a"}`, `{"at":"2027-01-01T00:00:00Z","priority":"p","collection":"c","traceparent":"t"}`, "{\"key\":\"\x01\"}", "{\"key\":\"\xff\"}", `{"Lambda":"a"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var short, long batchLine
		if !short.scan(text) {
			return
		}
		if err := decodeLine(text, &long); err != nil || !reflect.DeepEqual(short, long) {
			t.Errorf("%q: %s, decoded %s, %v", text, show(short), show(long), err)
		}
	})
}

func show(l batchLine) string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%q %q %q %q %q %q %q %q", l.Lambda, text(l.In), text(l.At), l.Priority, l.Collection, l.Key, l.Traceparent, l.Payload)
}
