// Package refusal maps errors of the store, the queue and the catalog to the reasons of the wire contract.
package refusal

import (
	"cmp"
	"errors"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
)

// refusals maps sentinels to reasons, with a text where the sentinel's own does not say what to do.
var refusals = []struct {
	err    error
	reason kinesinv1.Reason
	text   string
}{
	{catalog.ErrUnknown, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, ""},
	{catalog.ErrExists, kinesinv1.Reason_REASON_EXISTS, ""},
	{catalog.ErrFull, kinesinv1.Reason_REASON_FULL, ""},
	{catalog.ErrDeleting, kinesinv1.Reason_REASON_IN_USE, ""},
	{catalog.ErrChanged, kinesinv1.Reason_REASON_UNAVAILABLE, ""},
	{store.ErrTooLarge, kinesinv1.Reason_REASON_TOO_LARGE, ""},
	{queue.ErrCannotDeliver, kinesinv1.Reason_REASON_UNSUPPORTED, ""},
	{queue.ErrOtherMode, kinesinv1.Reason_REASON_IN_USE, ""},
	{queue.ErrUndeliverable, kinesinv1.Reason_REASON_TOO_LARGE, ""},
	{store.ErrFull, kinesinv1.Reason_REASON_FULL, "the store takes no new tasks because the disk space is used up; the tasks that it holds still run"},
	{
		store.ErrUnknown, kinesinv1.Reason_REASON_UNAVAILABLE,
		"the outcome of the write is unknown; try again, with the same key or request id if there was one",
	},
	// What the writer's own tries did not get past: nothing was written.
	{store.ErrConflict, kinesinv1.Reason_REASON_UNAVAILABLE, "other calls changed the same thing at the same time; try again"},
	{store.ErrSkipped, kinesinv1.Reason_REASON_UNAVAILABLE, "other calls changed the same thing at the same time; try again"},
	{store.ErrUnreachable, kinesinv1.Reason_REASON_UNAVAILABLE, "the store does not answer for now; try again later"},
	{queue.ErrUnreachable, kinesinv1.Reason_REASON_UNAVAILABLE, "the queue service does not answer for now; try again later"},
	{store.ErrThrottled, kinesinv1.Reason_REASON_UNAVAILABLE, "the store is too busy for now; try again later"},
	{store.ErrClosed, kinesinv1.Reason_REASON_UNAVAILABLE, "the server is stopping; try again"},
}

// Wire returns an error with its reason on the wire, or the error itself if it has none.
func Wire(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &api.Error{Reason: r.reason, Text: cmp.Or(r.text, err.Error())}
		}
	}
	return err
}

// Problem returns an error as the outcome of an item of a call.
func Problem(err error) *kinesinv1.Problem { return api.ProblemOf(Wire(err)) }

// Invalid returns a refusal, whose text says what is allowed.
func Invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}

// IDsShown is how many ids a refusal lists that begin the same way.
const IDsShown = 5

// CheckShort refuses a shortened id, of a thing such as a task, that has too few characters.
func CheckShort(id, thing string) error {
	if len(id) < api.ShortIDCharsMin {
		return Invalid("id %q: want the whole id of a %s, or at least its first %d characters", id, thing, api.ShortIDCharsMin)
	}
	return nil
}

// WholeID returns the only one of the ids that begin with a shortened one; the shortened one if there is none, which
// then names nothing.
func WholeID(id, thing string, found []string) (string, error) {
	switch len(found) {
	case 0:
		return id, nil
	case 1:
		return found[0], nil
	}
	more := ""
	if len(found) > IDsShown {
		found, more = found[:IDsShown], " and others"
	}
	return id, Invalid("id %q: the ids of several %ss begin so: %s%s; want more of one", id, thing, strings.Join(found, ", "), more)
}

// NoSuchTask says that there is no task with an id or a key. Who may not see a task gets the same answer.
func NoSuchTask() *kinesinv1.Problem {
	return &kinesinv1.Problem{
		Reason: kinesinv1.Reason_REASON_NOT_FOUND,
		Text: "task not found: the id was not issued here, no task has the key, the key was used again, or the task ended and " +
			"its retention is over",
	}
}
