package sqs

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keptMax is how long a message that was handed out is kept from others for whoever took it.
	keptMax = 10 * time.Minute
	// deletedKept is how many deleted messages are remembered: SQS may deliver one once more.
	deletedKept = 4096
)

// prefetch is what this process has received and not dealt with yet. The tasks of messages wait here for a
// receiver, those of each name in order of due time.
type prefetch struct {
	mu        sync.Mutex // guards all below
	messages  map[string]*held
	lines     map[queue.Name]*line
	taken     map[string]*part // by receipt
	receivers []*receiver      // that wait, in order of arrival
	receipts  uint64
	deleted   recent
	keeping   bool // a goroutine keeps the time
	closed    bool

	changed chan struct{} // something may be due sooner than the timekeeper knows
}

// held is one message.
type held struct {
	lane     *lane
	id       string       // tells it from all others here
	handle   string       // of its newest delivery
	received task.Instant // by clock.Steady, as is renew
	renew    task.Instant // when to keep it hidden for longer: half-way to when others see it again
	parts    []*part
	open     int // parts that are not done
}

// part is one task of a message.
type part struct {
	of      *held
	message queue.Message
	since   task.Instant // from when on it has waited although due, by clock.Steady
	receipt string       // of the receiver that has it; empty while it waits
	done    bool
}

func (one *part) due() task.Instant { return one.message.Task.HeldUntil() }

// line are the parts of one name.
type line struct {
	waiting []*part // the earliest due first, and of equals the one that came first
	taken   int
}

func (l *line) insert(one *part) {
	i, _ := slices.BinarySearchFunc(l.waiting, one, func(a, b *part) int {
		if a.due() <= b.due() {
			return -1
		}
		return 1
	})
	l.waiting = slices.Insert(l.waiting, i, one)
}

// receiver is a Receive that waits.
type receiver struct {
	names []queue.Name
	limit int
	ahead time.Duration
	got   chan []queue.Message // closed with the driver
}

func newPrefetch() *prefetch {
	return &prefetch{
		messages: map[string]*held{}, lines: map[queue.Name]*line{}, taken: map[string]*part{}, changed: make(chan struct{}, 1),
		deleted: recent{at: map[string]struct{}{}},
	}
}

func (p *prefetch) line(name queue.Name) *line {
	l := p.lines[name]
	if l == nil {
		l = &line{}
		p.lines[name] = l
	}
	return l
}

// met is what is known of a message that comes.
type met uint8

const (
	metNever met = iota
	metHere
	metDeleted
)

// meet looks a message up. Of one that is here the newest delivery is the one that counts from now on.
func (p *prefetch) meet(id, handle string, renew task.Instant) met {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, found := p.messages[id]; found {
		m.handle, m.renew = handle, renew
		return metHere
	}
	if _, deleted := p.deleted.at[id]; deleted {
		return metDeleted
	}
	return metNever
}

// add takes in a message with its tasks, for serve to hand out; false when the driver is closed. now is what
// the wall clock shows.
func (p *prefetch) add(m *held, tasks []task.Task, again bool, now task.Instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.messages[m.id] = m
	m.open = len(tasks)
	for i := range tasks {
		part := &part{of: m, message: queue.Message{Task: tasks[i], Again: again}, since: m.received.Add(max(0, tasks[i].HeldUntil().Sub(now)))}
		m.parts = append(m.parts, part)
		p.line(queue.NameFor(&tasks[i])).insert(part)
	}
	p.look()
	return true
}

// look has the timekeeper look again.
func (p *prefetch) look() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// join has a receiver wait, unless there is something for it now.
func (p *prefetch) join(r *receiver, now task.Instant) ([]queue.Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, queue.ErrClosed
	}
	if got := p.take(r, now); len(got) > 0 {
		return got, nil
	}
	p.receivers = append(p.receivers, r)
	p.look()
	return nil, nil
}

// await is what a receiver that has joined gets.
func (p *prefetch) await(ctx context.Context, r *receiver) ([]queue.Message, error) {
	select {
	case got, open := <-r.got:
		return got, closedUnless(open)
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.receivers, r); i >= 0 {
		p.receivers = slices.Delete(p.receivers, i, i+1)
		return nil, context.Cause(ctx)
	}
	got, open := <-r.got // it was served just now
	return got, closedUnless(open)
}

// wanted is how many tasks of a lane the receivers that wait would take, and how many wait for them here.
func (p *prefetch) wanted(key laneKey) (wanted, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.receivers {
		if slices.ContainsFunc(r.names, func(n queue.Name) bool { return keyOf(n) == key }) {
			wanted += r.limit
		}
	}
	for name, l := range p.lines {
		if keyOf(name) == key {
			waiting += len(l.waiting)
		}
	}
	return wanted, waiting
}

func closedUnless(open bool) error {
	if !open {
		return queue.ErrClosed
	}
	return nil
}

// serve hands out what is due to whoever waits for it, and says how long that can wait again.
func (p *prefetch) serve(now task.Instant) (next time.Duration) {
	next = time.Duration(forever)
	p.receivers = slices.DeleteFunc(p.receivers, func(r *receiver) bool {
		got := p.take(r, now)
		if len(got) > 0 {
			r.got <- got
			return true
		}
		for _, name := range r.names {
			if l := p.lines[name]; l != nil && len(l.waiting) > 0 {
				next = min(next, l.waiting[0].due().Add(-r.ahead/2).Sub(now))
			}
		}
		return false
	})
	return next
}

