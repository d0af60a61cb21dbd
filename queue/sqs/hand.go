package sqs

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keptMax is how long a message that was handed out is kept from others for whoever took it.
	keptMax = 10 * time.Minute
	// localReleasesMax is how often a released task is handed out here again before others get it.
	localReleasesMax = 3
	// holdLooks is how often within Config.Hold it is looked whether all that waits here is likely to be taken in time.
	holdLooks = 4
	// deletedKept is how many deleted messages are remembered: SQS may deliver one once more.
	deletedKept = 4096
)

// hand is every SQS message that was received and is neither deleted nor returned.
type hand struct {
	mu       sync.Mutex // guards all below
	pieces   map[uint64]*piece
	messages map[string]*held // by lane.idOf
	numbers  uint64
	deleted  recent
	sweeping bool
	stopped  chan struct{} // closed by stop
}

// held is one message in hand.
type held struct {
	lane     *lane
	id       string // see lane.idOf
	handle   string // of its newest delivery
	received task.Instant
	renew    task.Instant // when to keep it hidden for longer: half-way to when others see it again
	pieces   []uint64
	open     int           // pieces that are not done
	apart    time.Duration // how long nobody sees it again when nobody here comes for it
}

// piece is one task of a message, known in the buffer by its number.
type piece struct {
	of       *held
	releases int
}

func (h *hand) init() {
	h.pieces, h.messages = map[uint64]*piece{}, map[string]*held{}
	h.deleted.at = map[string]struct{}{}
	h.stopped = make(chan struct{})
}

// met is what is known of a message that comes.
type met uint8

const (
	metNever met = iota
	metInHand
	metDeleted
)

// meet looks a message up. Of one in hand the newest delivery is the one that counts from now on.
func (h *hand) meet(id, handle string, renew task.Instant) met {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, found := h.messages[id]; found {
		m.handle, m.renew = handle, renew
		return metInHand
	}
	if h.deleted.has(id) {
		return metDeleted
	}
	return metNever
}

// add takes a message with so many tasks in hand and returns their numbers.
func (h *hand) add(m *held, tasks int) []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.pieces, m.open = make([]uint64, tasks), tasks
	for i := range m.pieces {
		h.numbers++
		m.pieces[i] = h.numbers
		h.pieces[h.numbers] = &piece{of: m}
	}
	h.messages[m.id] = m
	return m.pieces
}

// take notes that somebody has the tasks, and how many of each lane.
func (h *hand) take(messages []queue.Message, count func(*lane, int)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var last *lane
	n := 0
	for i := range messages {
		p := h.pieces[mem.TagOf(messages[i].Receipt)]
		if p == nil {
			continue
		}
		if p.of.lane != last {
			if n > 0 {
				count(last, n)
			}
			last, n = p.of.lane, 0
		}
		n++
	}
	if n > 0 {
		count(last, n)
	}
}

// finish is the end of tasks. It returns the messages of which nothing is left.
func (h *hand) finish(numbers ...uint64) []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	var over []*held
	for _, number := range numbers {
		p := h.pieces[number]
		if p == nil {
			continue
		}
		delete(h.pieces, number)
		if p.of.open--; p.of.open == 0 {
			h.drop(p.of)
			h.deleted.add(p.of.id)
			over = append(over, p.of)
		}
	}
	return over
}

// forget drops a message without a word: it comes again.
func (h *hand) forget(m *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(m)
}

func (h *hand) drop(m *held) {
	if h.messages[m.id] == m {
		delete(h.messages, m.id)
	}
	for _, number := range m.pieces {
		delete(h.pieces, number)
	}
}

// mayStay reports whether a released task may be handed out here again, and counts it.
func (h *hand) mayStay(number uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pieces[number]
	if p == nil || p.releases >= localReleasesMax {
		return false
	}
	p.releases++
	return true
}

