package lease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func FuzzDecodeLease(f *testing.F) {
	full, err := encode(&Lease{Worker: "w", Name: "host-1", Length: 15 * time.Second, Receipt: 5, Beat: 2, Suspect: task.ID{1}, Attend: 3, Lost: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full.Value)
	for _, text := range []string{"", "{}", "null", `{"length_us":-9223372036854775808}`, `{"suspect":"x"}`, `{"name":"` + strings.Repeat("\\u0000", 10_000) + `"}`, strings.Repeat("[", 10_001)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var l Lease
		var err error
		alloctest.AtMost(t, uint64(32<<10+48*len(value)), func() { l, err = decode(&store.Control{Kind: Kind, Name: "w", Version: 1, Value: value}) })
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		row, err := encode(&l)
		if err != nil {
			t.Fatal(err)
		}
		row.Version = 1
		if second, err := decode(&row); err != nil || second != l {
			t.Errorf("second round: %v\n%+v\n%+v", err, l, second)
		}
	})
}
