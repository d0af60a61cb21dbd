package sqsinbound_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(awslocal.Main(m)) }

const start = task.Instant(1_700_000_000_123_456)

var (
	rawKey = task.InboundKey([]byte(strings.Repeat("s", task.TokenKeyBytes)))
	key    = base64.RawURLEncoding.EncodeToString(rawKey)
	mail   = sdk.NewLambda[map[string]int]("mail", sdk.MaxAttempts(3))
)

// fixture is a client over SQS in memory, in virtual time.
type fixture struct {
	*sqsinbound.Client

	t    *testing.T
	time *clock.Virtual
	sqs  *fakesqs.SQS
	url  string
	seal *task.InboundSealer
}

func run(t *testing.T, opts []sqsinbound.Option, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		f := &fixture{t: t, time: v, sqs: fakesqs.New(fakesqs.Config{Clock: v.Process(0)}), seal: task.NewInboundSealer(rawKey)}
		name := "prod-inbound"
		out, err := f.sqs.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name})
		if err != nil {
			t.Fatal(err)
		}
		f.url = *out.QueueUrl
		if f.Client, err = sqsinbound.New(f.sqs, "prod", key, append([]sqsinbound.Option{sqsinbound.WithClock(v.Process(0))}, opts...)...); err != nil {
			t.Fatal(err)
		}
		test(f)
		f.during(time.Minute, func() {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

// during runs call while the clock advances.
func (f *fixture) during(d time.Duration, call func()) {
	f.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	synctest.Wait()
	f.time.Advance(d)
	synctest.Wait()
	select {
	case <-done:
	default:
		f.t.Fatalf("not done after %v", d)
	}
}

// messages receives and opens all messages of the queue.
func (f *fixture) messages() (all []*kinesinv1.Envelope) {
	f.t.Helper()
	for {
		out, err := f.sqs.ReceiveMessage(f.t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &f.url, MaxNumberOfMessages: 10})
		if err != nil {
			f.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return all
		}
		for _, m := range out.Messages {
			e, err := envelope.Open(f.t.Context(), f.seal, *m.Body)
			if err != nil {
				f.t.Fatal(err)
			}
			all = append(all, e)
		}
	}
}

func (f *fixture) tasks() (all []*kinesinv1.BufferedTask) {
	f.t.Helper()
	for _, e := range f.messages() {
		all = append(all, e.Tasks...)
	}
	return all
}

func TestATypedTaskIsInTheQueue(t *testing.T) {
	run(t, nil, func(f *fixture) {
		for _, c := range []struct {
			opts  []sdk.Option
			due   task.Instant
			moves bool // with now
		}{
			{nil, start - 456, true},
			{[]sdk.Option{sdk.In(-time.Hour)}, start - 456, true},
			{[]sdk.Option{sdk.In(time.Hour)}, start.Add(time.Hour) + 544, true}, // never early
			{[]sdk.Option{sdk.At(start.Add(-time.Hour).Time())}, start - 456, true},
			{[]sdk.Option{sdk.At(start.Add(time.Minute).Time().Add(time.Nanosecond))}, start.Add(time.Minute) + 544, false},
		} {
			var id sdk.ID
			opts := slices.Concat(c.opts, []sdk.Option{sdk.Priority("high"), sdk.Collection("c"), sdk.Timeout(time.Minute), sdk.Backoff(time.Second, time.Minute)})
			now := task.Instant(0)
			f.during(sqsinbound.LingerDefault, func() {
				now = f.time.Now()
				var err error
				if id, err = mail.Schedule(f.t.Context(), f, map[string]int{"user": 42}, opts...); err != nil {
					t.Error(err)
				}
			})
			all := f.tasks()
			if len(all) != 1 || all[0].Id != string(id) || all[0].Accepted != int64(now) {
				t.Fatalf("%v", all)
			}
			item, shift := all[0].Item, task.Instant(0)
			if c.moves {
				shift = now - start
			}
			token, err := f.seal.Open(t.Context(), all[0].Id)
			if want := c.due + shift; err != nil || token.Lambda != "mail" || token.Priority != "high" || token.Due != want || token.ID.IsDerived() {
				t.Errorf("%+v, %v; want due %d", token, err, want)
			}
			if item.Lambda != "mail" || item.Priority != "high" || item.Collection != "c" || item.MaxAttempts != 3 || string(item.Payload) != `{"user":42}` ||
				item.Timeout != 60_000_000 || item.BackoffMin != 1_000_000 || item.BackoffMax != 60_000_000 || item.Due+item.Delay != 0 {
				t.Errorf("%v", item)
			}
		}
	})
}

func TestWhatNoServerWouldTakeIsRefused(t *testing.T) {
	run(t, nil, func(f *fixture) {
		for name, c := range map[string]struct {
			item sdk.Item
			want error
			say  string
		}{
			"no lambda":     {sdk.Item{}, sdk.ErrInvalid, "1 to 64 characters"},
			"lambda":        {sdk.Item{Lambda: "a b"}, sdk.ErrInvalid, "lambda name"},
			"priority":      {sdk.Item{Lambda: "mail", Priority: "ä"}, sdk.ErrInvalid, "priority name"},
			"key":           {sdk.Item{Lambda: "mail", Key: "k"}, sdk.ErrUnsupported, "sdk.Client"},
			"collection":    {sdk.Item{Lambda: "mail", Collection: "a\n"}, sdk.ErrInvalid, "control characters"},
			"collection 2":  {sdk.Item{Lambda: "mail", Collection: strings.Repeat("x", 129)}, sdk.ErrInvalid, "at most 128"},
			"attempts":      {sdk.Item{Lambda: "mail", MaxAttempts: -1}, sdk.ErrInvalid, "1 to 1000"},
			"attempts 2":    {sdk.Item{Lambda: "mail", MaxAttempts: 1 << 40}, sdk.ErrInvalid, "1 to 1000"},
			"timeout":       {sdk.Item{Lambda: "mail", Timeout: time.Nanosecond}, sdk.ErrInvalid, "timeout"},
			"backoff":       {sdk.Item{Lambda: "mail", BackoffMin: time.Hour, BackoffMax: time.Minute}, sdk.ErrInvalid, "backoff"},
			"due":           {sdk.Item{Lambda: "mail", In: 1<<63 - 1}, sdk.ErrInvalid, "too far"},
			"due in 20,000": {sdk.Item{Lambda: "mail", At: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)}, sdk.ErrInvalid, "too far"},
			"trace":         {sdk.Item{Lambda: "mail", Traceparent: "x"}, sdk.ErrInvalid, "trace"},
			"payload":       {sdk.Item{Lambda: "mail", Payload: make([]byte, 200_000)}, sdk.ErrTooLarge, "WithMessageBytesMax"},
		} {
			r, err := f.Schedule(f.t.Context(), c.item)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || r.ID != "" || r.Err == nil {
				t.Errorf("%s: %v, %v", name, r, err)
			}
		}
		if f.sqs.Calls(awsfake.Any) != 1 {
			t.Errorf("%d requests", f.sqs.Calls(awsfake.Any))
		}
		f.during(time.Second, func() {
			results, err := f.ScheduleMany(f.t.Context(), []sdk.Item{{Lambda: "mail"}, {Lambda: "a b"}, {Lambda: "mail", At: time.Unix(-1, 0)}})
			if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "1 of 3 tasks") || !strings.Contains(err.Error(), "item 1") || results[0].Err != nil || results[2].ID == "" {
				t.Errorf("%v, %v", results, err)
			}
		})
	})
}

