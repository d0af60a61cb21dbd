package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
	"github.com/kinesin-io/kinesin/task"
)

const blobLimit = 1000

// place is a directory for blobs that fails when it is told to.
type place struct {
	*blobs.Dir

	dir     string
	putFail error
	cut     bool // Get returns less than it should
}

func (p *place) Put(ctx context.Context, name string, data []byte) error {
	if p.putFail != nil {
		return p.putFail
	}
	return p.Dir.Put(ctx, name, data)
}

func (p *place) Get(ctx context.Context, name string, bytesMax int64) ([]byte, error) {
	data, err := p.Dir.Get(ctx, name, bytesMax)
	if p.cut && err == nil {
		return data[:len(data)-1], nil
	}
	return data, err
}

func (p *place) files(t *testing.T) (all []string) {
	t.Helper()
	if err := p.List(t.Context(), func(e blobs.Entry) error { all = append(all, filepath.Join(p.dir, e.Name)); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// blobRig is a Kinesin with a place for blobs and a worker that keeps the payloads that it got.
func blobRig(t *testing.T, opts ...sdktest.Option) (k *sdktest.Kinesin, p *place, got *[]string) {
	t.Helper()
	dir := t.TempDir()
	d, err := blobs.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	p, got = &place{Dir: d, dir: dir}, new([]string)
	k = sdktest.New(t, append(opts, sdktest.Blobs(p, blobLimit))...)
	k.Lambda("report", admin.Lambda{BackoffMin: time.Minute, BackoffMax: time.Minute})
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	w.Register("report", func(_ context.Context, task *sdk.Task[[]byte]) error {
		*got = append(*got, string(task.Payload))
		return nil
	})
	k.Run(w)
	return k, p, got
}

func report(payload []byte, key string) sdk.Item {
	return sdk.Item{Lambda: "report", Payload: payload, In: time.Hour, Key: key}
}

func TestLargePayloadsAreBlobs(t *testing.T) {
	k, p, got := blobRig(t)
	large, other := bytes.Repeat([]byte("l"), blobLimit+1), bytes.Repeat([]byte("o"), 5<<20)
	small := large[:blobLimit]
	results, err := k.Client().ScheduleMany(t.Context(), []sdk.Item{report(large, ""), report(small, ""), report(other, "mine"), report(large, "")})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.files(t)); n != 3 {
		t.Errorf("%d blobs", n)
	}
	for i, want := range [][]byte{large, small, other, large} {
		info, err := k.Client().Get(t.Context(), results[i].ID, sdk.WithPayload())
		if err != nil || !bytes.Equal(info.Payload, want) || info.PayloadBytes != int64(len(want)) {
			t.Errorf("task %d: %d bytes, %d of them read, %v", i, info.PayloadBytes, len(info.Payload), err)
		}
		if key := info.Key; (i == 2) != (key == "mine") || (i == 1) != (key == "") || i%3 == 0 && !strings.HasPrefix(key, "blob-") {
			t.Errorf("task %d has the key %q", i, key)
		}
	}
	again, err := k.Client().Schedule(t.Context(), report(other, "mine"))
	if err != nil || !again.Duplicate || again.ID != results[2].ID {
		t.Errorf("the same key and payload: %+v, %v", again, err)
	}
	for _, payload := range [][]byte{large, small} {
		if _, err := k.Client().Schedule(t.Context(), report(payload, "mine")); !errors.Is(err, sdk.ErrKeyConflict) {
			t.Errorf("the same key and another payload: %v", err)
		}
	}
	k.Advance(time.Hour)
	want := []string{string(large), string(small), string(other), string(large)}
	slices.Sort(want)
	if slices.Sort(*got); !slices.Equal(*got, want) {
		t.Errorf("the handler got %d payloads", len(*got))
	}
}

// The encoded payload is uploaded, also when only the codec makes it large.
func TestBlobsAreEncoded(t *testing.T) {
	k, p, got := blobRig(t, sdktest.PayloadCodec(aesgcm(t, "a")))
	secret := bytes.Repeat([]byte("secret"), 1000)
	for _, payload := range [][]byte{secret, secret[:blobLimit-1]} {
		if _, err := k.Client().Schedule(t.Context(), report(payload, "")); err != nil {
			t.Fatal(err)
		}
	}
	files := p.files(t)
	for _, file := range files {
		if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte("secretsecret")) {
			t.Errorf("a blob of %d bytes is readable, %v", len(data), err)
		}
	}
	k.Advance(time.Hour)
	if len(files) != 2 || len(*got) != 2 || !slices.Contains(*got, string(secret)) {
		t.Errorf("%d blobs, the handler got %d payloads", len(files), len(*got))
	}
}

// A task whose payload is not kept is not scheduled.
func TestNoTaskWithoutItsBlob(t *testing.T) {
	k, p, _ := blobRig(t)
	p.putFail = errors.New("disk full")
	results, err := k.Client().ScheduleMany(t.Context(), []sdk.Item{report(make([]byte, 2*blobLimit), ""), report([]byte("small"), "")})
	if !errors.Is(results[0].Err, p.putFail) || results[1].Err != nil || !errors.Is(err, p.putFail) {
		t.Errorf("got %v, %v", results, err)
	}
	if all := k.Tasks("report"); len(all) != 1 {
		t.Errorf("%d tasks", len(all))
	}
}

func TestBlobThatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(p *place, file string) error
		text   string
	}{
		"missing":   {func(_ *place, file string) error { return os.Remove(file) }, "no such blob"},
		"altered":   {func(_ *place, file string) error { return os.WriteFile(file, make([]byte, 2*blobLimit), 0o600) }, "was altered"},
		"larger":    {func(_ *place, file string) error { return os.WriteFile(file, make([]byte, 3*blobLimit), 0o600) }, "too large"},
		"truncated": {func(p *place, _ string) error { p.cut = true; return nil }, "was altered"},
	} {
		k, p, got := blobRig(t)
		r, err := k.Client().Schedule(t.Context(), report(bytes.Repeat([]byte("l"), 2*blobLimit), ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.damage(p, p.files(t)[0]); err != nil {
			t.Fatal(err)
		}
		info, err := k.Client().Get(t.Context(), r.ID, sdk.WithPayload())
		if err == nil || !strings.Contains(err.Error(), c.text) || info.Payload != nil || info.Lambda != "report" {
			t.Errorf("%s: get: %v, %d bytes", name, err, len(info.Payload))
		}
		k.Advance(time.Hour)
		if info, err = k.Client().Get(t.Context(), r.ID); err != nil || info.State != sdk.StateRetriableFailure {
			t.Fatalf("%s: %s, %v", name, info.State, err)
		}
		if text := info.Attempts[0].Error; !strings.Contains(text, c.text) || len(*got) != 0 {
			t.Errorf("%s: the attempt failed with %q, the handler got %d payloads", name, text, len(*got))
		}
	}
}

func TestBlobLimits(t *testing.T) {
	k, p, _ := blobRig(t)
	_, err := k.Client().Schedule(t.Context(), report(make([]byte, task.BlobBytesMax+1), ""))
	if !errors.Is(err, sdk.ErrTooLarge) || !strings.Contains(err.Error(), "104857601 bytes: at most 104857600") || len(p.files(t)) != 0 {
		t.Errorf("got %v", err)
	}
	k.Lambda("consumer", admin.Lambda{Mode: admin.ModeDeliver})
	_, err = k.Client().Schedule(t.Context(), sdk.Item{Lambda: "consumer", Payload: make([]byte, 2*blobLimit)})
	if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "consumers cannot read blobs") {
		t.Errorf("a deliver lambda: %v", err)
	}
	without := sdktest.New(t)
	without.Lambda("report")
	_, err = without.Client().Schedule(t.Context(), report(make([]byte, 1<<20), ""))
	if !errors.Is(err, sdk.ErrTooLarge) || !strings.Contains(err.Error(), "sdk.WithBlobs") {
		t.Errorf("without a place: %v", err)
	}
}

