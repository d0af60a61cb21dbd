package keyring_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/keyring"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	idsFor = 100 * 24 * time.Hour
	day    = 24 * time.Hour
)

// rows is a store that can fail, and lets a test do something before a write.
type rows struct {
	*store.Store

	reads atomic.Int64
	hang  atomic.Bool // reads wait for the end of their context
	mu    sync.Mutex
	fails error
	put   func() // before a write, once
}

func (r *rows) ControlsOmitted(ctx context.Context, kind string) ([]store.Control, map[string]error, error) {
	r.reads.Add(1)
	if r.hang.Load() {
		<-ctx.Done()
		return nil, nil, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return nil, nil, r.fails
	}
	return r.Store.ControlsOmitted(ctx, kind)
}

func (r *rows) PutControl(ctx context.Context, c store.Control) error {
	r.mu.Lock()
	put := r.put
	r.put = nil
	r.mu.Unlock()
	if put != nil {
		put()
	}
	return r.Store.PutControl(ctx, c)
}

func (r *rows) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = err
}

// fixture is one store in a bubble.
type fixture struct {
	*testing.T

	rows *rows
}

func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&fixture{t, &rows{Store: store.New(mem.New(), store.Config{Clock: clock.Real()})}})
	})
}

func (f *fixture) config() keyring.Config {
	return keyring.Config{Rows: f.rows, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), IDsFor: idsFor, Inbound: true}
}

func (f *fixture) open() *keyring.Ring {
	f.Helper()
	r, err := keyring.Open(f.Context(), f.config())
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// running opens a ring that reads by itself until the test ends.
func (f *fixture) running() *keyring.Ring {
	f.Helper()
	r := f.open()
	runtest.Start(f, r.Run)
	return r
}

func (f *fixture) rotate(r *keyring.Ring) *kinesinv1.RotateKeysResponse {
	f.Helper()
	response, err := r.RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{})
	if err != nil {
		f.Fatal(err)
	}
	return response
}

func (f *fixture) list(r *keyring.Ring) []*kinesinv1.KeyringKey {
	f.Helper()
	response, err := r.ListKeys(f.Context(), &kinesinv1.ListKeysRequest{})
	if err != nil {
		f.Fatal(err)
	}
	return response.Keys
}

func (f *fixture) states(r *keyring.Ring) string {
	f.Helper()
	var all []string
	for _, k := range f.list(r) {
		all = append(all, fmt.Sprint(k.Number, " ", k.State))
	}
	return strings.Join(all, ", ")
}

func (f *fixture) row(name string) store.Control {
	f.Helper()
	row, err := f.rows.Control(f.Context(), keyring.Kind, name)
	if err != nil {
		f.Fatal(err)
	}
	return row
}

// overwrite replaces the value of a row, or adds the row.
func (f *fixture) overwrite(name, value string) {
	f.Helper()
	row, err := f.rows.Control(f.Context(), keyring.Kind, name)
	if errors.Is(err, store.ErrNotFound) {
		row, err = store.Control{Kind: keyring.Kind, Name: name}, nil
	}
	row.Version++
	row.Value = []byte(value)
	if err = errors.Join(err, f.rows.Store.PutControl(f.Context(), row)); err != nil {
		f.Fatal(err)
	}
}

func wantRefusal(t *testing.T, err error, reason kinesinv1.Reason, say string) {
	t.Helper()
	if p := api.ProblemOf(err); p.GetReason() != reason || !strings.Contains(p.GetText(), say) {
		t.Errorf("%v: want %s with %q", err, reason, say)
	}
}

// token is of a task with a key, whose id does not tell when it was made.
var token = task.Token{ID: task.ID{6: 0x80, 15: 1}, Due: task.FromMillis(1_700_000_000_000), Partition: task.Partition{Lambda: 3}}

func opens(r *keyring.Ring, id string) bool {
	got, err := r.IDs().Open(context.Background(), id)
	return err == nil && got == token
}

