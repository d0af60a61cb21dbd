package fleet

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/store"
)

func FuzzMemberRow(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", `{"run":"r","beat":1,"wall_us":2,"format":1,"state":"ready","view":"7","without":[1,2]}`, `{"view":7}`,
		`{"without":[` + strings.Repeat("0,", 10_000) + `0]}`, strings.Repeat("[", 10_001),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		alloctest.AtMost(t, uint64(32<<10+48*len(value)), func() { decode(&store.Control{Kind: Kind, Name: "m", Value: value}) })
	})
}