func TestAPayloadIsReplacedByABlobAndBack(t *testing.T) {
	k, p, got := blobRig(t)
	large := bytes.Repeat([]byte("l"), 2*blobLimit)
	for _, key := range []string{"", "mine"} {
		*got = nil
		r, err := k.Client().Schedule(t.Context(), report([]byte("small"), key))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Client().Update(t.Context(), r.ID, sdk.Update{MaxAttempts: 3, Payload: large}); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Client().Update(t.Context(), r.ID, sdk.Update{MaxAttempts: 4}); err != nil { // the payload stays
			t.Fatal(err)
		}
		k.Advance(time.Hour)
		if !slices.Equal(*got, []string{string(large)}) {
			t.Errorf("key %q: the handler got %d payloads", key, len(*got))
		}
		for n, opts := range [][]sdk.ChangeOption{{sdk.WithNewPayload([]byte("again"))}, {sdk.WithNewPayload(large)}, {}} { // at last with what it had
			changed, err := k.Client().Redrive(t.Context(), []sdk.ID{r.ID}, append(opts, sdk.Force())...)
			if err != nil || changed[0].Err != nil {
				t.Fatal(changed, err)
			}
			info, err := k.Client().Get(t.Context(), r.ID, sdk.WithPayload())
			if want := []string{"again", string(large), string(large)}[n]; err != nil || string(info.Payload) != want {
				t.Errorf("key %q, redrive %d: a payload of %d bytes, %v", key, n, len(info.Payload), err)
			}
			if _, err := k.Client().Cancel(t.Context(), r.ID); err != nil && !errors.Is(err, sdk.ErrTooLate) { // it may have run
				t.Fatal(err)
			}
			if _, err := k.Client().Wait(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(p.files(t)); n != 4 {
		t.Errorf("%d blobs", n)
	}
}

func TestAHeldKeyIsGivenABlob(t *testing.T) {
	k, _, got := blobRig(t)
	if _, err := k.Client().Schedule(t.Context(), report([]byte("small"), "mine")); err != nil {
		t.Fatal(err)
	}
	large := report(bytes.Repeat([]byte("l"), 2*blobLimit), "mine")
	large.OnConflict = sdk.ConflictReplace
	if r, err := k.Client().Schedule(t.Context(), large); err != nil || !r.Replaced {
		t.Fatal(r, err)
	}
	k.Advance(time.Hour)
	if !slices.Equal(*got, []string{string(large.Payload)}) {
		t.Errorf("the handler got %q", *got)
	}
}

// A server may delete a blob after a day that no task names, so one that took long to schedule is put again.
func TestABlobIsPutAgainWhenTheAnswerIsLate(t *testing.T) {
	s := newServer(t)
	d, err := blobs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	late := &clocktest.Settable{Clock: clock.Real()}
	p := &place{Dir: d}
	c := s.client(t, sdk.WithBlobs(p, 10), sdkconfig.WithClock(late))
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		late.Step(2 * time.Hour)
		for _, name := range p.files(t) { // names, without a directory before them
			_ = d.Delete(t.Context(), name)
		}
		return accept(r), nil
	}
	if _, err := c.Schedule(t.Context(), report(make([]byte, 11), "")); err != nil || len(p.files(t)) != 1 {
		t.Errorf("%v, %d blobs", err, len(p.files(t)))
	}
}

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