// take hands out up to a receiver's limit of tasks, once one of them is due within half of what it looks
// ahead.
func (p *prefetch) take(r *receiver, now task.Instant) []queue.Message {
	isRipe := func(name queue.Name) bool {
		l := p.lines[name]
		return l != nil && len(l.waiting) > 0 && l.waiting[0].due() <= now.Add(r.ahead/2)
	}
	if !slices.ContainsFunc(r.names, isRipe) {
		return nil
	}
	var got []queue.Message
	for _, name := range r.names {
		l := p.lines[name]
		for l != nil && len(got) < r.limit && len(l.waiting) > 0 && l.waiting[0].due() <= now.Add(r.ahead) {
			got = append(got, p.handOut(l))
		}
	}
	return got
}

func (p *prefetch) handOut(l *line) queue.Message {
	one := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	p.receipts++
	one.receipt = strconv.FormatUint(p.receipts, 36)
	p.taken[one.receipt] = one
	l.taken++
	m := one.message
	m.Receipt = one.receipt
	return m
}

// takeBack returns the parts that these receivers have.
func (p *prefetch) takeBack(messages []queue.Message) []*part {
	parts := make([]*part, 0, len(messages))
	for i := range messages {
		if one := p.taken[messages[i].Receipt]; one != nil {
			p.untake(one)
			parts = append(parts, one)
		}
	}
	return parts
}

func (p *prefetch) untake(one *part) {
	delete(p.taken, one.receipt)
	one.receipt = ""
	p.lines[queue.NameFor(&one.message.Task)].taken--
}

// finish is the end of tasks that were handed out. It returns the messages of which nothing is left.
func (p *prefetch) finish(messages []queue.Message) (over []*held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.takeBack(messages) {
		if m := p.end(one); m != nil {
			over = append(over, m)
		}
	}
	return over
}

// finishPart is finish of a task that is not handed out.
func (p *prefetch) finishPart(one *part) *held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(one)
}

// end notes that a part is done; it returns the message when that was the last one.
func (p *prefetch) end(one *part) *held {
	m := one.of
	if one.done || p.messages[m.id] != m {
		return nil
	}
	one.done = true
	if m.open--; m.open > 0 {
		return nil
	}
	p.drop(m)
	p.deleted.add(m.id)
	return m
}

// forget drops a message without a word: it comes again.
func (p *prefetch) forget(m *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(m)
}

func (p *prefetch) drop(m *held) {
	if p.messages[m.id] == m {
		delete(p.messages, m.id)
	}
	for _, one := range m.parts {
		if one.receipt != "" {
			p.untake(one)
		}
	}
}

// release takes back tasks that were handed out.
func (p *prefetch) release(messages []queue.Message) []*part {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeBack(messages)
}

// whole drops the messages all of whose tasks are among these: they can go back as they are. The others are
// in rest.
func (p *prefetch) whole(parts []*part) (messages []*held, rest []*part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := map[*held]int{}
	for _, one := range parts {
		count[one.of]++
	}
	for _, one := range parts {
		m := one.of
		switch {
		case p.messages[m.id] != m: // forgotten, or returned with the others
		case count[m] == len(m.parts):
			p.drop(m)
			messages = append(messages, m)
		default:
			rest = append(rest, one)
		}
	}
	return messages, rest
}

// unclaimed takes out the tasks that nobody has come for since before, although they were due.
func (p *prefetch) unclaimed(before task.Instant) (parts []*part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, l := range p.lines {
		l.waiting = slices.DeleteFunc(l.waiting, func(one *part) bool {
			leaves := one.since < before
			if leaves {
				parts = append(parts, one)
			}
			return leaves
		})
		if len(l.waiting) == 0 && l.taken == 0 {
			delete(p.lines, name)
		}
	}
	return parts
}

// keepHidden calls hide for the messages that are to be kept hidden for longer, until renew is over twice.
// The ones that were kept for too long are dropped. What is returned later is so for hide as well.
func (p *prefetch) keepHidden(now, renew task.Instant, hide func(*held)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		switch {
		case m.renew >= now:
		case now.Sub(m.received) > keptMax:
			p.drop(m)
		default:
			m.renew = renew
			hide(m)
		}
	}
}

// depth is what waits here of one name, and what receivers have.
func (p *prefetch) depth(name queue.Name, now task.Instant) (d queue.Depth) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lines[name]; l != nil {
		d.Visible, d.InFlight = len(l.waiting), l.taken
		for _, one := range l.waiting {
			d.Oldest = max(d.Oldest, now.Sub(one.since))
		}
	}
	return d
}

// ofLambda drops all that is here of a lambda and returns the messages.
func (p *prefetch) ofLambda(lambda uint32) (all []*held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		if m.lane.key.lambda == lambda {
			p.drop(m)
			p.deleted.add(m.id)
			all = append(all, m)
		}
	}
	for name, l := range p.lines {
		if name.Lambda == lambda {
			l.waiting = nil
		}
	}
	return all
}

// close ends all receivers and takes nothing in any more.
func (p *prefetch) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.receivers {
		close(r.got)
	}
	p.receivers = nil
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
