package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// addTriesMax bounds how often a gate is added again because another one got its number.
const addTriesMax = 16

// Sentinels of Add.
var (
	// ErrFull says that there may be no more gates.
	ErrFull = errors.New("too many gates")
	// ErrBusy says that others kept adding gates.
	ErrBusy = errors.New("the gates kept changing")
)

// Add stores a new gate under the next number, and returns all that had not ended. Of calls at the same time
// one gets the number, and the others look again. So of two that want the same gate the second one always
// finds what the first has stored: if instead returns a known gate, also one that has ended, that is returned
// and nothing is stored. admits reports whether there may be one more.
func Add(ctx context.Context, s Store, rows *control.Book[hold.Gate], g *hold.Gate, instead func(known *hold.Gate) bool, admits func(active []*hold.Gate) bool) (added *hold.Gate, active []*hold.Gate, err error) {
	for range addTriesMax {
		current, last, err := read(ctx, s, Kind)
		if err != nil {
			return nil, nil, err
		}
		ended, lastEnded, err := read(ctx, s, KindEnded)
		if err != nil {
			return nil, nil, err
		}
		if known := slices.IndexFunc(current, instead); known >= 0 {
			return current[known], current, nil
		}
		if known := slices.IndexFunc(ended, instead); known >= 0 {
			return ended[known], current, nil
		}
		if !admits(current) {
			return nil, nil, ErrFull
		}
		g.ID, g.Version = strconv.Itoa(max(last, lastEnded)+1), 0
		if err = rows.Put(ctx, g); err == nil {
			err = checkNumber(ctx, s, g)
		}
		switch {
		case err == nil:
			return g, current, nil
		case !errors.Is(err, store.ErrConflict):
			return nil, nil, err
		}
	}
	return nil, nil, ErrBusy
}

// read reads the gates of a kind, and returns the highest number too: also of a gate that cannot be read, which a newer
// version may have set.
func read(ctx context.Context, s Store, kind string) (all []*hold.Gate, last int, err error) {
	rows, err := s.Controls(ctx, kind)
	if err != nil {
		return nil, 0, fmt.Errorf("read gates: %w", err)
	}
	for _, row := range rows {
		last = max(last, NumberOf(row.Name))
		if g, err := AsRows.Decode(row); err == nil {
			all = append(all, g)
		}
	}
	return all, last, nil
}

// checkNumber takes a new gate back, and returns store.ErrConflict, if its number is that of another gate, which
// was set and has ended since the caller read which numbers are used. A gate that ends is put among those that
// have ended before its row is deleted, so it is found.
func checkNumber(ctx context.Context, s Store, g *hold.Gate) error {
	row, err := s.Control(ctx, KindEnded, g.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look whether gate %s is new: %w", g.ID, err)
	}
	if ended, err := AsRows.Decode(row); err == nil && ended.Created == g.Created && ended.Owner == g.Owner && ended.Request == g.Request {
		return nil // somebody has ended the new gate
	}
	if err := s.DeleteControl(ctx, store.Control{Kind: Kind, Name: g.ID, Version: g.Version}); err != nil {
		return fmt.Errorf("take back gate %s: %w", g.ID, err)
	}
	return fmt.Errorf("gate %s: %w", g.ID, store.ErrConflict)
}

// NumberOf returns the number of a gate's id; 0 for what is none.
func NumberOf(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || strconv.Itoa(n) != id {
		return 0
	}
	return n
}

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