// Every field of a task goes through the queue.
func TestEveryFieldIsInTheQueue(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.during(time.Second, func() {
			_, err := f.Schedule(f.t.Context(), sdk.Item{
				Lambda: "mail", Payload: []byte("p"), In: time.Hour, Priority: "high", Collection: "c", MaxAttempts: 3, Timeout: time.Minute,
				BackoffMin: time.Second, BackoffMax: time.Minute, Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
				Tags: map[string]string{"tenant": "acme"}, StartBefore: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			})
			if err != nil {
				t.Error(err)
			}
		})
		m := f.tasks()[0].Item.ProtoReflect()
		for i := range m.Descriptor().Fields().Len() {
			field := m.Descriptor().Fields().Get(i)
			elsewhere := slices.Contains([]string{"due", "delay", "request_id", "key", "limit_key", "on_conflict", "blob", "then", "else", "finally", "lambda_ref"}, string(field.Name()))
			if m.Has(field) == elsewhere {
				t.Errorf("%s: there %v", field.Name(), m.Has(field))
			}
		}
	})
}

func TestWhatSQSRefusesForTheMomentIsSentAgainWithTheSameIDs(t *testing.T) {
	for _, fault := range []awsfake.Fault{awsfake.Partial, awsfake.PartialDone, awsfake.Throttled, awsfake.Refused, awsfake.BrokenAfter, awsfake.LostRequest, awsfake.LostAnswer} {
		run(t, nil, func(f *fixture) {
			f.sqs.Faults.Next("SendMessageBatch", fault, 5)
			var want []string
			f.during(30*time.Second, func() {
				results, err := f.ScheduleMany(f.t.Context(), slices.Repeat([]sdk.Item{{Lambda: "mail"}}, 120))
				if err != nil {
					t.Errorf("%s: %v", fault, err)
				}
				for _, r := range results {
					want = append(want, string(r.ID))
				}
			})
			got := map[string]bool{}
			for _, one := range f.tasks() {
				got[one.Id] = true
			}
			if len(got) != len(want) || slices.ContainsFunc(want, func(id string) bool { return !got[id] }) {
				t.Errorf("%s: %d tasks, want %d", fault, len(got), len(want))
			}
		})
	}
}

