package gate

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a gate.
const (
	ReasonBytesMax = 512
	// CollectionBytesMax bounds the name of a collection, as that of a task does.
	CollectionBytesMax = 128
	// ActiveMax is how many gates there are at once that have not ended.
	ActiveMax = 1000
	// KeptFor is how long a gate that has ended is listed, and KeptMax how many of them are.
	KeptFor = 30 * 24 * time.Hour
	KeptMax = 1000
	// PaceMax is the highest pace of a gate that resumes, in tasks per second.
	PaceMax = 1_000_000
)

// Validate checks the gate that an operator wants.
func Validate(g *hold.Gate, now task.Instant) error {
	errs := []error{task.CheckName("lambda", g.Lambda)}
	if g.Action != hold.Pause && g.Action != hold.Drop {
		errs = append(errs, fmt.Errorf("%w action %.20q: want pause or drop", task.ErrInvalid, g.Action))
	}
	switch reason := strings.TrimSpace(g.Reason); {
	case reason == "":
		errs = append(errs, fmt.Errorf("%w reason: it is empty; say why, for those who find their tasks held back", task.ErrInvalid))
	case len(reason) > ReasonBytesMax || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl):
		errs = append(errs, fmt.Errorf("%w reason: want at most %d bytes of UTF-8 text on one line", task.ErrInvalid, ReasonBytesMax))
	}
	if g.TagName != "" {
		_, err := task.TagsOf(map[string]string{g.TagName: g.TagValue})
		errs = append(errs, err)
	}
	if len(g.Collection) > CollectionBytesMax || !utf8.ValidString(g.Collection) || strings.ContainsFunc(g.Collection, unicode.IsControl) {
		errs = append(errs, fmt.Errorf("%w collection: want at most %d bytes of UTF-8 text without control characters", task.ErrInvalid, CollectionBytesMax))
	}
	ways := 0
	for _, set := range []bool{g.Priority != "", g.Collection != "", g.TagName != ""} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, fmt.Errorf("%w gate: want at most one of priority, collection and tag; set two gates for both", task.ErrInvalid))
	}
	if !g.Until.IsZero() && g.Until <= now {
		errs = append(errs, fmt.Errorf("%w expiry %s: it has passed; want a time to come", task.ErrInvalid, g.Until.Time().UTC().Format(time.RFC3339)))
	}
	return errors.Join(errs...)
}
