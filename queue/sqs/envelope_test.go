package sqs_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

func TestEnvelopeGivesBackWhatWentIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		messages := make([]queue.Message, rapid.IntRange(1, 20).Draw(t, "tasks"))
		want := make([]task.Task, len(messages))
		for i := range messages {
			m := taskOf(rapid.Uint32().Draw(t, "lambda"), i, task.Instant(rapid.Int64Range(1, 1<<50).Draw(t, "due")))
			if size := rapid.SampledFrom([]int{0, 1, 30, 100, 700, 20_000}).Draw(t, "payload"); size > 0 {
				m.Task.Payload = slices.Repeat([]byte{byte(i)}, size)
				m.Task.PayloadSize = uint32(size)
			}
			m.Task.Key = rapid.StringN(0, 10, 20).Draw(t, "key")
			messages[i], want[i] = m, m.Task
		}
		body := sqs.Encode(messages)
		if strings.Trim(body, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") != "" {
			t.Fatalf("not text: %q", body)
		}
		got, err := sqs.Decode(body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, %v\nwant %+v", got, err, want)
		}
	})
}

// A later release may add fields, which this one skips.
func TestEnvelopeWithFieldsOfALaterRelease(t *testing.T) {
	t.Parallel()
	sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sqs.Encode([]queue.Message{taskOf(7, 1, 5)}), "k2."))
	if err != nil {
		t.Fatal(err)
	}
	raw := slices.Concat(protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), []byte("new")), sealed[task.SealBytes:],
		protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 7))
	got, err := sqs.Decode(sqs.Sealed(raw))
	if err != nil || len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sqs.Encode([]queue.Message{taskOf(7, 1, 5), taskOf(7, 2, 6)}))
	f.Add("k2.")
	f.Add("k3.abc")
	f.Add("k2.CgEB")
	f.Add("\x0a\x01\x01")
	f.Fuzz(func(t *testing.T, body string) {
		if _, err := sqs.Decode(sqs.Sealed([]byte(body))); errors.Is(err, sqs.ErrUnsealed) {
			t.Error("sealed, and refused")
		}
		var tasks []task.Task
		var err error
		alloctest.AtMost(t, uint64(32<<10+256*len(body)), func() { tasks, err = sqs.Decode(body) })
		if (err == nil) != (len(tasks) > 0) {
			t.Errorf("%d tasks and %v", len(tasks), err)
		}
		if err != nil && !errors.Is(err, sqs.ErrEnvelope) && !errors.Is(err, sqs.ErrUnsealed) && !errors.Is(err, sqs.ErrEnvelopeVersion) {
			t.Errorf("refused with %v", err)
		}
	})
}

// A body that was changed in any place, or that was sent to another queue, is not read.
func TestAForgedBodyIsNotRead(t *testing.T) {
	t.Parallel()
	body := sqs.Encode([]queue.Message{taskOf(7, 1, 5)})
	if _, err := sqs.Decode(body); err != nil {
		t.Fatal(err)
	}
	for i := range body {
		for _, c := range []byte{'A', 'B'} {
			forged := []byte(body)
			if forged[i] == c {
				continue
			}
			forged[i] = c
			// The last character has bits that base64 does not use.
			if got, err := sqs.Decode(string(forged)); err == nil && i < len(body)-1 {
				t.Errorf("changed at %d: read as %+v", i, got)
			}
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(body, "k2."))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		sealer task.Seal
		want   error
	}{
		"another key":          {sqs.SealerOf(2, 1), task.ErrUnsealed},
		"a key that is gone":   {sqs.SealerOf(3, 0), task.ErrKeyGone},
		"a key that never was": {sqs.SealerOf(1, 0), task.ErrUnsealed},
	} {
		if _, err := c.sealer.Open(t.Context(), sqs.TestQueue, raw); !errors.Is(err, c.want) {
			t.Errorf("opened with %s: %v", what, err)
		}
	}
	for _, other := range []string{"test-lambda8-high", "test-lambda7-hig", "test-lambda7-high\x00", ""} {
		if _, err := sqs.TestSealer.Open(t.Context(), other, raw); !errors.Is(err, task.ErrUnsealed) {
			t.Errorf("opened as a message of queue %q: %v", other, err)
		}
	}
}

// benchmarkTasks returns tasks as the dispatcher sends them, with payloads of 200 bytes.
func benchmarkTasks(n int) []queue.Message {
	random := rand.New(rand.NewPCG(1, 2))
	messages := make([]queue.Message, n)
	for i := range messages {
		m := taskOf(7, i, 1_700_000_000_000_000)
		m.Task.Payload = make([]byte, 200)
		for k := range m.Task.Payload {
			m.Task.Payload[k] = byte(random.Uint32())
		}
		m.Task.PayloadSize, m.Task.Worker, m.Task.Enqueued, m.Task.Wake = 200, "", m.Task.Due, m.Task.Due+60_000_000
		messages[i] = m
	}
	return messages
}

// BenchmarkEnvelope encodes and decodes one task.
func BenchmarkEnvelope(b *testing.B) {
	for _, tasks := range []int{1, 16} {
		messages := benchmarkTasks(tasks)
		body := sqs.Encode(messages)
		b.Run(fmt.Sprintf("encode/tasks=%d", tasks), func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%tasks == 0 {
					sqs.Encode(messages)
				}
			}
			b.ReportMetric(float64(len(body))/float64(tasks), "bytes/task")
		})
		b.Run(fmt.Sprintf("decode/tasks=%d", tasks), func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%tasks != 0 {
					continue
				}
				if _, err := sqs.Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
