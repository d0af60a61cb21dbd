package inbound_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

func (b *buffered) rejected() []*kinesinv1.Rejected {
	b.t.Helper()
	response, err := b.ListRejected(b.ctx, &kinesinv1.ListRejectedRequest{Limit: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	return response.Rejected
}

func (b *buffered) retry(names ...string) []*kinesinv1.RetryRejectedResult {
	b.t.Helper()
	response, err := b.RetryRejected(b.ctx, &kinesinv1.RetryRejectedRequest{Names: names})
	if err != nil {
		b.t.Fatal(err)
	}
	return response.Results
}

// body is an envelope sealed with our key, or another one.
func (b *buffered) body(seal *task.InboundSealer, version uint32, tasks ...*kinesinv1.BufferedTask) string {
	b.t.Helper()
	raw, err := (&kinesinv1.Envelope{Version: version, Tasks: tasks}).MarshalVT()
	if err != nil {
		b.t.Fatal(err)
	}
	return seal.SealMessage(raw)
}

// broken is a message that was sealed with our key and is no envelope.
func (b *buffered) broken(text string) string {
	return b.seal.SealMessage([]byte(text))
}

func TestBadMessagesAreSetAsideAtOnceAndOthersPass(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		say    string
		body   func(b *buffered) string
	}{
		"no tasks":    {"undecodable", "0 tasks", func(b *buffered) string { return b.body(b.seal, 1) }},
		"newer":       {"newer_version", "version 9", func(b *buffered) string { return b.body(b.seal, 9, b.q1(0, nil)) }},
		"forged q1":   {"not_ours", "inbound key", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Id = "q1" + strings.Repeat("A", 60) })},
		"forged k1":   {"not_ours", "not issued here", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Id = "k1" + strings.Repeat("A", 56) })},
		"no id":       {"not_ours", "not issued here", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Id = " " })},
		"other name":  {"not_ours", "of lambda mail", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Lambda = "other" })},
		"other class": {"not_ours", "another priority", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Priority = "high" })},
		"class":       {"invalid", "priority", bad(func(t *kinesinv1.BufferedTask, k *task.InboundToken) { k.Priority, t.Item.Priority = "none", "none" })},
		"key":         {"invalid", "through the API", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Key = "k" })},
		"id":          {"invalid", "UUID version 7", bad(func(_ *kinesinv1.BufferedTask, k *task.InboundToken) { k.ID = task.IDOf([]byte("x")) })},
		"id of later": {"invalid", "ahead", bad(func(_ *kinesinv1.BufferedTask, k *task.InboundToken) {
			k.ID = task.NewID(start.Add(48*time.Hour), 1, 2)
		})},
		"too far":   {"invalid", "1000h", bad(func(_ *kinesinv1.BufferedTask, k *task.InboundToken) { k.Due = start.Add(2000 * time.Hour) })},
		"label":     {"invalid", "collection", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Collection = "a\nb" })},
		"utf-8":     {"invalid", "collection", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Collection = "\xff" })},
		"timeout":   {"invalid", "timeout", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Timeout = -1 })},
		"too large": {"too_large", "at most 4096", bad(func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Payload = make([]byte, payload+1) })},
	} {
		runBuffered(t, nil, func(b *buffered) {
			good := b.q1(time.Minute, nil)
			b.putBody(c.body(b))
			b.put(good)
			b.drain(10 * time.Minute)
			if b.state(good.Id) != "scheduled" || b.memory.Len() != 0 || len(b.left) != 0 {
				t.Errorf("%s: %s, %d messages, %v", name, b.state(good.Id), b.memory.Len(), b.left)
			}
			all := b.rejected()
			if len(all) != 1 || all[0].Reason != c.reason || !strings.Contains(all[0].Text, c.say) || all[0].Rejected != int64(start) || len(b.aside) != 1 {
				t.Fatalf("%s: %v, want %s with %q", name, all, c.reason, c.say)
			}
			if b.troubles != 0 || b.accepted2() != 1 || len(b.refused) != 0 || len(b.internal) != 0 {
				t.Errorf("%s: %d pauses, %d accepted, %v, %v", name, b.troubles, b.accepted2(), b.refused, b.internal)
			}
			kept, err := b.GetRejected(b.ctx, &kinesinv1.GetRejectedRequest{Name: all[0].Name})
			if _, encodes := proto.Marshal(kept); err != nil || encodes != nil {
				t.Errorf("%s: %v, %v", name, err, encodes)
			}
			r := b.retry(all[0].Name)[0] // in vain
			wantRefusal(t, name, r.Problem, isInvalid, c.reason)
			if again := b.rejected(); len(again) != 1 || again[0].Retries != 1 || again[0].Reason != c.reason {
				t.Errorf("%s: %v", name, again)
			}
		})
	}
}

