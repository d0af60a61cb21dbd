package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// rotating is a codec that binds a payload to its task.
type rotating struct{}

func (rotating) Encode(_ context.Context, p sdk.PayloadContext, plain []byte) ([]byte, error) {
	return append(append([]byte("encoded:"), p.AssociatedData()...), plain...), nil
}

func (rotating) Decode(_ context.Context, p sdk.PayloadContext, encoded []byte) ([]byte, error) {
	plain, is := bytes.CutPrefix(encoded, append([]byte("encoded:"), p.AssociatedData()...))
	if !is {
		return nil, sdk.Fatal(errors.New("encoded for another task"))
	}
	return plain, nil
}

// Payloads of members and of what follows a group are encoded, and large ones are blobs, small or large, with
// a key or without one.
func TestPayloadsOfGroupsAreEncodedAndMayBeBlobs(t *testing.T) {
	t.Parallel()
	place, err := blobs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = place.Close() })
	k := sdktest.New(t, sdktest.PayloadCodec(rotating{}), sdktest.Blobs(place, blobLimit))
	k.Lambda("part")
	k.Lambda("whole")
	var mu sync.Mutex
	got := map[string]int{} // guarded by mu
	k.Start(func(ctx context.Context) error {
		w := sdk.NewWorker(k.Client(), sdk.Slots(5))
		for _, name := range []string{"part", "whole"} {
			w.Register(name, func(_ context.Context, t *sdk.Task[[]byte]) error {
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprintf("%s %c %d", t.Lambda, t.Payload[0], len(t.Payload))]++
				t.SetResult(t.Payload[:1])
				return nil
			})
		}
		return w.Run(ctx)
	})
	of := func(lambda, letter string, n int, key string) sdk.Item {
		return sdk.Item{Lambda: lambda, Payload: bytes.Repeat([]byte(letter), n), Key: key}
	}
	g, err := sdk.Group(of("part", "a", 10, ""), of("part", "b", 5000, "")).
		Then(of("whole", "c", 10, ""), of("whole", "d", 300_000, "")).Finally(of("whole", "e", 10, "k"), of("whole", "f", 5000, "l")).Schedule(t.Context(), k.Client())
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := k.Client().AddMembers(t.Context(), g.ID, 0, []sdk.Item{of("part", "a", 10, ""), of("part", "b", 5000, "")}); err != nil || len(ids) != 2 {
		t.Errorf("added again: %v, %v", ids, err)
	}
	k.Advance(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{"part a 10": 1, "part b 5000": 1, "whole c 10": 1, "whole d 300000": 1, "whole e 10": 1, "whole f 5000": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if g, err = k.Client().GetGroup(t.Context(), g.ID); err != nil || len(g.FollowUps) != 4 {
		t.Fatalf("%+v, %v", g, err)
	}
	for i, f := range g.FollowUps {
		info, err := k.Client().Get(t.Context(), f.ID, sdk.WithPayload())
		if err != nil || len(info.Payload) != []int{10, 300_000, 10, 5000}[i] {
			t.Errorf("%+v: payload of %d bytes, %v", f, len(info.Payload), err)
		}
	}
	for m, err := range k.Client().GroupMembers(t.Context(), g.ID) {
		if err != nil || len(m.Task.Result) == 0 {
			t.Errorf("%+v, %v", m, err)
		}
	}
}
