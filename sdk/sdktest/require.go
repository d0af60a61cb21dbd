package sdktest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// idsPerCallMax is how many tasks one call reads.
const idsPerCallMax = 1000

// Tasks returns a lambda's tasks with their payloads, in the order of their due times. Ended tasks are listed
// until their retention is over: the lambda's, 7 days by default, and 90 days for dead ones.
func (k *Kinesin) Tasks(lambda string) []sdk.TaskInfo {
	k.tb.Helper()
	var ids []sdk.ID
	for info, err := range k.client.List(k.base, sdk.ListQuery{Lambda: lambda}) {
		if err != nil {
			k.tb.Fatalf("sdktest: list the tasks of %s: %v", lambda, err)
		}
		ids = append(ids, info.ID)
	}
	var all []sdk.TaskInfo
	for some := range slices.Chunk(ids, idsPerCallMax) {
		results, err := k.client.GetMany(k.base, some, sdk.WithPayload())
		if err != nil {
			k.tb.Fatalf("sdktest: read the tasks of %s: %v", lambda, err)
		}
		for _, r := range results {
			if r.Err == nil { // else its retention ended in between
				all = append(all, r.Task)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sdk.TaskInfo) int {
		return cmp.Or(a.Due.Compare(b.Due), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(all, func(a, b sdk.TaskInfo) bool { return a.ID == b.ID }) // one may move while it is listed
}

// Task returns a task with its payload. It fails the test if there is no such task.
func (k *Kinesin) Task(id sdk.ID) sdk.TaskInfo {
	k.tb.Helper()
	info, err := k.client.Get(k.base, id, sdk.WithPayload())
	if err != nil {
		k.tb.Fatalf("sdktest: read task %s: %v", id, err)
	}
	return info
}

// Scheduled is a task and its arguments.
type Scheduled[T any] struct {
	sdk.TaskInfo

	Args T
}

// Match selects tasks.
type Match struct {
	text string
	ok   func(info *sdk.TaskInfo, args any) bool
}

// In matches tasks that were scheduled with sdk.In(d).
func In(d time.Duration) Match {
	return Match{fmt.Sprintf("due %v after it was scheduled", d), func(info *sdk.TaskInfo, _ any) bool {
		late := info.Due.Sub(info.Created) - d
		return late >= 0 && late < time.Millisecond // a due time is rounded up to the millisecond
	}}
}

// At matches tasks due at t.
func At(t time.Time) Match {
	return Match{"due at " + t.UTC().Format(time.RFC3339Nano), func(info *sdk.TaskInfo, _ any) bool { return info.Due.Equal(t) }}
}

// Key matches tasks with an idempotency key.
func Key(key string) Match {
	return Match{fmt.Sprintf("key %q", key), func(info *sdk.TaskInfo, _ any) bool { return info.Key == key }}
}

// Priority matches tasks of a priority.
func Priority(name string) Match {
	return Match{"priority " + name, func(info *sdk.TaskInfo, _ any) bool { return info.Priority == name }}
}

// Collection matches tasks of a collection.
func Collection(name string) Match {
	return Match{fmt.Sprintf("collection %q", name), func(info *sdk.TaskInfo, _ any) bool { return info.Collection == name }}
}

// State matches tasks in a state.
func State(s sdk.State) Match {
	return Match{"state " + s.String(), func(info *sdk.TaskInfo, _ any) bool { return info.State == s }}
}

// Args matches tasks whose arguments are deeply equal to want.
func Args[T any](want T) Match {
	return Match{fmt.Sprintf("arguments %+v", want), func(_ *sdk.TaskInfo, args any) bool { return reflect.DeepEqual(args, any(want)) }}
}

// Where matches tasks whose arguments satisfy f.
func Where[T any](f func(args T) bool) Match {
	return Match{"arguments that satisfy a function", func(_ *sdk.TaskInfo, args any) bool {
		typed, is := args.(T)
		return is && f(typed)
	}}
}

// FindScheduled returns the lambda's tasks that match, in any state, in the order of their due times.
func FindScheduled[T any](tb testing.TB, k *Kinesin, l sdk.Lambda[T], matches ...Match) []Scheduled[T] {
	tb.Helper()
	var found []Scheduled[T]
	for _, info := range k.Tasks(l.Name()) {
		args, err := l.Decode(info.Payload)
		if err != nil {
			tb.Fatalf("sdktest: task %s: %v", info.ID, err)
		}
		if !slices.ContainsFunc(matches, func(m Match) bool { return !m.ok(&info, args) }) {
			found = append(found, Scheduled[T]{info, args})
		}
	}
	return found
}

// RequireScheduled fails the test unless exactly one task of the lambda matches, and returns it.
func RequireScheduled[T any](tb testing.TB, k *Kinesin, l sdk.Lambda[T], matches ...Match) Scheduled[T] {
	tb.Helper()
	found := FindScheduled(tb, k, l, matches...)
	if len(found) != 1 {
		tb.Fatalf("%d %s tasks%s, want 1; there are:%s", len(found), l.Name(), texts(matches), k.inventory(l.Name()))
	}
	return found[0]
}

// RequireNotScheduled fails the test if any task of the lambda matches.
func RequireNotScheduled[T any](tb testing.TB, k *Kinesin, l sdk.Lambda[T], matches ...Match) {
	tb.Helper()
	if found := FindScheduled(tb, k, l, matches...); len(found) > 0 {
		tb.Fatalf("%d %s tasks%s, want none; there are:%s", len(found), l.Name(), texts(matches), k.inventory(l.Name()))
	}
}

// RequireState fails the test unless a task is in a state, and returns it.
func RequireState(tb testing.TB, k *Kinesin, id sdk.ID, want sdk.State) sdk.TaskInfo {
	tb.Helper()
	info := k.Task(id)
	if info.State != want {
		tb.Fatalf("task is %s, want %s:%s", info.State, want, lineOf(&info))
	}
	return info
}

func texts(matches []Match) string {
	var b strings.Builder
	for i, m := range matches {
		b.WriteString([]string{" with ", ", "}[min(i, 1)] + m.text)
	}
	return b.String()
}

// inventory describes a lambda's tasks, a line each.
func (k *Kinesin) inventory(lambda string) string {
	k.tb.Helper()
	all := k.Tasks(lambda)
	if len(all) == 0 {
		return " none"
	}
	var b strings.Builder
	for i := range all[:min(len(all), describeMax)] {
		b.WriteString(lineOf(&all[i]))
	}
	if more := len(all) - describeMax; more > 0 {
		fmt.Fprintf(&b, "\n\tand %d more", more)
	}
	return b.String()
}

// payloadShownBytesMax is how much of a payload a message shows.
const payloadShownBytesMax = 200

func lineOf(info *sdk.TaskInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n\t%s %s, due %s", info.ID, info.State, info.Due.Format(time.RFC3339Nano))
	for _, label := range []struct{ name, value string }{{"priority", info.Priority}, {"key", info.Key}, {"collection", info.Collection}} {
		if label.value != "" {
			fmt.Fprintf(&b, ", %s %s", label.name, label.value)
		}
	}
	fmt.Fprintf(&b, ", payload %s", info.Payload[:min(len(info.Payload), payloadShownBytesMax)])
	for _, a := range info.Attempts {
		fmt.Fprintf(&b, "\n\t\tattempt %d: %s %s", a.Number, a.Outcome, a.Error)
	}
	return b.String()
}