// Ids and messages by either of two servers are opened by both, all through a rotation, and the new key seals
// only after the overlap.
func TestServersAgreeThroughARotation(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, b := f.running(), f.running()
		old, keyed := task.Task{ID: task.NewID(clock.Real().Now(), 1, 2), Due: 1e9}, task.Task{ID: token.ID, Created: clock.Real().Now(), Due: 1e9}
		oldID, keyedID := a.IDs().SealTask(&old), b.IDs().SealTask(&keyed)
		time.Sleep(3 * time.Second) // they read at different times
		var ids, bodies []string
		var rotated time.Time
		for step := range 400 {
			if step == 40 {
				rotated = time.Now()
				if k := f.rotate(b).Key; k.Number != 2 || k.State != keyring.StateWaiting {
					f.Fatalf("%v", k)
				}
			}
			for i, r := range []*keyring.Ring{a, b} {
				id := r.IDs().Seal(token)
				isNew := strings.HasPrefix(id, "k2")
				if since := time.Since(rotated); isNew && (rotated.IsZero() || since < keyring.Overlap) || !isNew && !rotated.IsZero() && since > keyring.Overlap+keyring.ReadEvery {
					f.Fatalf("%d sealed %s %v after the rotation", i, id, since)
				}
				ids, bodies = append(ids, id), append(bodies, r.Inbound().SealMessage([]byte("m")))
			}
			for i, r := range []*keyring.Ring{a, b} {
				if r.IDs().SealTask(&old) != oldID || r.IDs().SealTask(&keyed) != keyedID {
					f.Fatalf("%d gives a task another id", i)
				}
				for n := max(0, len(ids)-20); n < len(ids); n++ {
					if _, _, err := r.Inbound().OpenMessage(f.Context(), bodies[n]); err != nil || !opens(r, ids[n]) {
						f.Fatalf("%d does not open id or message %d: %v", i, n, err)
					}
				}
			}
			time.Sleep(5 * time.Second)
		}
		if got := f.states(a); got != "1 retired, 2 sealing" {
			f.Errorf("%s", got)
		}
		fresh := f.open()
		for n, id := range ids {
			if !opens(fresh, id) {
				f.Fatalf("a server that starts later does not open id %d", n)
			}
		}
	})
}

// A server that has not read the ring for long reads it for a key that it does not know; forged numbers cost
// few reads.
func TestAnUnknownKeyIsLookedUp(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, behind := f.open(), f.open()
		f.rotate(a)
		time.Sleep(keyring.Overlap)
		if err := a.Read(f.Context()); err != nil {
			f.Fatal(err)
		}
		if id := a.IDs().Seal(token); !strings.HasPrefix(id, "k2") || !opens(behind, id) {
			f.Errorf("%s is not opened", id)
		}
		time.Sleep(time.Minute)
		raw := make([]byte, 43)
		raw[29] = 77
		forged := "k2" + base64.RawURLEncoding.EncodeToString(raw)
		before := f.rows.reads.Load()
		for range 1000 {
			if _, err := behind.IDs().Open(f.Context(), forged); !errors.Is(err, task.ErrBadID) {
				f.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if reads := f.rows.reads.Load() - before; reads == 0 || reads > 11 {
			f.Errorf("%d reads in 10 s", reads)
		}
		f.rows.fail(store.ErrUnreachable)
		if _, err := behind.IDs().Open(f.Context(), forged); !errors.Is(err, task.ErrBadID) {
			f.Error(err)
		}
	})
}

// A call that names an unknown key does not wait for the store longer than its caller does.
func TestAReadForAnUnknownKeyEndsWithItsCall(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.open()
		time.Sleep(time.Minute)
		f.rows.hang.Store(true)
		raw := make([]byte, 43)
		raw[29] = 77
		forged, before, begun := "k2"+base64.RawURLEncoding.EncodeToString(raw), f.rows.reads.Load(), time.Now()
		ctx, cancel := context.WithTimeout(f.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.IDs().Open(ctx, forged); !errors.Is(err, task.ErrBadID) {
			f.Error(err)
		}
		if waited := time.Since(begun); waited != 100*time.Millisecond || f.rows.reads.Load() == before {
			f.Errorf("waited for %v", waited)
		}
		f.rows.hang.Store(false)
	})
}

func TestOfSeveralRotationsAtOnceOneWins(t *testing.T) {
	inBubble(t, func(f *fixture) {
		rings := []*keyring.Ring{f.open(), f.open(), f.open()}
		var wg sync.WaitGroup
		var won, refused atomic.Int32
		for i := range 12 {
			wg.Go(func() {
				_, err := rings[i%3].RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{})
				if err == nil {
					won.Add(1)
					return
				}
				refused.Add(1)
				wantRefusal(f.T, err, kinesinv1.Reason_REASON_EXISTS, "key 2 was added at 2000-01-01T00:00:00Z and seals from 2000-01-01T00:15:00Z on")
			})
		}
		wg.Wait()
		if won.Load() != 1 || refused.Load() != 11 {
			f.Errorf("%d won, %d were refused", won.Load(), refused.Load())
		}
		time.Sleep(keyring.Overlap)
		// The other one comes between the read and the write.
		f.rows.put = func() { f.rotate(rings[1]) }
		_, err := rings[0].RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_EXISTS, "key 3 was added")
		if got := f.states(rings[2]); got != "1 retired, 2 sealing, 3 waiting" {
			f.Errorf("%s", got)
		}
	})
}

