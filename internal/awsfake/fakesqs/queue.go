package fakesqs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// message is one message in a queue.
type message struct {
	seq        uint64 // order of arrival
	id         string
	body       string
	attributes map[string]types.MessageAttributeValue
	sent       task.Instant
	group      string

	received  int          // times
	last      task.Instant // received
	visibleAt task.Instant
	hiddenAs  hiding // its place in queue.hidden
	where     place
	handle    string // of the last delivery
}

type place uint8

const (
	gone place = iota
	visible
	delayed
	inFlight
)

// queue is one queue. SQS.mu guards all of it.
type queue struct {
	sqs      *SQS
	name     string
	created  task.Instant
	changed  task.Instant
	purged   task.Instant
	settings map[string]string

	byID    map[string]*message
	visible *btree.BTreeG[*message]
	hidden  *btree.BTreeG[hiding] // delayed and in flight
	counts  [inFlight + 1]int
	woken   chan struct{} // closed when a message becomes visible
	ghosts  []ghost
	recent  map[string]recent // by deduplication id; only of a FIFO queue
	seq     uint64
	handles uint64

	shown   [inFlight + 1]int // the counts at shownAt
	shownAt task.Instant
}

// recent is a message that a FIFO queue has got, and drops when it comes again.
type recent struct {
	message *message
	at      task.Instant
}

// recentFor is how long a FIFO queue remembers a deduplication id.
const recentFor = 5 * time.Minute

const fifo = types.QueueAttributeNameFifoQueue

func (q *queue) isFIFO() bool { return q.settings[string(fifo)] == "true" }

// ghost is a long poll whose caller gave up.
type ghost struct {
	until      task.Instant
	limit      int
	visibility time.Duration
}

const treeDegree = 32

func (s *SQS) newQueue(name string, now task.Instant) *queue {
	return &queue{
		sqs: s, name: name, created: now, changed: now, settings: defaultSettings(s.cfg.MessageBytesMax),
		byID: map[string]*message{}, recent: map[string]recent{}, woken: make(chan struct{}),
		visible: btree.NewG(treeDegree, func(a, b *message) bool { return a.seq < b.seq }),
		hidden: btree.NewG(treeDegree, func(a, b hiding) bool {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.message.seq, b.message.seq)) < 0
		}),
	}
}

// move moves a message to another place.
func (q *queue) move(m *message, to place) {
	switch m.where {
	case visible:
		q.visible.Delete(m)
	case delayed, inFlight:
		q.hidden.Delete(m.hiddenAs)
	case gone:
	}
	q.counts[m.where]--
	m.where = to
	q.counts[to]++
	switch to {
	case visible:
		q.visible.ReplaceOrInsert(m)
		q.wake()
	case delayed, inFlight:
		m.hiddenAs = hiding{m, m.visibleAt}
		q.hidden.ReplaceOrInsert(m.hiddenAs)
		if first, _ := q.hidden.Min(); first.message == m {
			q.wake() // polls wait for a later one
		}
	case gone:
		delete(q.byID, m.id)
	}
}

// wake makes all polls look again.
func (q *queue) wake() {
	close(q.woken)
	q.woken = make(chan struct{})
}

// settle brings a queue up to date: hidden messages become visible, messages that are too old go, and ghosts
// take their messages.
func (q *queue) settle(now task.Instant) {
	for h, found := q.hidden.Min(); found && h.at <= now; h, found = q.hidden.Min() {
		q.move(h.message, visible)
	}
	oldest := now.Add(-q.seconds(retention))
	for m, found := q.visible.Min(); found && m.sent < oldest; m, found = q.visible.Min() {
		q.move(m, gone)
	}
	for i := range q.ghosts {
		if g := &q.ghosts[i]; g.until > now && q.visible.Len() > 0 {
			q.take(now, g.limit, g.visibility)
			g.until = 0
		}
	}
	q.ghosts = slices.DeleteFunc(q.ghosts, func(g ghost) bool { return g.until <= now })
}

// add puts a message into the queue.
func (q *queue) add(m *message, now task.Instant, delay time.Duration) {
	q.seq++
	m.seq, m.sent, m.visibleAt = q.seq, now, now.Add(delay)
	if m.id == "" {
		q.sqs.messages++
		m.id = fmt.Sprintf("%08x-0000-4000-8000-%012x", len(q.name), q.sqs.messages)
	}
	q.byID[m.id] = m
	q.counts[gone]++ // which move takes back
	if delay > 0 {
		q.move(m, delayed)
	} else {
		q.move(m, visible)
	}
}

// hide keeps a message in flight until then.
func (q *queue) hide(m *message, until task.Instant) {
	m.visibleAt = until
	q.move(m, inFlight)
}

// seconds returns a setting that is a duration.
func (q *queue) seconds(setting types.QueueAttributeName) time.Duration {
	n, _ := strconv.Atoi(q.settings[string(setting)])
	return time.Duration(n) * time.Second
}

const retention = types.QueueAttributeNameMessageRetentionPeriod

// hiding is a message that nobody can receive before an instant.
type hiding struct {
	message *message
	at      task.Instant
}
