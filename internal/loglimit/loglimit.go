// Package loglimit limits repeated log messages: a slog.Handler that passes on a number of warnings and
// errors with the same message, and then logs how many it left out.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Each message is passed on RecordsMax times within Every.
const (
	RecordsMax = 20
	Every      = 10 * time.Second
)

// messagesMax bounds the messages that are limited. Messages are constants of the program.
const messagesMax = 1024

// Handler is a slog.Handler in front of another one.
type Handler struct {
	next   slog.Handler
	counts *counts
}

// New returns a handler in front of next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, counts: &counts{of: map[string]*count{}, tell: next}}
}

// Enabled implements slog.Handler, as do the other methods.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle passes a record on, or leaves it out and counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.counts.pass(&r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs returns a handler that shares its counts with this one.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(attrs), counts: h.counts}
}

// WithGroup does the same.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), counts: h.counts}
}

type counts struct {
	tell slog.Handler

	mu sync.Mutex
	of map[string]*count // by message; guarded by mu
}

// count counts one message from its first record until Every is over.
type count struct {
	level   slog.Level // the highest
	passed  int
	leftOut int
}

// pass counts a record, and reports whether it is to be logged.
func (c *counts) pass(r *slog.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of[r.Message]
	if known == nil {
		if len(c.of) < messagesMax {
			c.of[r.Message] = &count{level: r.Level, passed: 1}
			message := r.Message
			time.AfterFunc(Every, func() { c.over(message) })
		}
		return true
	}
	known.level = max(known.level, r.Level)
	if known.passed < RecordsMax {
		known.passed++
		return true
	}
	known.leftOut++
	return false
}

// over logs how many records were left out.
func (c *counts) over(message string) {
	c.mu.Lock()
	known := c.of[message]
	delete(c.of, message)
	c.mu.Unlock()
	if known.leftOut == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), known.level, "records left out of the log", 0)
	r.AddAttrs(slog.String("message", message), slog.Int("records", known.leftOut), slog.Duration("within", Every))
	_ = c.tell.Handle(context.Background(), r) // an error of the log cannot be logged
}