// A retired key verifies messages for a while and ids for long; then a rotation removes it.
func TestRetirement(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.open()
		id, body, page := r.IDs().Seal(token), r.Inbound().SealMessage([]byte("m")), r.Pages().Seal("l", []byte("{}"))
		f.rotate(r)
		time.Sleep(keyring.Overlap)
		retired := time.Now()
		check := func(at time.Duration, ids bool, message error) {
			t.Helper()
			time.Sleep(time.Until(retired.Add(at)))
			if err := r.Read(f.Context()); err != nil {
				f.Fatal(err)
			}
			if opens(r, id) != ids {
				f.Errorf("after %v: id opened: %v", at, !ids)
			}
			if _, _, err := r.Inbound().OpenMessage(f.Context(), body); !errors.Is(err, message) {
				f.Errorf("after %v: %v, want %v", at, err, message)
			}
			if _, err := r.Pages().Open(f.Context(), "l", page); (err == nil) != (message == nil) {
				f.Errorf("after %v: page token: %v", at, err)
			}
		}
		check(0, true, nil)
		check(keyring.MessagesFor-time.Second, true, nil)
		check(keyring.MessagesFor, true, task.ErrKeyGone)
		check(idsFor-time.Second, true, task.ErrKeyGone)
		if removed := f.rotate(r).Removed; len(removed) != 0 {
			f.Errorf("removed %v", removed)
		}
		check(idsFor+keyring.Overlap, true, task.ErrKeyGone) // nothing is removed but by a rotation
		if got := f.states(r); got != "1 expired, 2 retired, 3 sealing" {
			f.Errorf("%s", got)
		}
		if removed := f.rotate(r).Removed; !slices.Equal(removed, []uint32{1}) {
			f.Errorf("removed %v", removed)
		}
		check(idsFor+keyring.Overlap, false, task.ErrKeyGone)
		if _, err := f.rows.Control(f.Context(), "secret", "public-ids"); !errors.Is(err, store.ErrNotFound) {
			f.Errorf("the first secret is kept: %v", err)
		}
		if again := f.open(); opens(again, id) || !opens(again, r.IDs().Seal(token)) {
			f.Error("a server that starts later has another ring")
		}
		if k := f.list(r)[0]; time.UnixMicro(k.Retired).Add(idsFor) != time.UnixMicro(k.VerifiesUntil) ||
			time.UnixMicro(k.Retired).Add(keyring.MessagesFor) != time.UnixMicro(k.MessagesUntil) {
			f.Errorf("%v", k)
		}
	})
}

func TestARingIsBounded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.open()
		for n := range keyring.KeysMax - 1 {
			if k := f.rotate(r).Key; int(k.Number) != n+2 {
				f.Fatalf("%v", k)
			}
			time.Sleep(keyring.Overlap)
		}
		oldest := f.list(r)[0]
		until := time.UnixMicro(oldest.VerifiesUntil).UTC()
		_, err := r.RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_IN_USE, "128 keys are kept, and no more are: the oldest, key 1, still verifies ids of tasks and may go from "+until.Format(time.RFC3339))
		time.Sleep(time.Until(until))
		if removed := f.rotate(r).Removed; !slices.Equal(removed, []uint32{1}) {
			f.Errorf("removed %v", removed)
		}
		time.Sleep(idsFor + day)
		for range 255 - (keyring.KeysMax + 1) {
			f.rotate(r)
			time.Sleep(idsFor)
		}
		_, err = r.RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_UNSUPPORTED, "key 255 is the last")
	})
}

