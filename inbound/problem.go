package inbound

import (
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/store"
)

// refusals are the sentinels of the seams in the words of the wire.
var refusals = []struct {
	err    error
	reason kinesinv1.Reason
}{
	{catalog.ErrUnknown, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA},
	{catalog.ErrExists, kinesinv1.Reason_REASON_EXISTS},
	{catalog.ErrChanged, kinesinv1.Reason_REASON_UNAVAILABLE},
	{store.ErrTooLarge, kinesinv1.Reason_REASON_TOO_LARGE},
	{store.ErrFull, kinesinv1.Reason_REASON_FULL},
	{store.ErrUnknown, kinesinv1.Reason_REASON_UNAVAILABLE},
	{store.ErrClosed, kinesinv1.Reason_REASON_UNAVAILABLE},
}

// wire gives an error the reason it has on the wire; others stay as they are.
func wire(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &api.Error{Reason: r.reason, Text: err.Error()}
		}
	}
	return err
}

func problem(err error) *kinesinv1.Problem { return api.ProblemOf(wire(err)) }
