package fakesqs

import (
	"container/heap"
	"fmt"
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
	system     map[string]string // sent with it
	sent       task.Instant

	received  int
	first     task.Instant // received
	last      task.Instant // received
	visibleAt task.Instant
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

// queue is one queue. Everything in it is guarded by the lock of its SQS.
type queue struct {
	sqs      *SQS
	name     string
	created  task.Instant
	changed  task.Instant
	settings map[string]string
	tags     map[string]string

	byID    map[string]*message
	visible *btree.BTreeG[*message]
	hidden  hidden // delayed and in flight
	counts  [inFlight + 1]int
	woken   chan struct{} // closed when a message becomes visible
	ghosts  []ghost
	seq     uint64
	handles uint64
	purged  task.Instant

	shown   [inFlight + 1]int // counts as of shownAt
	shownAt task.Instant
}

// ghost is a long poll whose caller is gone.
type ghost struct {
	until      task.Instant
	limit      int
	visibility time.Duration
}

const treeDegree = 32

func (s *SQS) newQueue(name string, now task.Instant) *queue {
	return &queue{
		sqs: s, name: name, created: now, changed: now, settings: defaultSettings(s.cfg.MessageBytesMax), tags: map[string]string{},
		byID: map[string]*message{}, woken: make(chan struct{}),
		visible: btree.NewG(treeDegree, func(a, b *message) bool { return a.seq < b.seq }),
	}
}

// move puts a message where it belongs now.
func (q *queue) move(m *message, to place) {
	if m.where == visible {
		q.visible.Delete(m)
	}
	q.counts[m.where]--
	m.where = to
	q.counts[to]++
	switch to {
	case visible:
		q.visible.ReplaceOrInsert(m)
		q.wake()
	case delayed, inFlight:
		heap.Push(&q.hidden, hiding{m, m.visibleAt})
		if q.hidden[0].message == m {
			q.wake() // polls keep time for a later one
		}
	case gone:
		delete(q.byID, m.id)
	}
}

// wake has all polls look again.
func (q *queue) wake() {
	close(q.woken)
	q.woken = make(chan struct{})
}

// settle does what time has done since: what was hidden becomes visible, what is too old goes, and
// polls that nobody waits for any more take their share.
func (q *queue) settle(now task.Instant) {
	for len(q.hidden) > 0 && q.hidden[0].at <= now {
		h, _ := heap.Pop(&q.hidden).(hiding)
		if m := h.message; (m.where == delayed || m.where == inFlight) && m.visibleAt == h.at {
			q.move(m, visible)
		}
	}
	oldest := now.Add(-q.seconds(retention))
	for m, found := q.visible.Min(); found && m.sent < oldest; m, found = q.visible.Min() {
		q.move(m, gone)
	}
	for _, g := range q.ghosts {
		if g.until > now && q.visible.Len() > 0 {
			q.take(now, g.limit, g.visibility)
			g.until = 0
		}
	}
	q.ghosts = deleteDone(q.ghosts, now)
}

func deleteDone(all []ghost, now task.Instant) []ghost {
	kept := all[:0]
	for _, g := range all {
		if g.until > now {
			kept = append(kept, g)
		}
	}
	return kept
}

// next is when a hidden message becomes visible, if there is any.
func (q *queue) next() (task.Instant, bool) {
	if len(q.hidden) == 0 {
		return 0, false
	}
	return q.hidden[0].at, true
}

// add puts a new message in.
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

// hide keeps a message in flight until later.
func (q *queue) hide(m *message, until task.Instant) {
	m.visibleAt = until
	q.move(m, inFlight)
}

// seconds is a setting that is a duration.
func (q *queue) seconds(setting types.QueueAttributeName) time.Duration {
	n, _ := strconv.Atoi(q.settings[string(setting)])
	return time.Duration(n) * time.Second
}

const retention = types.QueueAttributeNameMessageRetentionPeriod

// hidden are the messages that nobody can receive now, soonest first. Those that were moved since are still
// in it.
type hidden []hiding

type hiding struct {
	message *message
	at      task.Instant
}

// Len is part of heap.Interface, as are the other exported methods.
func (h hidden) Len() int           { return len(h) }
func (h hidden) Less(i, j int) bool { return h[i].at < h[j].at }
func (h hidden) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push appends.
func (h *hidden) Push(x any) { *h = append(*h, x.(hiding)) } //nolint:errcheck,forcetypeassert // only move pushes

// Pop removes the last.
func (h *hidden) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = hiding{}
	*h = (*h)[:last]
	return e
}
