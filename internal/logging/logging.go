// Package logging makes the log of a server: JSON or logfmt, with a level for each component that can be
// changed at run time, the ids of the request and the trace that a line belongs to, and durations with their
// units. It keeps the last lines in memory, for `kinesin debug bundle`.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// keptBytesMax bounds the lines that are kept.
	keptBytesMax = 1 << 20
	// componentKey is the attribute that names the component of a line.
	componentKey = "component"
)

// Components returns the names of what has a level of its own.
func Components() []string {
	return []string{"dispatcher", "hsc", "inbound", "scheduler", "server", "store"}
}

// Log is the log of a process. It is safe for concurrent use.
type Log struct {
	levels map[string]*slog.LevelVar
	kept   *kept
	// IDs returns attributes of the request and the trace of a context; nil: none.
	IDs func(ctx context.Context) []slog.Attr
}

// New returns a log on w and the handler that writes it.
func New(w io.Writer, isJSON bool, level slog.Level) (*Log, slog.Handler) {
	l := &Log{levels: map[string]*slog.LevelVar{}, kept: &kept{}}
	for _, c := range Components() {
		l.levels[c] = &slog.LevelVar{}
		l.levels[c].Set(level)
	}
	both := io.MultiWriter(w, l.kept)
	options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withUnits}
	var h slog.Handler = slog.NewTextHandler(both, options)
	if isJSON {
		h = slog.NewJSONHandler(both, options)
	}
	return l, &handler{next: h, log: l, level: l.levels["server"]}
}

// withUnits writes a duration as text in JSON too, where slog writes nanoseconds.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

// Of returns a logger of a component.
func Of(log *slog.Logger, component string) *slog.Logger {
	return log.With(slog.String(componentKey, component))
}

// Levels returns the level of each component.
func (l *Log) Levels() map[string]string {
	all := map[string]string{}
	for name, level := range l.levels {
		all[name] = strings.ToLower(level.Level().String())
	}
	return all
}

// SetLevel changes the level of a component, or of all with an empty name. Its error says what is allowed.
func (l *Log) SetLevel(component, level string) error {
	var to slog.Level
	if err := to.UnmarshalText([]byte(level)); err != nil || !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(level)) {
		return fmt.Errorf("level %.32q: want debug, info, warn or error", level)
	}
	if component == "" {
		for _, v := range l.levels {
			v.Set(to)
		}
		return nil
	}
	v := l.levels[component]
	if v == nil {
		return fmt.Errorf("component %.32q: want one of %s", component, strings.Join(slices.Sorted(maps.Keys(l.levels)), ", "))
	}
	v.Set(to)
	return nil
}

// Last returns the last lines.
func (l *Log) Last() []byte { return l.kept.all() }

// handler adds ids and minds the levels.
type handler struct {
	next  slog.Handler
	log   *Log
	level *slog.LevelVar
}

// Enabled implements slog.Handler, as do the other methods.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// Handle writes a record.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.log.IDs != nil {
		r.AddAttrs(h.log.IDs(ctx)...)
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs takes the level of the component that the attributes name.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	level := h.level
	for _, a := range attrs {
		if v := h.log.levels[a.Value.String()]; a.Key == componentKey && v != nil {
			level = v
		}
	}
	return &handler{h.next.WithAttrs(attrs), h.log, level}
}

// WithGroup keeps the level.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(name), h.log, h.level}
}

// kept keeps the last lines. It is an io.Writer that gets a line at a time.
type kept struct {
	mu    sync.Mutex
	lines [][]byte
	bytes int
}

// Write keeps a line, and forgets the oldest ones when there are too many.
func (k *kept) Write(line []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, slices.Clone(line))
	k.bytes += len(line)
	drop := 0
	for k.bytes > keptBytesMax && drop < len(k.lines)-1 {
		k.bytes -= len(k.lines[drop])
		drop++
	}
	k.lines = slices.Delete(k.lines, 0, drop)
	return len(line), nil
}

func (k *kept) all() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Concat(k.lines...)
}