// Anybody who may send to the queue can send what is not sealed. It is neither read nor kept as rejected,
// where it would take the room of what users have to see.
func TestUnsealedMessagesAreLeftAlone(t *testing.T) {
	other := task.NewInboundSealer(task.InboundKey([]byte("another secret, of another system")))
	for name, body := range map[string]func(b *buffered) string{
		"text":      func(*buffered) string { return "hello\x00world" },
		"no seal":   func(*buffered) string { return "AAAA" },
		"other key": func(b *buffered) string { return b.body(other, 1, b.q1(0, nil)) },
		"newer":     func(b *buffered) string { return b.body(other, 9, b.q1(0, nil)) },
	} {
		runBuffered(t, nil, func(b *buffered) {
			good := b.q1(time.Minute, nil)
			b.putBody(body(b))
			b.put(good)
			b.consume()
			b.advance(45 * time.Second)
			if b.state(good.Id) != "scheduled" || b.memory.Len() != 1 || len(b.rejected()) != 0 || len(b.aside) != 0 {
				t.Errorf("%s: %s, %d messages, %v", name, b.state(good.Id), b.memory.Len(), b.aside)
			}
			if b.left["unsealed"] != 2 || b.unsealed != 2 || len(b.left) != 1 || b.troubles != 0 || b.consumed != 1 {
				t.Errorf("%s: %v, %d told of, %d pauses, %d consumed", name, b.left, b.unsealed, b.troubles, b.consumed)
			}
		})
	}
}

func bad(change func(*kinesinv1.BufferedTask, *task.InboundToken)) func(b *buffered) string {
	return func(b *buffered) string { return b.body(b.seal, 1, b.q1(time.Minute, change)) }
}

func TestALambdaThatIsNotKnownYet(t *testing.T) {
	news := func(t *kinesinv1.BufferedTask, k *task.InboundToken) { k.Lambda, t.Item.Lambda = "news", "news" }
	create := func(b *buffered) {
		if _, err := b.CreateLambda(b.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "news"}}); err != nil {
			t.Fatal(err)
		}
	}
	runBuffered(t, nil, func(b *buffered) {
		early, beside := b.q1(time.Hour, news), b.q1(time.Hour, nil)
		b.put(early, beside)
		b.consume()
		b.advance(2 * time.Second)
		if b.state(beside.Id) != "scheduled" || b.state(early.Id) != isNotFound.String() || b.left["unknown_lambda"] != 1 || b.memory.Len() != 1 {
			t.Errorf("%s beside it, %v, %d messages", b.state(beside.Id), b.left, b.memory.Len())
		}
		create(b)
		b.advance(30 * time.Second)
		if b.state(early.Id) != "scheduled" || b.memory.Len() != 0 || len(b.aside) != 0 || b.consumed != 2 {
			t.Errorf("%s, %d messages, %v", b.state(early.Id), b.memory.Len(), b.aside)
		}
	})
	runBuffered(t, nil, func(b *buffered) {
		never := b.q1(time.Minute, news)
		b.put(never)
		b.consume()
		b.advance(2 * time.Minute)
		all := b.rejected()
		if len(all) != 1 || all[0].Reason != "unknown_lambda" || all[0].Lambda != "news" || all[0].Id != never.Id || b.memory.Len() != 0 || b.receives > 20 {
			t.Fatalf("%v, %d messages, %d receives", all, b.memory.Len(), b.receives)
		}
		b.halt()
		wantRefusal(t, "retry", b.retry(all[0].Name)[0].Problem, isInvalid, "unknown_lambda", `"news": `+"`kinesin lambda list` shows those there are, `kinesin lambda create` makes one; then retry")
		create(b)
		if r := b.retry(all[0].Name)[0]; r.Problem != nil || r.Id != never.Id || b.state(never.Id) != "enqueued" || len(b.rejected()) != 0 {
			t.Errorf("%v, then %s", r, b.state(never.Id))
		}
		b.wantNothingKept()
	})
}

// wantNothingKept checks that no control row is left of what was set aside.
func (b *buffered) wantNothingKept() {
	b.t.Helper()
	for _, kind := range []string{"rejected", "rejected-body"} {
		if rows, err := b.store.Controls(b.ctx, kind); len(rows) != 0 || err != nil {
			b.t.Errorf("%d rows of %s, %v", len(rows), kind, err)
		}
	}
}