// A damaged ring stops a start, and a running server goes on with the keys that it knows.
func TestADamagedRing(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", task.TokenKeyBytes)))
	key := func(number int, from int64) string {
		return fmt.Sprintf(`{"number":%d,"secret":%q,"seals_from_us":%d}`, number, secret, from)
	}
	for name, c := range map[string]struct {
		value string
		want  error
	}{
		"empty":        {"", store.ErrCorrupt},
		"no object":    {`"` + secret + `"`, store.ErrCorrupt},
		"cut":          {`{"form":1,"keys":[` + key(1, 0), store.ErrCorrupt},
		"no keys":      {`{"form":1,"keys":[]}`, store.ErrCorrupt},
		"no form":      {`{"keys":[` + key(1, 0) + `]}`, store.ErrCorrupt},
		"newer":        {`{"form":2,"keys":[` + key(1, 0) + `]}`, store.ErrVersion},
		"short secret": {`{"form":1,"keys":[{"number":1,"secret":"c2VjcmV0"}]}`, store.ErrCorrupt},
		"no secret":    {`{"form":1,"keys":[{"number":1}]}`, store.ErrCorrupt},
		"number 0":     {`{"form":1,"keys":[` + key(0, 0) + `]}`, store.ErrCorrupt},
		"number 300":   {`{"form":1,"keys":[` + key(300, 0) + `]}`, store.ErrCorrupt},
		"twice":        {`{"form":1,"keys":[` + key(1, 0) + `,` + key(1, 5) + `]}`, store.ErrCorrupt},
		"out of order": {`{"form":1,"keys":[` + key(1, 9) + `,` + key(2, 5) + `]}`, store.ErrCorrupt},
		"too many":     {`{"form":1,"keys":[` + strings.Repeat(key(1, 0)+",", keyring.KeysMax) + key(2, 0) + `]}`, store.ErrCorrupt},
	} {
		inBubble(t, func(f *fixture) {
			r := f.open()
			f.rotate(r)
			time.Sleep(keyring.Overlap)
			if err := r.Read(f.Context()); err != nil {
				f.Fatal(err)
			}
			id := r.IDs().Seal(token)
			f.overwrite("keys", c.value)
			err := r.Read(f.Context())
			if !errors.Is(err, c.want) || strings.Contains(err.Error(), secret[:10]) {
				f.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if _, err := r.RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{}); err == nil {
				f.Errorf("%s: rotated", name)
			}
			if !opens(r, id) || !opens(r, r.IDs().Seal(token)) {
				f.Errorf("%s: the running server has lost its keys", name)
			}
			if _, err := keyring.Open(f.Context(), f.config()); !errors.Is(err, c.want) {
				f.Errorf("%s: a server starts: %v", name, err)
			}
		})
	}
}

func TestARingThatIsGone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.open()
		f.rotate(r)
		id := r.IDs().Seal(token)
		if err := f.rows.DeleteControl(f.Context(), f.row("keys")); err != nil {
			f.Fatal(err)
		}
		if err := r.Read(f.Context()); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), `"keys" is gone`) || !opens(r, id) {
			f.Errorf("%v", err)
		}
	})
	inBubble(t, func(f *fixture) {
		short := store.Control{Kind: "secret", Name: "public-ids", Version: 1, Value: []byte("short")}
		if err := f.rows.Store.PutControl(f.Context(), short); err != nil {
			f.Fatal(err)
		}
		if _, err := keyring.Open(f.Context(), f.config()); !errors.Is(err, store.ErrCorrupt) {
			f.Errorf("%v", err)
		}
	})
}

// While the store does not answer, the keys that are known stay in use, and time still changes which seals.
func TestAnOutageOfTheStore(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.running()
		f.rotate(r)
		f.rows.fail(store.ErrUnreachable)
		time.Sleep(keyring.Overlap + keyring.ReadEvery)
		if id := r.IDs().Seal(token); !strings.HasPrefix(id, "k2") || !opens(r, id) {
			f.Errorf("%s", id)
		}
		_, err := r.RotateKeys(f.Context(), &kinesinv1.RotateKeysRequest{})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_UNAVAILABLE, "does not answer")
	})
}

// Of several processes that start first all use one secret.
func TestTheFirstStart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		var first *keyring.Ring
		f.rows.put = func() { first = f.open() }
		second := f.open()
		if id := second.IDs().Seal(token); !strings.HasPrefix(id, "k1") || !opens(first, id) || !opens(f.open(), id) {
			f.Errorf("%s", id)
		}
		if got := f.states(second); got != "1 sealing" {
			f.Errorf("%s", got)
		}
		row, err := f.rows.Control(f.Context(), "secret", "public-ids")
		if err != nil || !opens(second, task.NewSealer(row.Value).Seal(token)) {
			f.Errorf("the release before has another secret: %v", err)
		}
	})
}

func (f *fixture) add(r *keyring.Ring, name string, lambdas ...string) string {
	f.Helper()
	response, err := r.AddSender(f.Context(), &kinesinv1.AddSenderRequest{Name: name, Lambdas: lambdas})
	if err != nil {
		f.Fatal(err)
	}
	return response.Key
}

