package sqs

import (
	"log/slog"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Polls fetch the messages that waiting receivers lack. The timekeeper hands out their tasks when they are
// due, and gives back those that nobody takes. Each sets the other going, so they stand together.

const (
	// pollersMax is how many polls of one queue run at once while they come back full.
	pollersMax = 4
	// pollPause is the pause after a poll that returned several tasks but fewer messages than asked for.
	pollPause = 10 * time.Millisecond
)

const (
	// holdMax is how long a due task that nobody here takes stays here before others can have it.
	holdMax = 250 * time.Millisecond
	// sweepEvery is how often the prefetched messages are checked for such tasks, and hidden for longer.
	sweepEvery = holdMax / 4
)

// pollBackoff bounds the pause after failed polls.
var pollBackoff = backoff.Policy{Min: 200 * time.Millisecond, Max: 10 * time.Second}

// start runs f in a goroutine that Close waits for. It returns false after Close.
func (d *Driver) start(f func()) bool {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed.Load() {
		return false
	}
	d.running.Go(f)
	return true
}

// missing returns how many messages to receive for the waiting receivers. The caller holds the lock.
func (l *lane) missing() int {
	wanted, waiting := l.driver.prefetch.wanted(l.key)
	if wanted == 0 || l.driver.closed.Load() {
		return 0
	}
	return int(math.Ceil(float64(wanted-waiting) / l.polls.tasksPerMessage))
}

// tend starts polls while messages are missing: one, and more at once while polls come back full.
func (l *lane) tend() {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	for {
		missing := l.missing() - l.polls.running*sqsclient.BatchMax
		if l.polls.running > 0 && (!l.polls.isFull || missing <= 0 || l.polls.running >= pollersMax) {
			return
		}
		if missing <= 0 || !l.driver.start(l.poll) {
			return
		}
		l.polls.running++
	}
}

// poll receives until no messages are missing. It does not cancel a poll while the driver is open: messages
// that SQS just handed out would stay hidden from everyone for the visibility timeout.
func (l *lane) poll() {
	d := l.driver
	for {
		wanted := l.nextPoll()
		if wanted == 0 {
			return
		}
		received, err := d.client.Receive(d.open, l.name, sqsclient.Poll{
			Max: wanted, Visibility: pollVisibility, Attributes: []string{AttributeTaskID}, // only deliveries have it
		})
		tasks := l.accept(received)
		pause := l.notePoll(err, tasks, len(received) >= wanted)
		if pause > 0 {
			d.client.Pause(d.open, pause)
		}
	}
}

// nextPoll returns how many messages a poll asks for; 0 ends it.
func (l *lane) nextPoll() int {
	p := &l.polls
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := min(l.missing(), sqsclient.BatchMax)
	if wanted <= 0 || p.running > 1 && !p.isFull {
		if p.running--; p.running == 0 {
			l.driver.prefetch.noteAnswer(l.key)
		}
		return 0
	}
	l.driver.prefetch.noteAsked(l.key, clock.Steady(l.driver.Clock))
	return wanted
}

// notePoll takes the result of a poll and returns the pause before the next one.
func (l *lane) notePoll(err error, tasks int, isFull bool) (pause time.Duration) {
	d, p := l.driver, &l.polls
	p.mu.Lock()
	p.isFull = err == nil && isFull
	switch {
	case d.closed.Load():
	case err != nil:
		if p.failures++; p.failures == 1 {
			d.Log.WarnContext(d.ctx, "receiving from queue failed", slog.String("queue", l.name), slog.Any("error", err))
		}
		pause = pollBackoff.Pause(d.Clock, p.failures)
	case p.failures > 0:
		d.Log.InfoContext(d.ctx, "receiving from queue works again", slog.String("queue", l.name), slog.Int("failures", p.failures))
		p.failures = 0
	case tasks > 1 && !isFull && d.Linger > 0: // more are likely to come soon, and can share a poll
		pause = pollPause
	}
	p.mu.Unlock()
	if err == nil && isFull {
		l.tend()
	}
	return pause
}

// accept prefetches the messages of a poll and returns how many tasks they have.
func (l *lane) accept(received []types.Message) (accepted int) {
	d, now, steady := l.driver, l.driver.Clock.Now(), clock.Steady(l.driver.Clock)
	for i := range received {
		m := &received[i]
		tasks := l.open(m, now, steady)
		if len(tasks) == 0 {
			continue
		}
		accepted += len(tasks)
		held := &heldMessage{
			lane: l, id: l.idOf(m), handle: aws.ToString(m.ReceiptHandle), received: steady, renewAt: steady.Add(pollVisibility / 2),
		}
		if !d.prefetch.add(held, tasks, sqsclient.Receives(m) > 1, now) {
			l.hides.Put(sqsclient.Hidden{Receipt: held.handle})
			d.client.Observer.Returned(l.name, len(tasks), 0)
		}
	}
	if accepted > 0 {
		d.prefetch.noteAnswer(l.key)
		d.handOut(now, clock.Steady(d.Clock))
	}
	return accepted
}

// handOut serves the receivers, and starts the timekeeper unless it runs.
func (d *Driver) handOut(now, steady task.Instant) {
	p := d.prefetch
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(now, steady)
	if !p.isTimed {
		p.isTimed = d.start(d.timekeeper)
	}
}

// timekeeper hands out tasks when they are due, and sweeps. It ends when nothing is prefetched.
func (d *Driver) timekeeper() {
	p := d.prefetch
	timer := d.Clock.NewTimer(sweepEvery)
	defer timer.Stop()
	swept := clock.Steady(d.Clock)
	for {
		began, now, steady := clock.StampOf(timer), d.Clock.Now(), clock.Steady(d.Clock)
		if steady.Sub(swept) >= sweepEvery {
			d.sweep(steady)
			swept = steady
		}
		p.mu.Lock()
		if len(p.messages) == 0 || p.closed {
			p.isTimed = false
			p.mu.Unlock()
			return
		}
		wait := p.serve(now, steady)
		p.mu.Unlock()
		clock.ResetFrom(timer, began, min(wait, swept.Add(sweepEvery).Sub(steady)))
		select {
		case <-timer.C():
		case <-p.changed:
		case <-d.open.Done():
		}
	}
}

// sweep gives back the tasks that nobody here took in holdMax, and keeps those in hand hidden. Suspects are
// only forgotten, so that SQS shows them again in its own time: a process that runs a blamed task takes no
// other one, and its polls would fetch and return those over and over.
func (d *Driver) sweep(now task.Instant) {
	var back []*heldTask
	lanes := map[*lane]bool{}
	for _, t := range d.prefetch.removeWaiting(now.Add(-holdMax)) {
		lanes[t.of.lane] = true
		if t.name().Class == queue.Normal {
			back = append(back, t)
		} else {
			d.prefetch.forget(t.of)
		}
	}
	d.giveBack(back, 0)
	for l := range lanes {
		l.tend()
	}
	d.prefetch.renew(now)
}