// WithSendTimeout bounds all tries to send a message together, whether SQS refuses them or does not answer.
func TestSendTimeout(t *testing.T) {
	const timeout = 3 * time.Second
	for _, fault := range []awsfake.Fault{awsfake.Throttled, awsfake.LostAnswer, awsfake.LostRequest} {
		run(t, []sqsinbound.Option{sqsinbound.WithSendTimeout(timeout)}, func(f *fixture) {
			f.sqs.Faults.Odds("SendMessageBatch", fault, 1)
			f.during(timeout+sqsinbound.LingerDefault, func() {
				if r, err := f.Schedule(f.t.Context(), sdk.Item{Lambda: "mail"}); !errors.Is(err, sdk.ErrUnavailable) || r.ID == "" {
					t.Errorf("%s: %v, %v", fault, r, err)
				}
			})
			f.sqs.Faults.Off()
			f.during(timeout, func() {
				if _, err := f.Schedule(f.t.Context(), sdk.Item{Lambda: "mail"}); err != nil {
					t.Errorf("%s: when SQS is back: %v", fault, err)
				}
			})
		})
	}
}

func TestWaitingIsBounded(t *testing.T) {
	run(t, []sqsinbound.Option{sqsinbound.WithPending(10, 1<<20)}, func(f *fixture) {
		f.sqs.Faults.Odds("SendMessageBatch", awsfake.Throttled, 1)
		ctx, cancel := context.WithCancel(f.t.Context())
		f.during(2*time.Second, func() {
			go func() {
				_ = clock.Sleep(f.t.Context(), f.time.Process(0), time.Second)
				cancel()
			}()
			results, err := f.ScheduleMany(ctx, slices.Repeat([]sdk.Item{{Lambda: "mail"}}, 1000))
			if err == nil {
				t.Error("no error")
			}
			notSent, unknown := 0, 0
			for _, r := range results {
				switch {
				case errors.Is(r.Err, sqsinbound.ErrNotSent) && errors.Is(r.Err, context.Canceled) && r.ID == "":
					notSent++
				case errors.Is(r.Err, sdk.ErrUnavailable) && r.ID != "":
					unknown++
				default:
					t.Errorf("%v", r)
				}
			}
			if notSent < 900 || unknown == 0 {
				t.Errorf("%d not sent, %d unknown", notSent, unknown)
			}
		})
		f.sqs.Faults.Off()
	})
}

func TestBadSettings(t *testing.T) {
	for name, c := range map[string]struct {
		queue, key string
		opt        sqsinbound.Option
		say        string
	}{
		"no key":     {"prod", "", nil, "kinesin inbound key"},
		"short key":  {"prod", "c2VjcmV0", nil, "8 characters"},
		"other text": {"prod", strings.Repeat("!", 43), nil, "kinesin inbound key"},
		"no queue":   {"", key, nil, "the URL of the inbound queue"},
		"prefix":     {"no such prefix", key, nil, "1 to 20 characters"},
		"prefix 2":   {strings.Repeat("x", 21), key, nil, "1 to 20 characters"},
		"message":    {"prod", key, sqsinbound.WithMessageBytesMax(2 << 20), "1048576"},
		"message 2":  {"prod", key, sqsinbound.WithMessageBytesMax(-1), "1024"},
	} {
		opts := []sqsinbound.Option{}
		if c.opt != nil {
			opts = append(opts, c.opt)
		}
		_, err := sqsinbound.New(fakesqs.New(fakesqs.Config{}), c.queue, c.key, opts...)
		if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), c.say) || len(c.key) > 10 && strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAQueueThatIsNotThere(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	for _, queue := range []string{"prod", "https://sqs.us-east-1.amazonaws.com/000000000000/prod-inbound"} {
		c, err := sqsinbound.New(service, queue, key, sqsinbound.WithLinger(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Schedule(t.Context(), sdk.Item{Lambda: "mail"}); err == nil || !strings.Contains(err.Error(), "prod-inbound does not exist") || !strings.Contains(err.Error(), "kinesin aws setup") {
			t.Errorf("%s: %v", queue, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseSendsWhatWaits(t *testing.T) {
	run(t, []sqsinbound.Option{sqsinbound.WithLinger(time.Hour)}, func(f *fixture) {
		done := make(chan error, 1)
		go func() {
			_, err := f.Schedule(f.t.Context(), sdk.Item{Lambda: "mail"})
			done <- err
		}()
		synctest.Wait()
		if err := f.Close(f.t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil || len(f.tasks()) != 1 {
			t.Error(err)
		}
		if _, err := f.Schedule(f.t.Context(), sdk.Item{Lambda: "mail"}); !errors.Is(err, sqsinbound.ErrClosed) {
			t.Error(err)
		}
	})
}
