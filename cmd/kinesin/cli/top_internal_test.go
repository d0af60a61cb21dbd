package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/kinesin-io/kinesin/sdk"
)

// On the smallest screen nothing is wider or longer than that, whatever the lambdas are called.
func TestTopFitsTheScreen(t *testing.T) {
	m := &topModel{every: time.Second, columns: topColumnsMin, lines: topRowsMin}
	var rows []sdk.LambdaStats
	for n := range 60 {
		rows = append(rows, sdk.LambdaStats{
			Lambda: fmt.Sprintf("a-lambda-with-a-long-name-%02d", n), Started: 123456.7, Ended: 0.25, Failed: 99.99, Lateness99: time.Duration(n) * time.Second,
			OldestDue: time.Now().Add(-100 * time.Hour), Tasks: map[sdk.State]int64{sdk.StateScheduled: 123456789, sdk.StateProcessing: 99999}, Workers: n - 1,
			HeldBy: []sdk.WaitsFor{{Reason: "gate"}, {Reason: "retry budget"}, {Reason: "gate"}},
		})
	}
	rows[59].Lambda = "evil\x1b[2J"
	if _, next := m.Update(topLooked{rows: rows}); next == nil {
		t.Error("it does not look again")
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 20, Height: 5}, {Width: 200, Height: 60}} {
		m.Update(size)
		text := m.View().Content
		lines := strings.Split(text, "\n")
		if len(lines) > m.lines || len(lines) < 20 {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > m.columns || strings.Contains(line, "\x1b") {
				t.Errorf("%v: %q", size, line)
			}
		}
		if !strings.HasPrefix(lines[3], "evil") {
			t.Errorf("the latest is not first: %q", lines[3])
		}
	}
}

func TestTopKeys(t *testing.T) {
	m := &topModel{every: time.Second, columns: topColumnsMin, lines: topRowsMin}
	var rows []sdk.LambdaStats
	for n := range 40 {
		rows = append(rows, sdk.LambdaStats{Lambda: fmt.Sprintf("l%02d", n), Failed: float64(n), Workers: -1})
	}
	m.Update(topLooked{rows: rows})
	press := func(key rune, code rune) tea.Cmd {
		_, next := m.Update(tea.KeyPressMsg{Text: string(key), Code: code})
		return next
	}
	press('f', 'f')
	if m.rows[0].Lambda != "l39" {
		t.Errorf("by failures: %s", m.rows[0].Lambda)
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