func TestWhatIsSetAsideIsKeptWhole(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		item := b.q1(time.Minute, func(t *kinesinv1.BufferedTask, _ *task.InboundToken) {
			t.Item.Payload, t.Item.Collection = []byte(strings.Repeat("p", 500_000)), "c"
		})
		text := b.body(b.seal, 9, &kinesinv1.BufferedTask{Id: strings.Repeat("no id ", 60_000)})
		b.put(item)
		b.putBody(text, text) // the same twice is set aside once
		b.drain(time.Minute)
		all := b.rejected()
		if len(all) != 2 || b.memory.Len() != 0 {
			t.Fatalf("%v", all)
		}
		for _, r := range all {
			response, err := b.GetRejected(b.ctx, &kinesinv1.GetRejectedRequest{Name: r.Name})
			if err != nil {
				t.Fatal(err)
			}
			v := response.Rejected
			switch r.Reason {
			case "too_large":
				if len(v.Item.GetPayload()) != 500_000 || v.Item.Collection != "c" || v.Id != item.Id || v.Accepted != int64(start) || v.Body != nil {
					t.Errorf("%s: %d bytes", r.Reason, len(v.Item.GetPayload()))
				}
			case "newer_version":
				if string(v.Body) != text || v.Item != nil || v.Bytes != int64(len(text)) {
					t.Errorf("%s: %d bytes", r.Reason, len(v.Body))
				}
			default:
				t.Error(r)
			}
		}
		response, err := b.DeleteRejected(b.ctx, &kinesinv1.DeleteRejectedRequest{Names: []string{all[0].Name, all[0].Name, all[1].Name}})
		if err != nil || response.Results[0].Problem != nil || response.Results[2].Problem != nil {
			t.Errorf("%v, %v", response, err)
		}
		wantRefusal(t, "twice", response.Results[1].Problem, isNotFound, "rejected list")
		b.wantNothingKept()
	})
}

func TestRetryOfWhatMayHaveRun(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		one := b.q1(time.Minute, nil)
		b.putBody(b.again(one))
		b.time.Advance(task.RetentionDefault + time.Hour)
		b.drain(time.Minute)
		all := b.rejected()
		if len(all) != 1 || all[0].Reason != "stale" || b.messages() != 0 {
			t.Fatalf("%v", all)
		}
		if r := b.retry(all[0].Name)[0]; r.Problem != nil || b.messages() != 1 {
			t.Errorf("%v", r)
		}
	})
}

// again is the body of a message whose task came before.
func (b *buffered) again(one *kinesinv1.BufferedTask) string {
	b.t.Helper()
	body, err := envelope.Seal(b.seal, []*kinesinv1.BufferedTask{one}, 1)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

func TestARetryOfAMessageOfANewerVersion(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		good, wrong := b.q1(time.Minute, nil), b.q1(time.Minute, func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Key = "k" })
		b.putBody(b.body(b.seal, 2, good, wrong))
		b.drain(time.Minute)
		all := b.rejected()
		// After the upgrade this version reads it.
		row, err := b.store.Controls(b.ctx, "rejected-body")
		if err != nil || len(row) != 1 || len(all) != 1 {
			t.Fatal(err)
		}
		row[0].Version, row[0].Value = 2, []byte(b.body(b.seal, 1, good, wrong))
		b.apply(store.Op{Kind: store.PutControl, Control: row[0]})
		if r := b.retry(all[0].Name)[0]; r.Problem != nil || b.state(good.Id) != "enqueued" {
			t.Errorf("%v, %s", r, b.state(good.Id))
		}
		if all = b.rejected(); len(all) != 1 || all[0].Reason != "invalid" || all[0].Id != wrong.Id {
			t.Errorf("%v", all)
		}
	})
}

func TestRetryWhileTheStoreFails(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.putBody(b.again(b.q1(time.Minute, nil)))
		b.time.Advance(task.RetentionDefault + time.Hour)
		b.drain(time.Minute)
		name := b.rejected()[0].Name
		b.driver.Fail(store.PutTask, 1, 9, storetest.NotApplied)
		b.during(time.Minute, func() {
			wantRefusal(t, "retry", b.retry(name)[0].Problem, kinesinv1.Reason_REASON_UNAVAILABLE, "try again")
		})
		if all := b.rejected(); len(all) != 1 || all[0].Reason != "stale" {
			t.Errorf("%v", all)
		}
	})
}