func (f *fixture) sealer(key string) *task.InboundSealer {
	f.Helper()
	s, err := task.ParseInboundKey(key)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func TestSenders(t *testing.T) {
	inBubble(t, func(f *fixture) {
		a, b := f.running(), f.running()
		key := f.add(a, "shop", "mail-*", "invoice", "invoice")
		body := f.sealer(key).SealMessage([]byte("m"))
		if _, from, err := b.Inbound().OpenMessage(f.Context(), body); err != nil || from.Name != "shop" || !slices.Equal(from.Lambdas, []string{"invoice", "mail-*"}) {
			f.Errorf("on another server at once: %v, %v", from, err)
		}
		if again := f.add(b, "shop", "invoice", "mail-*"); again != key {
			f.Error("the same sender has another key")
		}
		if again := f.add(b, "shop"); again != key {
			f.Error("without lambdas it has another key")
		}
		var many []string
		for n := range 101 {
			many = append(many, fmt.Sprint("mail-", n))
		}
		for _, c := range []struct {
			name    string
			lambdas []string
			reason  kinesinv1.Reason
			say     string
		}{
			{"shop", []string{"mail-*"}, kinesinv1.Reason_REASON_EXISTS, "exists for lambdas [invoice mail-*]"},
			{"new", nil, kinesinv1.Reason_REASON_INVALID, "want 1 to 100 patterns"},
			{"new", []string{""}, kinesinv1.Reason_REASON_INVALID, "1 to 64 characters"},
			{"new", many, kinesinv1.Reason_REASON_INVALID, "1 to 100 patterns of lambdas, have 101"},
			{"new", []string{"a b"}, kinesinv1.Reason_REASON_INVALID, `"a b"`},
			{"new", []string{"[a-z]"}, kinesinv1.Reason_REASON_INVALID, "stands for any characters"},
			{"", []string{"*"}, kinesinv1.Reason_REASON_INVALID, "sender name"},
			{"a.b", []string{"*"}, kinesinv1.Reason_REASON_INVALID, "sender name"},
		} {
			_, err := a.AddSender(f.Context(), &kinesinv1.AddSenderRequest{Name: c.name, Lambdas: c.lambdas})
			wantRefusal(f.T, err, c.reason, c.say)
		}

		// A rotation gives it another key, and the one before is taken for a while.
		f.rotate(a)
		time.Sleep(keyring.Overlap + 2*keyring.ReadEvery)
		next := f.add(a, "shop")
		later := f.sealer(next).SealMessage([]byte("m"))
		for _, body := range []string{body, later} {
			if _, from, err := b.Inbound().OpenMessage(f.Context(), body); err != nil || from.Name != "shop" {
				f.Errorf("after a rotation: %v, %v", from, err)
			}
		}
		if next == key {
			f.Error("a rotation does not change the key")
		}

		f.add(a, "other", "*")
		revoked, err := a.RevokeSender(f.Context(), &kinesinv1.RevokeSenderRequest{Name: "shop"})
		if err != nil || revoked.Sender.Revoked == 0 {
			f.Fatalf("%v, %v", revoked, err)
		}
		time.Sleep(keyring.ReadEvery + time.Second)
		for _, r := range []*keyring.Ring{a, b} {
			for _, body := range []string{body, later} {
				if _, _, err := r.Inbound().OpenMessage(f.Context(), body); !errors.Is(err, task.ErrSenderRevoked) {
					f.Errorf("after it was revoked: %v", err)
				}
			}
		}
		if again, err := b.RevokeSender(f.Context(), &kinesinv1.RevokeSenderRequest{Name: "shop"}); err != nil || again.Sender.Revoked != revoked.Sender.Revoked {
			f.Errorf("again: %v, %v", again, err)
		}
		_, err = b.AddSender(f.Context(), &kinesinv1.AddSenderRequest{Name: "shop", Lambdas: []string{"invoice", "mail-*"}})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_EXISTS, "was revoked at")
		_, err = b.RevokeSender(f.Context(), &kinesinv1.RevokeSenderRequest{Name: "nobody"})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_NOT_FOUND, "no sender has that name")

		list := func() (names []string) {
			response, err := b.ListSenders(f.Context(), &kinesinv1.ListSendersRequest{})
			if err != nil {
				f.Fatal(err)
			}
			for _, s := range response.Senders {
				names = append(names, s.Name)
			}
			return names
		}
		if names := list(); !slices.Equal(names, []string{"other", "shop"}) {
			f.Errorf("%v", names)
		}
	})
}

