package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/zones"
)

// atFlags are the flags of a due time: of an instant, or of what clocks in a zone show.
type atFlags struct{ at, zone string }

func (w *atFlags) add(f *pflag.FlagSet) {
	f.StringVar(&w.at, "at", "", "due at this `TIME`: RFC 3339, or a time of day such as '2027-01-31 09:00', 'today 18:00', 'tomorrow 9:00' or 'monday 9:00'")
	f.StringVar(&w.zone, "zone", "", "`ZONE` of an --at without an offset, such as Europe/Paris; that of this machine when not set")
}

// pastText is what to tell people of a due time that is over.
const pastText = "the due time is in the past, which means now"

// read returns the instant, and what to tell people of one that is over, or that a time of day means.
func (w *atFlags) read() (at time.Time, note string, err error) {
	now := clock.Real().Now().Time()
	at, note, err = w.readAt(now, time.Local) //nolint:gosmopolitan // what people mean who name no zone
	if err == nil && at.Before(now) {
		note = pastText
	}
	return at, note, err
}

func (w *atFlags) readAt(now time.Time, zone *time.Location) (at time.Time, note string, err error) {
	if w.at == "" && w.zone != "" {
		return at, "", usagef("--zone is for an --at without an offset: want both, or neither")
	}
	if w.zone != "" {
		if zone, err = zones.Default().Load(w.zone); err != nil {
			return at, "", usagef("--zone: %v", err)
		}
	}
	at, change, found := zones.OnClock(w.at, now, zone)
	if !found {
		if at, err = parseTime(w.at); err != nil {
			return at, "", usagef("--at: %v; or a time of day, such as '2027-01-31 09:00', 'today 18:00', 'tomorrow 9:00' or 'monday 9:00'", err)
		}
		if w.zone != "" {
			return at, "", usagef("--zone is for an --at without an offset, and %s has one", w.at)
		}
		return at, "", nil
	}
	text := at.Format(time.RFC3339)
	if _, err = parseTime(text); err != nil {
		return at, "", usagef("--at: %v", err)
	}
	return at, "due " + text + change, nil
}
