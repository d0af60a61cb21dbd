package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// A group whose members take a month runs in milliseconds.
func TestAGroupInVirtualTime(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	var seen []sdk.GroupEnd
	resize, report := sdk.NewLambda[int]("resize"), sdk.NewLambda[string]("report")
	k.Lambda("resize")
	k.Lambda("report")
	k.Start(func(ctx context.Context) error {
		w := sdk.NewWorker(k.Client(), sdk.Slots(5))
		resize.Handle(w, func(_ context.Context, t *sdk.Task[int]) error {
			if t.Args == 3 {
				return sdk.Fatal(errors.New("no such picture"))
			}
			t.SetResult(t.Args * t.Args)
			return nil
		})
		report.Handle(w, func(_ context.Context, t *sdk.Task[string]) error {
			if t.Args == "all" {
				seen = append(seen, *t.Group)
			}
			return nil
		})
		return w.Run(ctx)
	})
	if _, err := sdk.Group(sdk.Item{Lambda: "resize"}).Schedule(t.Context(), k.Client()); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "no task follows the group: want one in then, else or finally") {
		t.Error(err)
	}
	then, err := report.Item("all", sdk.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var members []sdk.Item
	for i := range 25 {
		item, err := resize.Item(i, sdk.In(time.Duration(i)*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, item)
	}
	g, err := sdk.Group(members...).Then(then).Schedule(t.Context(), k.Client())
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(24*24*time.Hour + 30*time.Minute)
	if len(seen) > 0 {
		t.Fatal("it followed before its delay was over")
	}
	k.Advance(time.Hour)
	want := map[sdk.State]int{sdk.StateSuccess: 24, sdk.StateFatalFailure: 1}
	if len(seen) != 1 || seen[0].ID != g.ID || seen[0].Members != 25 || seen[0].Succeeded() != 24 || fmt.Sprint(seen[0].Ended) != fmt.Sprint(want) {
		t.Fatalf("%+v", seen)
	}
	sum := 0
	for m, err := range k.Client().GroupMembers(t.Context(), g.ID) {
		var n int
		if err != nil {
			t.Fatal(err)
		}
		if m.Task.State == sdk.StateSuccess {
			if _, err := fmt.Sscan(string(m.Task.Result), &n); err != nil || m.Task.Member.Index != m.Index {
				t.Errorf("%+v, %v", m, err)
			}
		}
		sum += n
	}
	if sum != 4900-9 {
		t.Errorf("the sum of squares is %d", sum)
	}
	info, err := k.Client().GetGroup(t.Context(), g.ID)
	if err != nil || info.State != "done" || info.FollowUp == "" || info.Then != "report" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := k.Client().SealGroup(t.Context(), g.ID, 24); !errors.Is(err, sdk.ErrStaleSeq) {
		t.Errorf("seal with another number: %v", err)
	}
	if follow, err := k.Client().Get(t.Context(), info.FollowUp); err != nil || follow.Group == nil || follow.Group.ID != g.ID {
		t.Errorf("%+v, %v", follow, err)
	}
}

// Else follows in place of Then, if a member fails or the group expires, and Then alone if all succeed.
func TestElseOfAGroup(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		member string
		state  string
		want   string // what followed, and how many members had succeeded
	}{
		"all succeed":       {"fine", "done", "then 2"},
		"a member fails":    {"fails", "done", "else 1"},
		"a member waits on": {"waits", "expired", "else 1 expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := sdktest.New(t)
			part, whole := sdk.NewLambda[string]("part", sdk.MaxAttempts(1)), sdk.NewLambda[string]("whole")
			k.Lambda("part")
			k.Lambda("whole")
			var followed []string
			k.Start(func(ctx context.Context) error {
				w := sdk.NewWorker(k.Client(), sdk.Slots(1))
				part.Handle(w, func(_ context.Context, t *sdk.Task[string]) error {
					switch t.Args {
					case "fails":
						return errors.New("no")
					case "waits":
						return sdk.Snooze(day)
					}
					return nil
				})
				whole.Handle(w, func(_ context.Context, t *sdk.Task[string]) error {
					text := fmt.Sprint(t.Args, " ", t.Group.Succeeded())
					if t.Group.Expired {
						text += " expired"
					}
					followed = append(followed, text)
					return nil
				})
				return w.Run(ctx)
			})
			item := func(l sdk.Lambda[string], args string) sdk.Item {
				t.Helper()
				i, err := l.Item(args)
				if err != nil {
					t.Fatal(err)
				}
				return i
			}
			expires := k.Now().Add(3 * day)
			g, err := sdk.Group(item(part, "fine"), item(part, c.member)).
				Then(item(whole, "then")).Else(item(whole, "else")).Expires(expires).Schedule(t.Context(), k.Client())
			if err != nil || !g.Expires.Equal(expires) || g.Else != "whole" {
				t.Fatalf("%+v, %v", g, err)
			}
			k.Advance(3*day + time.Hour) // groups are kept for a day after their expiry
			if g, err = k.Client().GetGroup(t.Context(), g.ID); err != nil || g.State != c.state {
				t.Errorf("%+v, %v: want it %s", g, err, c.state)
			}
			if len(followed) != 1 || followed[0] != c.want {
				t.Errorf("followed %q, want %q", followed, c.want)
			}
		})
	}
}

// A time at which a group cannot expire is refused, and so is a member that is due after it.
func TestExpiryOfAGroupIsChecked(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	k.Lambda("part")
	then := sdk.Item{Lambda: "part"}
	for _, in := range []time.Duration{-time.Hour, 367 * 24 * time.Hour} {
		if g, err := sdk.Group().Then(then).Expires(k.Now().Add(in)).Schedule(t.Context(), k.Client()); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("in %v: %+v, %v", in, g, err)
		}
	}
	late := sdk.Item{Lambda: "part", In: 2 * time.Hour}
	if g, err := sdk.Group(late).Then(then).Expires(k.Now().Add(time.Hour)).Schedule(t.Context(), k.Client()); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("a member that is due too late: %+v, %v", g, err)
	}
}

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