// whole returns the messages all of whose tasks are among these, and drops them from hand: they can go back
// as they are. The other tasks are in rest, by their place in numbers.
func (h *hand) whole(numbers []uint64) (messages []*held, rest []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := map[*held]int{}
	for _, number := range numbers {
		if p := h.pieces[number]; p != nil {
			count[p.of]++
		}
	}
	for i, number := range numbers {
		if p := h.pieces[number]; p != nil && count[p.of] < len(p.of.pieces) {
			rest = append(rest, i)
		}
	}
	for m, n := range count {
		if n == len(m.pieces) {
			h.drop(m)
			messages = append(messages, m)
		}
	}
	return messages, rest
}

// messageOf is the message a task came with; nil when it is not in hand any more.
func (h *hand) messageOf(number uint64) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pieces[number]; p != nil {
		return p.of
	}
	return nil
}

// ofLambda drops all messages of a lambda from hand and returns them.
func (h *hand) ofLambda(lambda uint32) []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*held
	for _, m := range h.messages {
		if m.lane.key.lambda == lambda {
			h.drop(m)
			h.deleted.add(m.id)
			all = append(all, m)
		}
	}
	return all
}

// expiring are the messages that are to be kept hidden for longer. The ones that were kept for too long are dropped.
func (h *hand) expiring(now task.Instant) []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*held
	for _, m := range h.messages {
		switch {
		case m.renew >= now:
		case now.Sub(m.received) > keptMax:
			h.drop(m)
		default:
			all = append(all, m)
		}
	}
	return all
}

// lanes are those that have messages in hand.
func (h *hand) lanes() []*lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*lane
	seen := map[*lane]bool{}
	for _, m := range h.messages {
		if !seen[m.lane] {
			seen[m.lane] = true
			all = append(all, m.lane)
		}
	}
	return all
}

// extended notes that a message stays hidden until then; ok is false when it is not in hand any more, since what was returned
// a moment ago must not be hidden again.
func (h *hand) extended(m *held, renew task.Instant) (handle string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.renew = renew
	return m.handle, h.messages[m.id] == m
}

func (h *hand) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stopped:
	default:
		close(h.stopped)
	}
}

// sweep starts the sweeper unless it runs. It ends when nothing is in hand.
func (d *Driver) sweep() {
	d.hand.mu.Lock()
	defer d.hand.mu.Unlock()
	if d.hand.sweeping || len(d.hand.messages) == 0 {
		return
	}
	d.hand.sweeping = d.work.start(d.sweeper)
}

func (d *Driver) sweeper() {
	for {
		timer := d.Clock.NewTimer(d.Hold / holdLooks)
		select {
		case <-timer.C():
		case <-d.hand.stopped:
			timer.Stop()
			return
		}
		d.sweepOnce()
		d.hand.mu.Lock()
		if len(d.hand.messages) == 0 {
			d.hand.sweeping = false
			d.hand.mu.Unlock()
			return
		}
		d.hand.mu.Unlock()
	}
}

// sweepOnce gives others what nobody here has come for, and keeps from them what somebody has.
func (d *Driver) sweepOnce() {
	now := d.Clock.Now()
	d.returnUnclaimed(d.buffer.ReceiveUnclaimed(now.Add(-d.Hold)))
	for _, l := range d.hand.lanes() {
		name := queue.Name{Lambda: l.key.lambda, Priority: l.key.priority}
		most := l.expected(now, d.Hold) // beyond that to half of it, so that what goes goes together
		d.returnUnclaimed(d.buffer.ReceiveSurplus(name, most, most/2, now.Add(-d.Hold/holdLooks)))
	}
	for _, m := range d.hand.expiring(now) {
		if handle, ok := d.hand.extended(m, now.Add(d.Visibility/2)); ok {
			m.lane.returns.add([]returned{{handle: handle, after: d.Visibility}}, d.DeleteLinger, true)
		}
	}
}

func (d *Driver) returnUnclaimed(messages []queue.Message) {
	d.giveBack(d.buffer.DeleteTagged(messages), 0, true)
}

// recent remembers the latest ids.
type recent struct {
	at   map[string]struct{}
	ring [deletedKept]string
	next int
}

func (r *recent) add(id string) {
	delete(r.at, r.ring[r.next])
	r.ring[r.next] = id
	r.at[id] = struct{}{}
	r.next = (r.next + 1) % len(r.ring)
}

func (r *recent) has(id string) bool {
	_, found := r.at[id]
	return found
}
