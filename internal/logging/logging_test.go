package logging_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/logging"
)

func TestLevelsChangeByComponent(t *testing.T) {
	var out bytes.Buffer
	l, h := logging.New(&out, false, slog.LevelInfo)
	log := slog.New(h)
	scheduler := logging.Of(log, "scheduler")
	scheduler.Debug("one")
	if err := l.SetLevel("scheduler", "debug"); err != nil {
		t.Fatal(err)
	}
	scheduler.Debug("two")
	log.Debug("three")
	if err := l.SetLevel("", "error"); err != nil {
		t.Fatal(err)
	}
	scheduler.Warn("four")
	text := out.String()
	if !strings.Contains(text, "msg=two component=scheduler") || strings.Count(text, "\n") != 1 {
		t.Errorf("logged %q", text)
	}
	if got := l.Levels()["scheduler"]; got != "error" {
		t.Errorf("level %s", got)
	}
	if string(l.Last()) != text {
		t.Errorf("kept %q", l.Last())
	}
	for _, bad := range [][2]string{{"nobody", "info"}, {"", "loud"}, {"scheduler", "INFO+3"}} {
		if err := l.SetLevel(bad[0], bad[1]); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDurationsHaveUnitsAndLinesIDs(t *testing.T) {
	var out bytes.Buffer
	l, h := logging.New(&out, true, slog.LevelInfo)
	l.IDs = func(context.Context) []slog.Attr { return []slog.Attr{slog.String("request_id", "r1")} }
	slog.New(h).Info("done", slog.Duration("took", 1500*time.Millisecond))
	if text := out.String(); !strings.Contains(text, `"took":"1.5s"`) || !strings.Contains(text, `"request_id":"r1"`) {
		t.Errorf("logged %s", text)
	}
}

func TestOldLinesAreForgotten(t *testing.T) {
	var out bytes.Buffer
	l, h := logging.New(&out, false, slog.LevelInfo)
	log := slog.New(h)
	for range 3000 {
		log.Info("first", slog.String("text", strings.Repeat("x", 1000)))
	}
	log.Info("last")
	if kept := l.Last(); len(kept) > 1<<20 || !bytes.Contains(kept, []byte("msg=last")) {
		t.Errorf("%d bytes kept", len(kept))
	}
}
