package catalog

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// rowBound is what decoding a row may allocate.
func rowBound(value []byte) uint64 { return uint64(64<<10 + 64*len(value)) }

func FuzzDecodeLambda(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"ref":1,"mode":"managed","priorities":["default"],"shards":1}`, `{"ref":1,"shard_history":[{"from":1,"shards":2}],"deleting":true,"dropping_at":1}`,
		`{"priorities":[` + strings.Repeat(`"",`, 10_000) + `""]}`, `{"ref":-1}`, "null",
	} {
		f.Add([]byte(text))
	}
	entry, err := encode(&Entry{Lambda: task.Lambda{Name: "mail", Ref: 7}.WithDefaults()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(entry.Value)
	f.Fuzz(func(t *testing.T, value []byte) {
		var e *Entry
		var err error
		alloctest.AtMost(t, rowBound(value), func() { e, err = decode(store.Control{Kind: Kind, Name: "mail", Version: 1, Value: value}) })
		if err != nil {
			return
		}
		row, err := encode(e)
		if err != nil {
			t.Fatal(err)
		}
		second, err := decode(store.Control{Kind: Kind, Name: "mail", Version: 1, Value: row.Value})
		if err != nil || !reflect.DeepEqual(e.Lambda, second.Lambda) {
			t.Errorf("second round: %v\n%+v\n%+v", err, e, second)
		}
	})
}
