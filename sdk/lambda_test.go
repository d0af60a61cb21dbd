package sdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// Pair is what tasks of the tests are about.
type Pair struct{ Left, Right string }

// equals writes a Pair as "left=right".
type equals struct{}

var errForm = errors.New("want left=right")

func (equals) Marshal(v any) ([]byte, error) {
	p, is := v.(Pair)
	if !is || p.Left == "" {
		return nil, errForm
	}
	return []byte(p.Left + "=" + p.Right), nil
}

func (equals) Unmarshal(data []byte, v any) error {
	into, is := v.(*Pair)
	left, right, found := strings.Cut(string(data), "=")
	if !is || !found {
		return errForm
	}
	*into = Pair{left, right}
	return nil
}

// A lambda's own codec encodes the arguments of all its tasks, and decodes them for its handler. Arguments
// that cannot be encoded schedule nothing, and a payload that cannot be decoded fails for good.
func TestALambdaWithItsOwnCodec(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	asJSON := sdk.NewLambda[Pair]("pairs", sdk.MaxAttempts(9))
	pairs := asJSON.WithCodec(equals{})
	k.Lambda("pairs")
	var got []Pair
	k.Start(func(ctx context.Context) error {
		w := sdk.NewWorker(k.Client(), sdk.Slots(1))
		pairs.Handle(w, func(_ context.Context, t *sdk.Task[Pair]) error {
			got = append(got, t.Args)
			return nil
		})
		return w.Run(ctx)
	})
	ctx, in := t.Context(), sdk.In(time.Hour)
	one, err := pairs.Schedule(ctx, k.Client(), Pair{"a", "1"}, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sdk.Chain(pairs.With(Pair{"b", "2"}), pairs.With(Pair{"c", "3"})).Schedule(ctx, k.Client(), in); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		func() error { _, err := pairs.Schedule(ctx, k.Client(), Pair{}); return err }(),
		func() error { _, err := sdk.Chain(pairs.With(Pair{})).Schedule(ctx, k.Client()); return err }(),
		func() error {
			_, err := pairs.ScheduleMany(ctx, k.Client(), []sdk.Call[Pair]{{Args: Pair{"e", "5"}}, {}})
			return err
		}(),
	} {
		if !errors.Is(err, errForm) || !strings.Contains(err.Error(), "pairs") {
			t.Errorf("arguments that cannot be encoded: %v", err)
		}
	}
	info := k.Task(one)
	if p, err := pairs.Decode(info.Payload); string(info.Payload) != "a=1" || err != nil || p != (Pair{"a", "1"}) || info.MaxAttempts != 9 {
		t.Errorf("%+v, %v", info, err)
	}
	sdktest.RequireScheduled(t, k, pairs, sdktest.Args(Pair{"a", "1"}), sdktest.In(time.Hour))
	other, err := asJSON.Schedule(ctx, k.Client(), Pair{"d", "4"}, in)
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Hour)
	if len(got) != 3 {
		t.Errorf("handled %v, want a=1, b=2 and c=3", got)
	}
	failed := sdktest.RequireState(t, k, other, sdk.StateFatalFailure)
	if n := len(failed.Attempts); n != 1 || !strings.Contains(failed.Attempts[0].Error, errForm.Error()) {
		t.Errorf("attempts %+v", failed.Attempts)
	}
}
