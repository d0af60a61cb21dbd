package wirecopy_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/internal/wirecopy/wirecopytest"
)

type (
	wire struct {
		Id, Kind string //nolint:revive // as protobuf names it
		At, Long int64
		Limit    *uint32
		Count    *int64
		Weight   uint32
		Signed   int32
		Part     *wirePart
		Parts    []*wirePart
		ByName   map[string]uint32
		Alone    string
	}
	wirePart struct{ Name string }

	kind  string
	named struct {
		ID   string
		Kind kind
	}
	own struct {
		named

		At     time.Time
		Long   time.Duration
		Limit  int
		Count  int
		Weight int
		Signed int
		Part   part
		Parts  []part
		ByName map[kind]int
		Mine   string
	}
	part struct{ Name string }
)

func TestThereAndBack(t *testing.T) {
	t.Parallel()
	message := &wire{
		Id: "1", Kind: "k", At: 5_000_001, Long: 7, Limit: new(uint32(3)), Count: new(int64(4)), Weight: 5, Signed: -6,
		Part: &wirePart{"a"}, Parts: []*wirePart{{"b"}, {"c"}}, ByName: map[string]uint32{"x": 9},
	}
	value := wirecopy.From[own](message)
	want := own{
		named: named{"1", "k"}, At: time.UnixMicro(5_000_001).UTC(), Long: 7 * time.Microsecond, Limit: 3, Count: 4, Weight: 5, Signed: -6,
		Part: part{"a"}, Parts: []part{{"b"}, {"c"}}, ByName: map[kind]int{"x": 9},
	}
	if !reflect.DeepEqual(value, want) {
		t.Errorf("%+v, want %+v", value, want)
	}
	if back := wirecopy.To[wire](&value); !reflect.DeepEqual(back, message) {
		t.Errorf("%+v, want %+v", back, message)
	}
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	if got := wirecopy.From[own](&wire{}); !reflect.DeepEqual(got, own{Limit: -1, Count: -1}) {
		t.Errorf("of a message without fields: %+v", got)
	}
	if got := wirecopy.From[own, wire](nil); !reflect.DeepEqual(got, own{}) {
		t.Errorf("of no message: %+v", got)
	}
	if got := wirecopy.To[wire](&own{}); !reflect.DeepEqual(got, &wire{}) {
		t.Errorf("of a value without fields: %+v", got)
	}
}

func TestNumbersThatDoNotFit(t *testing.T) {
	t.Parallel()
	got := wirecopy.To[wire](&own{Limit: -1, Weight: -1, Signed: math.MaxInt64, Long: -time.Second})
	if *got.Limit != math.MaxInt32 || got.Weight != math.MaxInt32 || got.Signed != math.MaxInt32 || got.Long != -1_000_000 {
		t.Errorf("%+v", got)
	}
	if got := wirecopy.From[own](&wire{Long: math.MaxInt64}); got.Long < math.MaxInt64-time.Microsecond {
		t.Errorf("the longest duration: %v", got.Long)
	}
}

func TestUnmatched(t *testing.T) {
	t.Parallel()
	ofWire, ofGo := wirecopytest.Unmatched[own, wire]()
	if !reflect.DeepEqual(ofWire, []string{"Alone"}) || !reflect.DeepEqual(ofGo, []string{"Mine"}) {
		t.Errorf("%v and %v", ofWire, ofGo)
	}
}
