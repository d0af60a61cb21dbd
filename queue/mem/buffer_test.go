package mem_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

func tagged(d *mem.Driver, from uint64, dues ...task.Instant) {
	for i, due := range dues {
		d.Put([]queue.Message{messageDue(due)}, []uint64{from + uint64(i)})
	}
}

func tagsOf(messages []queue.Message) map[uint64]bool {
	tags := map[uint64]bool{}
	for _, m := range messages {
		tags[mem.TagOf(m.Receipt)] = true
	}
	return tags
}

func TestBufferKeepsTags(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	d := mem.New(c, mem.Config{DepthMax: 1})
	tagged(d, 1, start, start-1) // beyond the bound
	if d.Send(t.Context(), []queue.Message{messageDue(start)})[0] == nil {
		t.Error("a message was sent beyond the bound")
	}
	got := d.TryReceive([]queue.Name{one}, 9, 0)
	if len(got) != 2 || mem.TagOf(got[0].Receipt) != 2 || mem.TagOf(got[1].Receipt) != 1 {
		t.Fatalf("received %+v", got)
	}
	if again := d.TryReceive([]queue.Name{one}, 9, 0); again != nil {
		t.Errorf("received %+v twice", again)
	}
	if err := d.Release(t.Context(), got[1:], 0); err != nil || d.Waiting(one) != 1 {
		t.Errorf("released: %v, %d wait", err, d.Waiting(one))
	}
	if gone := d.DeleteTagged(got); len(gone) != 1 || mem.TagOf(gone[0].Receipt) != 2 {
		t.Errorf("deleted %v, want what is held by its receipt: 2", tagsOf(gone))
	}
	got = d.TryReceive([]queue.Name{one}, 9, 0)
	if len(got) != 1 || mem.TagOf(got[0].Receipt) != 1 {
		t.Errorf("after the release: %+v", got)
	}
	d.Send(t.Context(), []queue.Message{messageDue(start)})
	if sent := d.TryReceive([]queue.Name{one}, 9, 0); len(sent) != 1 || mem.TagOf(sent[0].Receipt) != 0 {
		t.Errorf("a message that was sent has a tag: %+v", sent)
	}
	_ = d.Close()
	if d.Put(got, []uint64{1}) || d.TryReceive([]queue.Name{one}, 1, 0) != nil {
		t.Error("a closed driver holds messages")
	}
}

func TestBufferGivesUpTheLatestFirst(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	c := v.Process(0)
	d := mem.New(c, mem.Config{})
	tagged(d, 1, start-1, start-5, start-3, start.Add(time.Hour))
	v.Advance(time.Second)
	tagged(d, 5, start-9)
	if got := d.ReceiveSurplus(one, 3, 1, c.Now()); len(got) != 0 {
		t.Errorf("gave up %v of three that may stay", tagsOf(got))
	}
	if got := tagsOf(d.ReceiveSurplus(one, 2, 1, c.Now())); len(got) != 2 || !got[1] || !got[3] {
		t.Errorf("gave up %v, want 1 and 3, which are due last", got)
	}
	if got := d.ReceiveSurplus(queue.Name{Lambda: 2}, 0, 0, c.Now()); got != nil {
		t.Errorf("gave up %v of an empty queue", got)
	}
	rest := d.TryReceive([]queue.Name{one}, 9, 2*time.Hour)
	if len(rest) != 3 || mem.TagOf(rest[0].Receipt) != 5 || mem.TagOf(rest[1].Receipt) != 2 || mem.TagOf(rest[2].Receipt) != 4 {
		t.Errorf("kept %v, want 5, 2, 4 in this order", tagsOf(rest))
	}
}

func TestBufferGivesUpWhatNobodyCameFor(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	c := v.Process(0)
	d := mem.New(c, mem.Config{})
	tagged(d, 1, start-5, start.Add(time.Second), start.Add(time.Minute), start-4)
	v.Advance(time.Second)
	tagged(d, 9, start-5)
	if got := d.ReceiveUnclaimed(start); len(got) != 0 {
		t.Errorf("gave up %v too early", tagsOf(got))
	}
	got := tagsOf(d.ReceiveUnclaimed(c.Now()))
	if len(got) != 2 || !got[1] || !got[4] {
		t.Errorf("gave up %v, want 1 and 4", got)
	}
	rest := d.TryReceive([]queue.Name{one}, 9, time.Hour)
	if len(rest) != 3 || mem.TagOf(rest[0].Receipt) != 9 || mem.TagOf(rest[2].Receipt) != 3 {
		t.Errorf("kept %v, want 9, 2, 3 in this order", tagsOf(rest))
	}
	if depth, _ := d.Depth(t.Context(), one); depth.InFlight != 5 || depth.Visible != 0 {
		t.Errorf("depth %+v", depth)
	}
}
