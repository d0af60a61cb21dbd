package dynamo

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/store"
)

func FuzzCursor(f *testing.F) {
	full, err := encodeCursor(item{"id": textValue("a"), "part": textValue("b")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, text := range []string{"", "{}", "null", `{"a":""}`, `{"a":"b","a":"c"}`, "{" + strings.Repeat(`"a":"b",`, 10_000) + `"c":"d"}`, `{"a":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var last item
		var err error
		alloctest.AtMost(t, uint64(32<<10+128*min(len(text), cursorBytesMax)), func() { last, err = decodeCursor(text) })
		if err != nil {
			if !errors.Is(err, store.ErrMalformed) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		again, err := encodeCursor(last)
		if err != nil {
			t.Fatal(err)
		}
		second, err := decodeCursor(again)
		if len(again) <= cursorBytesMax && (err != nil || !reflect.DeepEqual(last, second)) {
			t.Errorf("second round: %v, %v, %v", last, second, err)
		}
	})
}
