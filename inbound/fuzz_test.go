package inbound

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

func FuzzCursor(f *testing.F) {
	full, err := json.Marshal(cursor{Section: 1, Partition: 2, After: 3, ID: "x", Inner: []byte("inner")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, text := range []string{"{}", "null", `{"c":"` + strings.Repeat("AAAA", 10_000) + `"}`, strings.Repeat("[", 10_001), `{"p":-1}`, `{"a":-1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c cursor
		var err error
		alloctest.AtMost(t, uint64(32<<10+48*len(text)), func() { c, err = decodeCursor(text) })
		if err == nil && (c.Section >= sectionEnd || c.Partition < 0 || c.After < 0) {
			t.Errorf("accepted: %+v", c)
		}
	})
}
