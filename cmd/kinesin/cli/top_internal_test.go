package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// On the smallest screen nothing is wider or longer than that, whatever the lambdas are called.
func TestTopFitsTheScreen(t *testing.T) {
	m := &topModel{every: time.Second, columns: topColumnsMin, lines: topRowsMin}
	var rows []*kinesinv1.LambdaStats
	for n := range 60 {
		rows = append(rows, &kinesinv1.LambdaStats{
			Lambda: fmt.Sprintf("a-lambda-with-a-long-name-%02d", n), StartedPerSecond: 123456.7, EndedPerSecond: 0.25, FailedPerSecond: 99.99, LatenessP99: int64(n) * 1e6,
			OldestDue: time.Now().Add(-100 * time.Hour).UnixMicro(), Tasks: map[string]int64{"scheduled": 123456789, "processing": 99999}, Workers: new(int64(n)), DeadHour: 1, DeadDay: 10,
			HeldBy: []*kinesinv1.HeldBy{{Reason: "gate"}, {Reason: "retry budget"}, {Reason: "gate"}},
		})
	}
	rows[59].Lambda = "evil\x1b[2J"
	seen := fullOverview(rows)
	if _, next := m.Update(topLooked{seen: seen}); next == nil {
		t.Error("it does not look again")
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 20, Height: 5}, {Width: 200, Height: 60}} {
		m.Update(size)
		text := m.View().Content
		lines := strings.Split(text, "\n")
		if len(lines) > m.lines || len(lines) < topRowsMin-1 {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > m.columns || strings.Contains(line, "\x1b") {
				t.Errorf("%v: %q", size, line)
			}
		}
		if !strings.HasPrefix(lines[8], "evil") {
			t.Errorf("the latest is not first: %q", lines[8])
		}
		for i, want := range []string{
			"kinesin  60 lambdas", "dead  1h 60  1d 600", "late p50/95/99  1m 999ms/59.9s/119m  1h 999ms/59.9s/119m  1d 999ms/59.9s/119m", "ended/s  success 123k  dead 2.5",
			"due in  5m 12k  15m 12k±300  1h ≥45M  1d ≥999M", "NOT READY: draining  store FULL",
		} {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%v: line %d is %q, want %q", size, i, lines[i], want)
			}
		}
	}
}

// What top says waits or runs is what stats says is scheduled or queued, or runs; no live task is left out.
func TestTopCountsAsStatsDoes(t *testing.T) {
	s := &kinesinv1.LambdaStats{Exact: true, Tasks: map[string]int64{"scheduled": 1, "retriable_failure": 2, "enqueued": 4, "acquired": 8, "claimed": 16, "processing": 32}}
	counts := (&app{}).stats().cells(s)[1:4]
	if waits, runs := topWaits(s), topRuns(s); !slices.Equal(counts, []string{"3", "4", "56"}) || waits != 7 || runs != 56 {
		t.Errorf("stats: %v; top: %d wait, %d run", counts, waits, runs)
	}
}

// fullOverview has the longest texts of each line.
func fullOverview(rows []*kinesinv1.LambdaStats) *kinesinv1.StatsResponse {
	micros := time.Duration.Microseconds
	o := &kinesinv1.Overview{Due: []*kinesinv1.DueSoon{
		{Within: micros(5 * time.Minute), Tasks: 12345},
		{Within: micros(15 * time.Minute), Tasks: 12345, Error: 300},
		{Within: micros(time.Hour), Tasks: 45e6, AtLeast: true},
		{Within: micros(24 * time.Hour), Tasks: 999e6, AtLeast: true},
	}, Installation: &kinesinv1.Installation{Workers: 12345, Servers: 123, Partitions: 123456, UnownedPartitions: 7, StoreFull: true, NotReady: "draining"}}
	for _, asked := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		o.Windows = append(o.Windows, &kinesinv1.OverviewWindow{
			Asked: micros(asked), StartedPerSecond: 1, EndedPerSecond: map[string]float64{"dead": 2.5, "success": 123456},
			LatenessP50: micros(999 * time.Millisecond), LatenessP95: micros(59_900 * time.Millisecond), LatenessP99: micros(119 * time.Minute),
		})
	}
	return &kinesinv1.StatsResponse{Lambdas: rows, Overview: o}
}

// A figure that one may not see, or that an older server does not tell, has no line.
func TestTopHeadOfLittle(t *testing.T) {
	if lines := topHead(&kinesinv1.StatsResponse{}); len(lines) != 3 || lines[2] != "due in  not known for now" {
		t.Errorf("%q", lines)
	}
	if line := topInstallation(&kinesinv1.Installation{Partitions: 8}); !strings.HasPrefix(line, "store takes tasks  none without an owner of 8 partitions") {
		t.Error(line)
	}
}

func TestTopKeys(t *testing.T) {
	m := &topModel{every: time.Second, columns: topColumnsMin, lines: topRowsMin}
	var rows []*kinesinv1.LambdaStats
	for n := range 40 {
		rows = append(rows, &kinesinv1.LambdaStats{Lambda: fmt.Sprintf("l%02d", n), FailedPerSecond: float64(n)})
	}
	m.Update(topLooked{seen: &kinesinv1.StatsResponse{Lambdas: rows}})
	press := func(key rune, code rune) tea.Cmd {
		_, next := m.Update(tea.KeyPressMsg{Text: string(key), Code: code})
		return next
	}
	press('f', 'f')
	if m.seen.GetLambdas()[0].GetLambda() != "l39" {
		t.Errorf("by failures: %s", m.seen.GetLambdas()[0].GetLambda())
	}
	press('n', 'n')
	for range 100 {
		press('j', 'j')
	}
	if lines := strings.Split(m.View().Content, "\n"); lines[len(lines)-1] != topKeys || !strings.HasPrefix(lines[len(lines)-2], "l39") {
		t.Errorf("the end: %q", lines[len(lines)-2:])
	}
	m.Update(topLooked{err: errors.New("away")})
	if text := m.View().Content; !strings.Contains(text, "cannot read: away") || !strings.Contains(text, "l39") {
		t.Error(text)
	}
	if next := press('q', 'q'); next == nil {
		t.Error("q does not end it")
	}
}
