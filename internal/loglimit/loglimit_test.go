package loglimit_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/loglimit"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

func TestRepeatedErrorsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text runtest.Text
		log := slog.New(loglimit.New(slog.NewTextHandler(&text, nil)))
		const many = 6000
		for range many {
			log.Error("read failed")
			log.With(slog.String("of", "x")).Error("read failed")
			log.Info("task ended")
		}
		log.Warn("another")
		lines := func(part string) int { return strings.Count(text.String(), part) }
		if lines(`msg="read failed"`) != loglimit.RecordsMax || lines(`msg="task ended"`) != many || lines("msg=another") != 1 {
			t.Errorf("%d errors, %d infos, %d others", lines(`msg="read failed"`), lines(`msg="task ended"`), lines("msg=another"))
		}
		time.Sleep(loglimit.Every)
		synctest.Wait()
		if want := `level=ERROR msg="records left out of the log" message="read failed" records=11980`; !strings.Contains(text.String(), want) || lines("left out") != 1 {
			t.Errorf("no %s at the end of\n%s", want, text.String()[max(0, len(text.String())-300):])
		}
		log.Error("read failed")
		if got := lines(`msg="read failed"`); got != loglimit.RecordsMax+1 {
			t.Errorf("%d errors after a while, want one more", got)
		}
		time.Sleep(loglimit.Every) // no timer outlives the test
	})
}
