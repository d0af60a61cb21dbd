package gates

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/kinesin-io/kinesin/store"
)

// addTriesMax bounds how often a gate is added again because another one got its number.
const addTriesMax = 16

// Sentinels of Add.
var (
	// ErrFull says that there are ActiveMax gates.
	ErrFull = errors.New("too many gates")
	// ErrBusy says that others kept adding gates.
	ErrBusy = errors.New("the gates kept changing")
)

// Add stores a new gate under the next number, and returns all that had not ended. Of calls at the same time
// one gets the number, and the others look again. So of two that want the same gate the second one always
// finds what the first has stored: if instead returns a known gate, also one that has ended, that is returned
// and nothing is stored.
func Add(ctx context.Context, s Store, g *Gate, instead func(known *Gate) bool) (added *Gate, active []*Gate, err error) {
	for range addTriesMax {
		if active, err = All(ctx, s, Kind); err != nil {
			return nil, nil, err
		}
		ended, err := All(ctx, s, KindEnded)
		if err != nil {
			return nil, nil, err
		}
		last := 0
		for _, known := range slices.Concat(active, ended) {
			if instead(known) {
				return known, active, nil
			}
			last = max(last, NumberOf(known.ID))
		}
		if len(active) >= ActiveMax {
			return nil, nil, ErrFull
		}
		g.ID, g.Version = strconv.Itoa(last+1), 0
		if err = Put(ctx, s, Kind, g); err == nil {
			return g, active, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, nil, err
		}
	}
	return nil, nil, ErrBusy
}

// NumberOf returns the number of a gate's id; 0 for what is none.
func NumberOf(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || strconv.Itoa(n) != id {
		return 0
	}
	return n
}