func TestAsManyAsThereIsRoomForAreSetAside(t *testing.T) {
	runBuffered(t, func(c *settings) { c.Rejecting.Max = 3 }, func(b *buffered) {
		for n := range 5 {
			b.putBody(b.broken(fmt.Sprint("bad ", n)))
		}
		good := b.q1(time.Hour, nil)
		b.put(good)
		b.consume()
		b.advance(time.Hour)
		if len(b.rejected()) != 3 || b.memory.Len() != 2 || b.left["aside_full"] < 2 || b.receives > 400 || b.state(good.Id) != "scheduled" || b.troubles != 0 {
			t.Fatalf("%d set aside, %d messages, %v, %d receives, %d pauses", len(b.rejected()), b.memory.Len(), b.left, b.receives, b.troubles)
		}
		var names []string
		for _, r := range b.rejected() {
			names = append(names, r.Name)
		}
		if _, err := b.DeleteRejected(b.ctx, &kinesinv1.DeleteRejectedRequest{Names: names}); err != nil {
			t.Fatal(err)
		}
		b.advance(16 * time.Minute)
		if len(b.rejected()) != 2 || b.memory.Len() != 0 {
			t.Errorf("then %d, %d messages", len(b.rejected()), b.memory.Len())
		}
	})
	runBuffered(t, func(c *settings) { c.Rejecting.BytesMax = 100 }, func(b *buffered) {
		b.putBody(b.broken(strings.Repeat("x", 80)), b.broken(strings.Repeat("y", 44))) // 128 and 80 bytes
		b.drain(time.Minute)
		if all := b.rejected(); len(all) != 1 || all[0].Bytes != 80 || b.memory.Len() != 1 {
			t.Errorf("%v, %d messages", all, b.memory.Len())
		}
	})
}

func TestEachWriteOfWhatIsSetAsideFailing(t *testing.T) {
	for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
		for nth := 1; nth <= 2; nth++ {
			runBuffered(t, nil, func(b *buffered) {
				b.driver.Fail(store.PutControl, nth, 9, how)
				b.putBody(b.broken("bad"))
				b.drain(10 * time.Minute)
				all := b.rejected()
				if len(all) != 1 || b.memory.Len() != 0 {
					t.Fatalf("write %d, fault %d: %v, %d messages", nth, how, all, b.memory.Len())
				}
				if response, err := b.GetRejected(b.ctx, &kinesinv1.GetRejectedRequest{Name: all[0].Name}); err != nil || string(response.Rejected.Body) != b.broken("bad") {
					t.Errorf("write %d, fault %d: %v, %v", nth, how, response, err)
				}
			})
		}
	}
}

func TestPagesOfWhatIsSetAside(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		for n := range 7 {
			b.putBody(b.broken(fmt.Sprint("bad ", n)))
		}
		b.drain(time.Minute)
		var names []string
		request := &kinesinv1.ListRejectedRequest{Limit: 3}
		for pages := 1; ; pages++ {
			response, err := b.ListRejected(b.ctx, request)
			if err != nil || len(response.Rejected) > 3 {
				t.Fatal(err)
			}
			for _, r := range response.Rejected {
				names = append(names, r.Name)
			}
			if !response.More {
				if pages != 3 {
					t.Errorf("%d pages", pages)
				}
				break
			}
			request.After = names[len(names)-1]
		}
		if len(names) != 7 || len(b.rejected()) != 7 {
			t.Errorf("%v", names)
		}
		for _, limit := range []int32{-1, 1001} {
			_, err := b.ListRejected(b.ctx, &kinesinv1.ListRejectedRequest{Limit: limit})
			wantError(t, "limit", err, isInvalid, "1 to 1000")
		}
		for _, names := range [][]string{nil, make([]string, 101)} {
			_, err := b.RetryRejected(b.ctx, &kinesinv1.RetryRejectedRequest{Names: names})
			wantError(t, "retry", err, isInvalid, "1 to 100")
			_, err = b.DeleteRejected(b.ctx, &kinesinv1.DeleteRejectedRequest{Names: names})
			wantError(t, "delete", err, isInvalid, "1 to 100")
		}
		for _, name := range []string{"", "nonsense"} {
			_, err := b.GetRejected(b.ctx, &kinesinv1.GetRejectedRequest{Name: name})
			wantError(t, "get", err, isNotFound, "rejected list")
			wantRefusal(t, "retry", b.retry(name)[0].Problem, isNotFound)
		}
	})
}

func TestTheInboundKey(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		response, err := b.Key(b.ctx, &kinesinv1.KeyRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if key, err := base64.RawURLEncoding.DecodeString(response.Key); err != nil || string(key) != string(inboundKey) {
			t.Errorf("%q, %v", response.Key, err)
		}
	})
	run(t, func(f *fixture) {
		_, err := f.Key(f.ctx, &kinesinv1.KeyRequest{})
		wantError(t, "key", err, kinesinv1.Reason_REASON_UNSUPPORTED, "--inbound-queue")
		if r, err := f.ListRejected(f.ctx, &kinesinv1.ListRejectedRequest{}); err != nil || len(r.Rejected) != 0 {
			t.Errorf("%v, %v", r, err)
		}
	})
}
