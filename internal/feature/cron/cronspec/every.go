package cronspec

import (
	"fmt"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
)

const everyWord = "@every"

// every is a rule with a constant distance between fires, whatever clocks show.
type every struct {
	anchor   time.Time
	interval time.Duration
}

func isEvery(expression string) bool {
	return strings.HasPrefix(strings.ToLower(expression), everyWord)
}

func (s *Schedule) parseEvery() error {
	const want = "want @every with a duration in whole seconds such as 90s, 5m, 36h or 2d"
	value := strings.TrimSpace(s.config.Expression[len(everyWord):])
	interval, err := api.ParseDuration(value)
	switch {
	case err != nil:
		return fmt.Errorf("%q has no duration: %s", s.config.Expression, want)
	case interval > 0 && interval < EveryMin:
		return fmt.Errorf("%q fires more than once a second: %s", s.config.Expression, want)
	case interval < EveryMin || interval > EveryMax:
		return fmt.Errorf("%q is out of range: want %s to %d days", s.config.Expression, EveryMin, EveryMax/(24*time.Hour))
	case interval%time.Second != 0:
		return fmt.Errorf("%q is not in whole seconds: %s", s.config.Expression, want)
	}
	anchor := s.config.Start
	if anchor.IsZero() {
		anchor = time.Unix(0, 0)
	}
	// A start within a second counts from the next one, so that nothing fires before it.
	s.fires = every{anchor: anchor.Add(time.Second - 1).Truncate(time.Second), interval: interval}
	return nil
}

func (e every) next(after time.Time) (time.Time, bool) {
	since := after.Sub(e.anchor)
	if since < 0 {
		return e.anchor, true
	}
	return after.Add(e.interval - since%e.interval), true
}
