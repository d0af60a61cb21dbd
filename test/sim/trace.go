package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"strings"
	"sync"
	"time"
)

// Trace is what happened in a run, in order, with a hash over all of it.
type Trace struct {
	start time.Time
	keep  bool // the lines, for people

	mu     sync.Mutex // guards all below
	digest hash.Hash
	lines  []string
	count  int
}

func newTrace(start time.Time, keep bool) *Trace {
	return &Trace{start: start, keep: keep, digest: sha256.New()}
}

// note adds a line: when, which process, what.
func (t *Trace) note(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%12.6f %-10s ", time.Since(t.start).Seconds(), who) + fmt.Sprintf(format, args...)
	t.count++
	t.digest.Write([]byte(line))
	if live {
		fmt.Println(line)
	}
	if t.keep {
		t.lines = append(t.lines, line)
	}
}

// Hash tells runs apart.
func (t *Trace) Hash() string { return hex.EncodeToString(t.digest.Sum(nil)[:8]) }

// String is all lines that were kept.
func (t *Trace) String() string { return strings.Join(t.lines, "\n") }

// live prints lines as they come, for runs that do not end.
var live = os.Getenv("KINESIN_SIM_LIVE") != "" //nolint:gochecknoglobals // a switch for people
