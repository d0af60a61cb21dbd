package sqsbuffer_test

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
)

// The observer is told of every request that SQS bills for the inbound queue.
func TestEveryRequestIsToldOf(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	if _, err := sqsclient.Create(t.Context(), service, sqsbuffer.Queues("shop")); err != nil {
		t.Fatal(err)
	}
	before := service.Calls(awsfake.Any)
	var mu sync.Mutex
	billed, entries, failed, codes := map[sqsclient.Action]int{}, map[sqsclient.Action]int{}, 0, map[string]int{}
	b := sqsbuffer.New(service, sqsbuffer.Config{Prefix: "shop", Clock: clock.Real(), Observer: &sqsclient.Observer{
		Request: func(r sqsclient.Request) {
			mu.Lock()
			defer mu.Unlock()
			billed[r.Action] += r.Billed()
			entries[r.Action] += r.Entries
			if r.Err != nil {
				failed++
			}
			if r.Queue != "shop-inbound" || r.Took < 0 {
				t.Errorf("%+v", r)
			}
		},
		Refused: func(queue string, action sqsclient.Action, code string) {
			mu.Lock()
			defer mu.Unlock()
			codes[queue+" "+string(action)]++
			if code == "" {
				t.Error("no code")
			}
		},
	}})
	large := buffer.Outgoing{Body: strings.Repeat("a", 100<<10)} // two requests of 64 KiB, in a bill
	if err := errors.Join(b.Send(t.Context(), []buffer.Outgoing{large, {Body: "b"}})...); err != nil {
		t.Fatal(err)
	}
	got, err := b.Receive(t.Context(), 10)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d messages, %v", len(got), err)
	}
	if err := b.Retry(t.Context(), got, 0); err != nil {
		t.Fatal(err)
	}
	if got, err = b.Receive(t.Context(), 10); err != nil || len(got) != 2 {
		t.Fatalf("%d messages, %v", len(got), err)
	}
	if err := b.Delete(t.Context(), append(got, buffer.Message{Receipt: "no receipt of ours"})); err != nil {
		t.Fatal(err)
	}
	want := map[sqsclient.Action]int{sqsclient.ActionURL: 1, sqsclient.ActionSend: 2, sqsclient.ActionReceive: 4, sqsclient.ActionVisibility: 1, sqsclient.ActionDelete: 1}
	if !maps.Equal(billed, want) {
		t.Errorf("billed %v, want %v", billed, want)
	}
	want = map[sqsclient.Action]int{sqsclient.ActionURL: 0, sqsclient.ActionSend: 2, sqsclient.ActionReceive: 4, sqsclient.ActionVisibility: 2, sqsclient.ActionDelete: 3}
	if !maps.Equal(entries, want) {
		t.Errorf("entries %v, want %v", entries, want)
	}
	if n := service.Calls(awsfake.Any) - before; n != 6 || failed != 0 || codes["shop-inbound DeleteMessageBatch"] != 1 || len(codes) != 1 {
		t.Errorf("%d calls, %d failed, refused entries %v", n, failed, codes)
	}
	service.Faults.Odds("SendMessageBatch", awsfake.Throttled, 1)
	if err := b.Send(t.Context(), []buffer.Outgoing{{Body: "c"}})[0]; err == nil || failed == 0 {
		t.Errorf("%v, and %d told of", err, failed)
	}
}
