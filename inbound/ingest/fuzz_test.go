package ingest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/store"
)

func FuzzRejectedRow(f *testing.F) {
	full, err := json.Marshal(brokenMessage("body", errors.New("why")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, text := range []string{"", "{}", "null", `{"parts":-1,"bytes":1e99}`, `{"text":"` + strings.Repeat("\\u202e", 1000) + `"}`, strings.Repeat("[", 10_001)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var row rejectedRow
		alloctest.AtMost(t, uint64(32<<10+48*len(value)), func() { row = rowOf(store.Control{Kind: rejectedKind, Name: "n", Version: 2, Value: value}) })
		if row.name != "n" || row.version != 2 || !json.Valid(value) && row.Reason != ReasonUndecodable {
			t.Errorf("%+v", row)
		}
	})
}

// The beginning of a stranger's message is shown, without control characters.
func FuzzPlainText(f *testing.F) {
	for _, text := range []string{"", "why", strings.Repeat("ä", textMax), "\x1b[31m\u202e\u009b\xff", strings.Repeat("\u202e", 1<<16)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		alloctest.AtMost(t, 32<<10, func() {
			if plain := plainText(text); len(plain) > 6*textMax || api.Visible(plain) != plain {
				t.Errorf("%q", plain)
			}
		})
	})
}
