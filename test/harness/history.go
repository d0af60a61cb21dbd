package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/job"
)

// pollEvery is how often a history is read while something is waited for.
const pollEvery = 2 * time.Millisecond

// History is the file that the test and all worker processes append their events to.
type History struct {
	tb   testing.TB
	path string
	file *os.File

	nonces atomic.Int64 // of what clients ask for, so that no two are the same

	mu     sync.Mutex
	offset int64
	events []checker.Event // read so far
}

// newHistory starts an empty history.
func newHistory(tb testing.TB) *History {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "history.jsonl")
	f, err := job.OpenLog(path)
	if err != nil {
		tb.Fatal(err)
	}
	h := &History{tb: tb, path: path, file: f}
	tb.Cleanup(h.close)
	return h
}

// close keeps the history of a test that failed.
func (h *History) close() {
	_ = h.file.Close()
	if !h.tb.Failed() {
		return
	}
	content, err := os.ReadFile(h.path)
	if err != nil {
		return
	}
	kept, err := os.CreateTemp("", "kinesin-history-*.jsonl")
	if err != nil {
		return
	}
	defer func() { _ = kept.Close() }()
	if _, err := kept.Write(content); err == nil {
		h.tb.Logf("history kept in %s", kept.Name())
	}
}

// Path is the file.
func (h *History) Path() string { return h.path }

// Add appends an event; without a time of its own it happened now. Where there is no history it does nothing.
func (h *History) Add(e checker.Event) {
	if h == nil {
		return
	}
	h.tb.Helper()
	if e.At == 0 {
		e.At = time.Now().UnixMicro()
	}
	if _, err := h.file.Write(e.Line()); err != nil {
		h.tb.Error(err)
	}
}

// Events are all events so far. The caller must not change them.
func (h *History) Events() []checker.Event {
	h.tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.readOn(); err != nil {
		h.tb.Fatal(err)
	}
	return h.events
}

// readOn reads the whole lines that came since.
func (h *History) readOn() error {
	f, err := os.Open(h.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	news := make([]byte, size-h.offset)
	if _, err := f.ReadAt(news, h.offset); err != nil {
		return err
	}
	news = news[:bytes.LastIndexByte(news, '\n')+1]
	events, err := checker.Read(bytes.NewReader(news))
	h.offset += int64(len(news))
	h.events = append(h.events, events...)
	return err
}

// Count is how many events the test holds for.
func (h *History) Count(holds func(checker.Event) bool) int {
	h.tb.Helper()
	n := 0
	for _, e := range h.Events() {
		if holds(e) {
			n++
		}
	}
	return n
}

// Find waits until n events hold and returns them. It fails the test after atMost.
func (h *History) Find(n int, atMost time.Duration, what string, holds func(checker.Event) bool) []checker.Event {
	h.tb.Helper()
	deadline := time.Now().Add(atMost)
	var found []checker.Event
	seen := 0
	for {
		events := h.Events()
		for ; seen < len(events); seen++ {
			if holds(events[seen]) {
				found = append(found, events[seen])
			}
		}
		if len(found) >= n {
			return found
		}
		if time.Now().After(deadline) {
			h.tb.Fatalf("%d of %d %s within %v", len(found), n, what, atMost)
		}
		time.Sleep(pollEvery)
	}
}

// StartOf waits for the start of a task's attempt, any if 0, and returns its event.
func (h *History) StartOf(id sdk.ID, attempt uint32, atMost time.Duration) checker.Event {
	h.tb.Helper()
	return h.Find(1, atMost, fmt.Sprintf("starts of attempt %d of %s", attempt, id), func(e checker.Event) bool {
		return e.Kind == checker.Started && e.Task == string(id) && (attempt == 0 || e.Attempt == attempt)
	})[0]
}

// EndOf waits for the end of a task's attempt and returns its event.
func (h *History) EndOf(id sdk.ID, attempt uint32, atMost time.Duration) checker.Event {
	h.tb.Helper()
	return h.Find(1, atMost, fmt.Sprintf("ends of attempt %d of %s", attempt, id), func(e checker.Event) bool {
		return e.Kind == checker.Ended && e.Task == string(id) && e.Attempt == attempt
	})[0]
}

// NextStart waits for the first execution that begins after a moment, and returns how long after it that was.
func (h *History) NextStart(since time.Time) time.Duration {
	h.tb.Helper()
	first := h.Find(1, SettleMax, "starts after the fault", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.At > since.UnixMicro()
	})[0]
	return time.UnixMicro(first.At).Sub(since)
}

// StartsSince is how many executions have begun after a moment.
func (h *History) StartsSince(moment time.Time) int {
	h.tb.Helper()
	return h.Count(func(e checker.Event) bool { return e.Kind == checker.Started && e.At >= moment.UnixMicro() })
}

// Outage writes down that the servers could do nothing meanwhile, so that what they could not acknowledge may
// be repeated.
func (h *History) Outage(during func()) {
	h.Add(checker.Event{Kind: checker.ServerDown})
	during()
	h.Add(checker.Event{Kind: checker.ServerUp})
}

// Repeated is how many executions there were besides the first of each task and those that follow a failure.
func (h *History) Repeated() int {
	h.tb.Helper()
	failed := h.Count(func(e checker.Event) bool { return e.Kind == checker.Ended && e.Outcome == checker.Fail })
	return checker.Summarize(h.Events()).Repeated - failed
}

// check fails the test for each breach of a rule.
func (h *History) check(o checker.Options) {
	h.tb.Helper()
	const shownMax = 20
	found := checker.Check(h.Events(), o)
	for i, v := range found {
		if i == shownMax {
			h.tb.Errorf("and %d more", len(found)-shownMax)
			break
		}
		h.tb.Error(v)
	}
}
