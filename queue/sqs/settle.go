package sqs

import (
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
)

const (
	// pollVisibility is when SQS hands out a received message again, unless this process keeps it hidden.
	// When the process dies, its tasks are late by no more.
	pollVisibility = 4 * time.Second
	// visibility is how long a message is hidden that is still in hand after half of pollVisibility; it is
	// renewed while the process lives.
	visibility = 30 * time.Second
)

// delete deletes a message later, together with others.
func (l *lane) delete(m *heldMessage) { l.deletes.Put(m.handle) }

// hide changes for how long messages are hidden from others.
func hide(messages []*heldMessage, d time.Duration) {
	byLane := map[*lane][]sqsclient.Hidden{}
	for _, m := range messages {
		byLane[m.lane] = append(byLane[m.lane], sqsclient.Hidden{Receipt: m.handle, For: d})
	}
	for l, hidden := range byLane {
		l.hides.Put(hidden...)
	}
}

// lastOfEach returns the last change of each message: SQS may carry out those of one request in any order.
func lastOfEach(changes []sqsclient.Hidden) []sqsclient.Hidden {
	at := make(map[string]int, len(changes))
	last := make([]sqsclient.Hidden, 0, len(changes))
	for _, change := range changes {
		if i, seen := at[change.Receipt]; seen {
			last[i] = change
			continue
		}
		at[change.Receipt] = len(last)
		last = append(last, change)
	}
	return last
}

func (l *lane) logFailure(what string, err error) {
	if err != nil {
		l.driver.Log.WarnContext(l.driver.ctx, "received messages were not settled: they are received again",
			slog.String("queue", l.name), slog.String("failed", what), slog.Any("error", err))
	}
}
