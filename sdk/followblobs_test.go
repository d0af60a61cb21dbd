package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// followers has tasks whose payload is a letter, repeated, and notes of each which it was. The letter "x"
// fails for good, and "m" adds a large follow-up "n".
func followers(t *testing.T, opts ...sdktest.Option) (k *sdktest.Kinesin, got *[]string) {
	t.Helper()
	k, got = sdktest.New(t, append(opts, sdktest.PayloadCodec(rotating{}))...), new([]string)
	k.Lambda("step")
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	w.Register("step", func(_ context.Context, t *sdk.Task[[]byte]) error {
		*got = append(*got, fmt.Sprintf("%c%d", t.Payload[0], len(t.Payload)))
		switch t.Payload[0] {
		case 'x':
			return sdk.Fatal(errors.New("no"))
		case 'm':
			t.Then(step("n", 200_000), step("o", 200_000))
		case 'z':
			t.Then(keyedStep("n", 1, "\xff"))
		}
		return nil
	})
	k.Run(w)
	return k, got
}

func step(letter string, n int) sdk.Step {
	return sdk.Item{Lambda: "step", Payload: bytes.Repeat([]byte(letter), n)}.Step()
}

func keyedStep(letter string, n int, key string) sdk.Step {
	return sdk.Item{Lambda: "step", Payload: bytes.Repeat([]byte(letter), n), Key: key}.Step()
}

func openPlace(t *testing.T) *blobs.Dir {
	t.Helper()
	d, err := blobs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Large payloads of what follows a task are blobs on each edge, at each depth, with a key of their own or
// not, and so are those that a handler adds and those that are too large only together.
func TestPayloadsOfFollowUpsMayBeBlobs(t *testing.T) {
	t.Parallel()
	k, got := followers(t, sdktest.Blobs(openPlace(t), 0))
	chain := step("a", 10).Finally(keyedStep("b", 300_000, "mine")).
		Then(step("c", 300_000).Then(step("x", 1_000_000).Else(step("d", 400_000), step("e", 10)).After(time.Hour)), step("m", 5))
	for i := range 10 {
		chain = chain.Then(step(string(rune('0'+i)), 40_000))
	}
	id, err := sdk.Chain(chain).Schedule(t.Context(), k.Client())
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(2 * time.Hour)
	want := strings.Fields("a10 b300000 c300000 d400000 e10 m5 n200000 o200000 x1000000")
	for i := range 10 {
		want = append(want, fmt.Sprintf("%d40000", i))
	}
	slices.Sort(*got)
	slices.Sort(want)
	if !slices.Equal(*got, want) {
		t.Errorf("%q, want %q", *got, want)
	}
	c, err := k.Client().GetChain(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	large := c.Root.Followups[0]
	if info, err := k.Client().Get(t.Context(), large.ID, sdk.WithPayload()); err != nil || len(info.Payload) != 300_000 {
		t.Errorf("read: payload of %d bytes, %v", len(info.Payload), err)
	}
}

// A follow-up with a text that is no UTF-8 fails its attempt. On the wire it would take the results of others along.
func TestFollowUpsAreText(t *testing.T) {
	t.Parallel()
	k, got := followers(t)
	id, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: "step", Payload: []byte("z"), MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Minute)
	if info := k.Task(id.ID); info.State != sdk.StateDead || !strings.Contains(info.Attempts[0].Error, "what follows the task: ") || len(*got) != 1 {
		t.Errorf("%+v, %q", info, *got)
	}
}

// The same call again is the same task, although it makes other blobs. Another payload of a follow-up is not.
func TestFollowUpsWithBlobsAreScheduledAgain(t *testing.T) {
	t.Parallel()
	k, got := followers(t, sdktest.Blobs(openPlace(t), blobLimit))
	schedule := func(letter string) (sdk.Result, error) {
		item, err := sdk.Chain(keyedStep("a", 2000, "k"), step(letter, 2000), keyedStep("c", 2000, "l")).Item(sdk.In(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return k.Client().Schedule(t.Context(), item)
	}
	for i := range 2 {
		if r, err := schedule("b"); err != nil || r.Duplicate != (i > 0) {
			t.Errorf("call %d: %+v, %v", i, r, err)
		}
	}
	if _, err := schedule("z"); !errors.Is(err, sdk.ErrKeyConflict) {
		t.Errorf("another payload: %v", err)
	}
	k.Advance(2 * time.Hour)
	if want := []string{"a2000", "b2000", "c2000"}; !slices.Equal(*got, want) {
		t.Errorf("%q, want %q", *got, want)
	}
}

// A follow-up with a key for its blob alone follows each end of a task that is redriven, as one without.
func TestAFollowUpWithABlobFollowsEachEnd(t *testing.T) {
	t.Parallel()
	k, got := followers(t, sdktest.Blobs(openPlace(t), blobLimit))
	id, err := sdk.Chain(step("x", 10)).OnFailure(step("u", 2000)).Schedule(t.Context(), k.Client())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		k.Advance(time.Minute)
		if _, err := k.Admin().Chains.Redrive(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	k.Advance(time.Minute)
	if want := strings.Fields("x10 u2000 x10 u2000 x10 u2000"); !slices.Equal(*got, want) {
		t.Errorf("%q, want %q", *got, want)
	}
}

// Without a place for blobs a large follow-up is refused, and the error says what takes it. A place that
// fails schedules nothing.
func TestALargeFollowUpNeedsAPlace(t *testing.T) {
	t.Parallel()
	k, _ := followers(t)
	chain := sdk.Chain(step("a", 10), step("b", 300_000))
	if _, err := chain.Schedule(t.Context(), k.Client()); !errors.Is(err, sdk.ErrTooLarge) || !strings.Contains(err.Error(), "--blobs") {
		t.Errorf("without a place: %v", err)
	}
	broken := &place{Dir: openPlace(t), putFail: errors.New("disk full")}
	k, got := followers(t, sdktest.Blobs(broken, 0))
	if _, err := chain.Schedule(t.Context(), k.Client()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a place that fails: %v", err)
	}
	if k.Advance(time.Hour); len(*got) != 0 {
		t.Errorf("ran %q", *got)
	}
}
