package chain

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// randomFollowups returns what may follow a task, with branches so deep.
func randomFollowups(r *rand.Rand, depth int) *kinesinv1.Followups {
	f := &kinesinv1.Followups{}
	for _, edge := range []*[]*kinesinv1.ScheduleItem{&f.Then, &f.Else, &f.Finally} {
		for range r.IntN(3) {
			item := &kinesinv1.ScheduleItem{
				Lambda: fmt.Sprintf("lambda-%d", r.IntN(100)), LambdaRef: r.Uint32N(300), Payload: make([]byte, r.IntN(300)),
				Delay: r.Int64N(2), Key: "é"[:2*r.IntN(2)], Tags: map[string]string{"b": "1", "a": "2"}, Blob: &kinesinv1.Blob{Bytes: r.Int64N(9)},
			}
			if depth > 0 {
				next := randomFollowups(r, depth-1)
				item.Then, item.Else, item.Finally = next.Then, next.Else, next.Finally
			}
			*edge = append(*edge, item)
		}
	}
	return f
}

// The bytes are part of the id of a payload row, and another release may decode and encode instead.
func TestSplitIsWhatDecodingAndEncodingGives(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := randomFollowups(r, 3)
		b, err := encode(f)
		if err != nil {
			t.Fatal(err)
		}
		branches, err := split(b)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for place, item := range All(f) {
			got := branches[i]
			i++
			want, err := encode(Of(item))
			if err != nil {
				t.Fatal(err)
			}
			if got.place != place || !bytes.Equal(got.follow, want) || int(got.count) != Count(Of(item)) {
				t.Fatalf("%s is %s with %d follow-ups in %x: want %d in %x", place, got.place, got.count, got.follow, Count(Of(item)), want)
			}
			own := proto.CloneOf(item)
			own.Then, own.Else, own.Finally = nil, nil, nil
			if !proto.Equal(got.item, own) {
				t.Fatalf("%s is %v: want %v", place, got.item, own)
			}
		}
		if i != len(branches) {
			t.Fatalf("%d branches: want %d", len(branches), i)
		}
	}
	if _, err := split([]byte{0x0a, 0x05, 0x01}); err == nil {
		t.Fatal("split took bytes that end too early")
	}
}
