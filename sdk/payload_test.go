package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// payloadKey returns a key whose secret follows from its id.
func payloadKey(id string) sdk.PayloadKey {
	return sdk.PayloadKey{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)}
}

func aesgcm(tb testing.TB, ids ...string) *sdk.AESGCMCodec {
	tb.Helper()
	var keys []sdk.PayloadKey
	for _, id := range ids {
		keys = append(keys, payloadKey(id))
	}
	c, err := sdk.NewAESGCMCodec(keys...)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// isFatal reports whether an attempt that ends with err is not tried again.
func isFatal(err error) bool {
	fatal := reflect.TypeOf(sdk.Fatal(errors.New("")))
	return err != nil && reflect.TypeOf(err) == fatal
}

var (
	someTask  = sdk.PayloadContext{Lambda: "mail", Task: [16]byte{1}}
	keyedTask = sdk.PayloadContext{Lambda: "mail", Key: "k"}
	secret    = []byte(`{"card":"4111 1111 1111 1111"}`)
)

func encoded(tb testing.TB, c sdk.PayloadCodec, p sdk.PayloadContext) []byte {
	tb.Helper()
	b, err := c.Encode(tb.Context(), p, secret)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestAPayloadComesBackForItsTaskOnly(t *testing.T) {
	t.Parallel()
	c := aesgcm(t, "a")
	all := []sdk.PayloadContext{
		someTask, keyedTask,
		{Lambda: "mail", Task: [16]byte{2}},
		{Lambda: "mai", Task: [16]byte{1}},
		{Lambda: "other", Key: "k"},
		{Lambda: "mail", Key: "kk"},
		{Lambda: "mailk", Key: "k"},
		{Lambda: "mail", Key: string(make([]byte, 16))},
		{Lambda: "mail"},
	}
	for _, p := range all {
		b := encoded(t, c, p)
		if bytes.Contains(b, []byte("4111")) {
			t.Errorf("%v: %q holds the payload", p, b)
		}
		for _, other := range all {
			plain, err := c.Decode(t.Context(), other, b)
			switch {
			case other == p && (err != nil || !bytes.Equal(plain, secret)):
				t.Errorf("%v: %q, %v", p, plain, err)
			case other != p && (!isFatal(err) || plain != nil):
				t.Errorf("that of %v as that of %v: %q, %v", p, other, plain, err)
			}
		}
	}
	if b, err := c.Encode(t.Context(), someTask, nil); err != nil {
		t.Error(err)
	} else if plain, err := c.Decode(t.Context(), someTask, b); err != nil || len(plain) != 0 {
		t.Errorf("nothing: %q, %v", plain, err)
	}
}

// Only a call that is repeated with a key has to make the same bytes; and no two tasks share a nonce.
func TestEqualPayloadsLookEqualOnlyForTheSameKey(t *testing.T) {
	t.Parallel()
	c := aesgcm(t, "a")
	if !bytes.Equal(encoded(t, c, keyedTask), encoded(t, c, keyedTask)) {
		t.Error("a repeated call with a key is taken for another one")
	}
	if bytes.Equal(encoded(t, c, someTask), encoded(t, c, someTask)) {
		t.Error("the nonce is not random")
	}
	other := keyedTask
	other.Key = "l"
	nonce := func(p sdk.PayloadContext, plain string) string {
		b, err := c.Encode(t.Context(), p, []byte(plain))
		if err != nil {
			t.Fatal(err)
		}
		return string(b[6:18])
	}
	if nonce(keyedTask, "x") == nonce(keyedTask, "y") || nonce(keyedTask, "x") == nonce(other, "x") {
		t.Error("two payloads share a nonce")
	}
}

func TestAnAlteredPayloadIsRefused(t *testing.T) {
	t.Parallel()
	c := aesgcm(t, "a").AcceptPlain()
	b := encoded(t, c, someTask)
	for i := 3; i < len(b); i++ { // before that it is a plain one
		for _, bit := range []byte{1, 0x80} {
			altered := bytes.Clone(b)
			altered[i] ^= bit
			if plain, err := c.Decode(t.Context(), someTask, altered); err == nil || plain != nil {
				t.Errorf("byte %d: %q", i, plain)
			}
		}
		if plain, err := c.Decode(t.Context(), someTask, b[:i]); err == nil || plain != nil {
			t.Errorf("%d bytes: %q", i, plain)
		}
	}
	if _, err := c.Decode(t.Context(), someTask, append(b, 0)); !isFatal(err) {
		t.Error(err)
	}
}

func TestPayloadKeysRotate(t *testing.T) {
	t.Parallel()
	old, both, swapped, newest := aesgcm(t, "a"), aesgcm(t, "a", "b"), aesgcm(t, "b", "a"), aesgcm(t, "b")
	for _, c := range []struct {
		by, reader sdk.PayloadCodec
		missing    string
	}{
		{old, both, ""},
		{both, old, ""},
		{both, swapped, ""},
		{swapped, both, ""},
		{swapped, newest, ""},
		{swapped, old, `"b"`},
		{old, newest, `"a"`},
	} {
		plain, err := c.reader.Decode(t.Context(), someTask, encoded(t, c.by, someTask))
		switch {
		case c.missing == "" && (err != nil || !bytes.Equal(plain, secret)):
			t.Errorf("%q, %v", plain, err)
		case c.missing != "" && (err == nil || isFatal(err) || !strings.Contains(err.Error(), c.missing)):
			t.Errorf("a key that is missing may come back: %v", err)
		}
	}
	if _, err := old.Decode(t.Context(), someTask, secret); !isFatal(err) || strings.Contains(err.Error(), "4111") {
		t.Errorf("a plain payload: %v", err)
	}
	if plain, err := old.AcceptPlain().Decode(t.Context(), someTask, secret); err != nil || !bytes.Equal(plain, secret) {
		t.Errorf("a plain payload, accepted: %q, %v", plain, err)
	}
	later := encoded(t, old, someTask)
	later[3]++
	if _, err := old.Decode(t.Context(), someTask, later); err == nil || isFatal(err) {
		t.Errorf("a later form, which a later version knows: %v", err)
	}
}

func TestBadPayloadKeys(t *testing.T) {
	t.Parallel()
	a, b := payloadKey("a"), payloadKey("b")
	for want, keys := range map[string][]sdk.PayloadKey{
		"one key or more":               {},
		"of 31 bytes: want 32":          {{ID: "a", Secret: make([]byte, 31)}},
		"id of 0 characters":            {{Secret: a.Secret}},
		"3 characters of payload key 2": {a, {ID: "a b", Secret: b.Secret}},
		"1 to 64 characters":            {{ID: strings.Repeat("a", 65), Secret: a.Secret}},
		"the id is there twice":         {a, b, {ID: "a", Secret: make([]byte, 32)}},
		"one has the same secret":       {a, {ID: "other", Secret: a.Secret}},
	} {
		if _, err := sdk.NewAESGCMCodec(keys...); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// changing is a codec that a test can exchange.
type changing struct{ sdk.PayloadCodec }

// asIs is a codec that does nothing, as a client without one.
type asIs struct{}

func (asIs) Encode(_ context.Context, _ sdk.PayloadContext, b []byte) ([]byte, error) { return b, nil }

func (asIs) Decode(_ context.Context, _ sdk.PayloadContext, b []byte) ([]byte, error) { return b, nil }

type card struct {
	Card string `json:"card"`
}

var charge = sdk.NewLambda[card]("charge", sdk.Backoff(time.Minute, time.Minute))

// codecRig is a Kinesin with a codec and a worker that keeps what it got.
func codecRig(t *testing.T) (k *sdktest.Kinesin, codec *changing, charged *[]string) {
	t.Helper()
	codec, charged = &changing{aesgcm(t, "a")}, new([]string)
	k = sdktest.New(t, sdktest.PayloadCodec(codec))
	k.Lambda(charge.Name())
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	charge.Handle(w, func(_ context.Context, task *sdk.Task[card]) error {
		*charged = append(*charged, task.Args.Card, string(task.Payload))
		return nil
	})
	k.Run(w)
	return k, codec, charged
}

func TestPayloadsAreEncodedBetweenPrograms(t *testing.T) {
	k, codec, charged := codecRig(t)
	var ids []sdk.ID
	results, err := charge.ScheduleMany(t.Context(), k.Client(), []sdk.Call[card]{
		{Args: card{"4111"}, Options: []sdk.Option{sdk.In(time.Hour)}},
		{Args: card{"4111"}, Options: []sdk.Option{sdk.In(time.Hour), sdk.Key("order-1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		ids = append(ids, r.ID)
	}
	again, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: charge.Name(), Payload: []byte(`{"card":"4111"}`), Key: "order-1"})
	if err != nil || !again.Duplicate || again.ID != ids[1] {
		t.Errorf("the same key: %+v, %v", again, err)
	}
	if _, err := charge.Schedule(t.Context(), k.Client(), card{"4112"}, sdk.Key("order-1")); !errors.Is(err, sdk.ErrKeyConflict) {
		t.Errorf("the same key with another payload: %v", err)
	}
	aes := codec.PayloadCodec
	codec.PayloadCodec = asIs{}
	for _, id := range ids {
		if info := k.Task(id); bytes.Contains(info.Payload, []byte("4111")) || len(info.Payload) < 30 {
			t.Errorf("the server has %q", info.Payload)
		}
	}
	codec.PayloadCodec = aes
	if found := sdktest.FindScheduled(t, k, charge, sdktest.Args(card{"4111"})); len(found) != 2 {
		t.Errorf("found %v", found)
	}
	k.Advance(time.Hour)
	if want := []string{"4111", `{"card":"4111"}`, "4111", `{"card":"4111"}`}; !slices.Equal(*charged, want) {
		t.Errorf("the handler got %q", *charged)
	}
}

// emptyPlain is a codec that leaves what is empty as it is.
type emptyPlain struct{ sdk.PayloadCodec }

func (c emptyPlain) Decode(ctx context.Context, of sdk.PayloadContext, b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	return c.PayloadCodec.Decode(ctx, of, b)
}

// The follow-ups of a member of a group, and of the group, are encoded like any other follow-up.
func TestWhatFollowsTasksOfGroupsIsEncoded(t *testing.T) {
	k, codec, charged := codecRig(t)
	codec.PayloadCodec = emptyPlain{codec.PayloadCodec}
	k.Lambda("step")
	later := sdk.Item{Lambda: charge.Name(), Payload: []byte(`{"card":"4111"}`), In: time.Hour}
	g, err := k.Client().CreateGroup(t.Context(), sdk.GroupSpec{Then: []sdk.Item{{Lambda: "step", Then: []sdk.Item{later}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Client().AddMembers(t.Context(), g.ID, 0, []sdk.Item{{Lambda: "step", Then: []sdk.Item{later}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Client().SealGroup(t.Context(), g.ID, 1); err != nil {
		t.Fatal(err)
	}
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	w.Register("step", func(context.Context, *sdk.Task[[]byte]) error { return nil })
	k.Run(w)
	k.Advance(time.Minute)
	aes := codec.PayloadCodec
	codec.PayloadCodec = asIs{}
	seen := 0
	for info, err := range k.Client().List(t.Context(), sdk.ListQuery{Lambda: charge.Name()}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if info = k.Task(info.ID); bytes.Contains(info.Payload, []byte("4111")) || len(info.Payload) < 30 {
			t.Errorf("the server has %q", info.Payload)
		}
	}
	codec.PayloadCodec = aes
	k.Advance(2 * time.Hour)
	if seen != 2 || len(*charged) != 4 || (*charged)[0] != "4111" {
		t.Errorf("%d tasks follow, the handler got %q", seen, *charged)
	}
}

func TestATaskWaitsForTheKeyOfItsPayload(t *testing.T) {
	k, codec, charged := codecRig(t)
	id, err := charge.Schedule(t.Context(), k.Client(), card{"4111"}, sdk.In(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	codec.PayloadCodec = aesgcm(t, "b")
	k.Advance(time.Second)
	info, err := k.Client().Get(t.Context(), id, sdk.WithPayload())
	if err == nil || info.State != sdk.StateRetriableFailure || info.Payload != nil || len(*charged) != 0 {
		t.Fatalf("without the key: %+v, %v, the handler got %q", info, err, *charged)
	}
	if text := info.Attempts[0].Error; !strings.Contains(text, `decode the payload: the payload is encrypted with key "a"`) {
		t.Error(text)
	}
	codec.PayloadCodec = aesgcm(t, "b", "a")
	k.Advance(2 * time.Minute)
	sdktest.RequireState(t, k, id, sdk.StateSuccess)
}

func TestAForgedPayloadReachesNoHandler(t *testing.T) {
	k, codec, charged := codecRig(t)
	first, err := charge.Schedule(t.Context(), k.Client(), card{"4111"}, sdk.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	aes := codec.PayloadCodec
	codec.PayloadCodec = asIs{} // what somebody can do who can write to the store
	stolen := k.Task(first).Payload
	for name, payload := range map[string][]byte{"that of another task": stolen, "plain": []byte(`{"card":"4111"}`), "none": nil} {
		r, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: charge.Name(), Payload: payload, In: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		codec.PayloadCodec = aes
		k.Advance(time.Minute)
		codec.PayloadCodec = asIs{}
		info := sdktest.RequireState(t, k, r.ID, sdk.StateFatalFailure)
		if len(*charged) != 0 || strings.Contains(info.Attempts[0].Error, "4111") {
			t.Errorf("%s: the handler got %q; %s", name, *charged, info.Attempts[0].Error)
		}
	}
}

// failing is a codec whose Encode fails for a payload, and makes others too large.
type failing struct{ asIs }

func (failing) Encode(_ context.Context, _ sdk.PayloadContext, b []byte) ([]byte, error) {
	if string(b) == "bad" {
		return nil, errors.New("no key service")
	}
	return bytes.Repeat(b, 1<<20), nil
}

func TestPayloadsThatCannotBeEncoded(t *testing.T) {
	k := sdktest.New(t, sdktest.PayloadCodec(failing{}))
	k.Lambda("raw")
	results, err := k.Client().ScheduleMany(t.Context(), []sdk.Item{
		{Lambda: "raw", Payload: []byte("bad")}, {Lambda: "raw"}, {Lambda: "raw", Payload: []byte("12")},
	})
	if err == nil || results[1].Err != nil || results[1].ID == "" {
		t.Errorf("%+v, %v", results, err)
	}
	if got := results[0].Err; got == nil || !strings.Contains(got.Error(), "encode the payload of a raw task: no key service") {
		t.Error(got)
	}
	if got := results[2].Err; !errors.Is(got, sdk.ErrTooLarge) || !strings.Contains(got.Error(), "2 bytes, of which the payload codec made 2097152") {
		t.Error(got)
	}
	if _, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: "raw", Payload: []byte("bad")}); err == nil {
		t.Error("no error")
	}
}

// The error of wrong arguments is stored with the attempt, so it quotes none of them.
func TestNoErrorQuotesArguments(t *testing.T) {
	t.Parallel()
	type order struct {
		N  int       `json:"n"`
		At time.Time `json:"at"`
	}
	l := sdk.NewLambda[order]("order")
	for payload, want := range map[string]string{
		`{"n":42424242.5}`:      `JSON number at byte 15 does not fit field "n" of type int`,
		`{"n":"secret"}`:        `JSON string at byte`,
		`{"n":1}secret`:         `no valid JSON at byte 8`,
		`{"at":"secret"}`:       `*time.ParseError`,
		`{"n":1,"at":"secr`:     `unexpected end of JSON input`,
		"\x00secret":            `no valid JSON at byte 1`,
		`{"n":4242424242424242`: `unexpected end of JSON input`,
	} {
		_, err := l.Decode([]byte(payload))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secr") || strings.Contains(err.Error(), "4242") {
			t.Errorf("%q: %v", payload, err)
		}
	}
}

func BenchmarkAESGCM(b *testing.B) {
	c := aesgcm(b, "a")
	payload := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		e, _ := c.Encode(b.Context(), someTask, payload)
		if _, err := c.Decode(b.Context(), someTask, e); err != nil {
			b.Fatal(err)
		}
	}
}

// The payload of a follow-up with a key is encoded for that, as what replaces it later will be.
func TestAKeyedFollowUpIsEncoded(t *testing.T) {
	k, _, charged := codecRig(t)
	k.Lambda("step")
	next := sdk.Item{Lambda: charge.Name(), Payload: []byte(`{"card":"4111"}`), Key: "k", In: time.Hour}
	if _, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: "step", Then: []sdk.Item{next}}); err != nil {
		t.Fatal(err)
	}
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	w.Register("step", func(context.Context, *sdk.Task[[]byte]) error { return nil })
	k.Run(w)
	k.Advance(time.Minute)
	got, err := k.Client().Get(t.Context(), sdk.ByKey(charge.Name(), "k"), sdk.WithPayload())
	if err != nil || string(got.Payload) != `{"card":"4111"}` {
		t.Errorf("%q, %v", got.Payload, err)
	}
	k.Advance(2 * time.Hour)
	if len(*charged) == 0 || (*charged)[0] != "4111" {
		t.Errorf("the handler got %q", *charged)
	}
}