// A revoked sender is kept as long as its ids are verified, so that its name is nobody else's until then.
func TestARevokedSenderGoesInTheEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.open()
		key := f.add(r, "shop", "mail")
		id, err := f.sealer(key).Seal(task.InboundToken{ID: task.ID{1}, Due: 5000, Lambda: "mail"})
		if err != nil {
			f.Fatal(err)
		}
		if _, err := r.RevokeSender(f.Context(), &kinesinv1.RevokeSenderRequest{Name: "shop"}); err != nil {
			f.Fatal(err)
		}
		time.Sleep(idsFor - time.Second)
		f.add(r, "second", "mail")
		if _, err := r.Inbound().Open(f.Context(), id); err != nil {
			f.Errorf("its id: %v", err)
		}
		time.Sleep(time.Second)
		f.add(r, "third", "mail")
		if _, err := r.Inbound().Open(f.Context(), id); !errors.Is(err, task.ErrBadID) {
			f.Errorf("its id in the end: %v", err)
		}
		if f.add(r, "shop", "mail") == key {
			f.Error("the next sender of the name has its key")
		}
	})
}

// One sender whose row is damaged is unknown; the others and the keys are not.
func TestADamagedSender(t *testing.T) {
	for name, damage := range map[string]func(o map[string]any) string{
		"no object": func(map[string]any) string { return "x" },
		"newer":     func(o map[string]any) string { o["form"] = 2; return "" },
		"no form":   func(o map[string]any) string { delete(o, "form"); return "" },
		"no salt":   func(o map[string]any) string { delete(o, "salt"); return "" },
		"lambdas":   func(o map[string]any) string { o["lambdas"] = []string{}; return "" },
		"pattern":   func(o map[string]any) string { o["lambdas"] = []string{"a b"}; return "" },
	} {
		inBubble(t, func(f *fixture) {
			r := f.open()
			shop, other := f.sealer(f.add(r, "shop", "mail")), f.sealer(f.add(r, "other", "mail"))
			var o map[string]any
			if err := json.Unmarshal(f.row("sender/shop").Value, &o); err != nil {
				f.Fatal(err)
			}
			value := damage(o)
			if value == "" {
				raw, err := json.Marshal(o)
				if err != nil {
					f.Fatal(err)
				}
				value = string(raw)
			}
			f.overwrite("sender/shop", value)
			if err := r.Read(f.Context()); err != nil {
				f.Fatalf("%s: %v", name, err)
			}
			if _, _, err := r.Inbound().OpenMessage(f.Context(), shop.SealMessage(nil)); !errors.Is(err, task.ErrUnsealed) {
				f.Errorf("%s: %v", name, err)
			}
			if _, from, err := r.Inbound().OpenMessage(f.Context(), other.SealMessage([]byte("m"))); err != nil || from.Name != "other" {
				f.Errorf("%s: the other one: %v", name, err)
			}
			if _, err := r.AddSender(f.Context(), &kinesinv1.AddSenderRequest{Name: "shop", Lambdas: []string{"mail"}}); !errors.Is(err, store.ErrCorrupt) {
				f.Errorf("%s: made again: %v", name, err)
			}
			if opened := f.open(); !opens(opened, r.IDs().Seal(token)) {
				f.Errorf("%s: a server that starts", name)
			}
		})
	}
}

func TestSendersAreBounded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		r := f.open()
		f.add(r, "first", "mail")
		value := string(f.row("sender/first").Value)
		for n := range keyring.SendersMax - 1 {
			f.overwrite(fmt.Sprintf("sender/s%d", n), value)
		}
		_, err := r.AddSender(f.Context(), &kinesinv1.AddSenderRequest{Name: "last", Lambdas: []string{"mail"}})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_IN_USE, "1000 senders")
	})
}

func TestNoSendersWithoutAnInboundQueue(t *testing.T) {
	inBubble(t, func(f *fixture) {
		c := f.config()
		c.Inbound = false
		r, err := keyring.Open(f.Context(), c)
		if err != nil {
			f.Fatal(err)
		}
		_, err = r.AddSender(f.Context(), &kinesinv1.AddSenderRequest{Name: "shop", Lambdas: []string{"mail"}})
		wantRefusal(f.T, err, kinesinv1.Reason_REASON_UNSUPPORTED, "--inbound-queue")
	})
}
