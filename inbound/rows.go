package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// found is a task that was read from its row; its ID is zero where there is none.
type found struct {
	task.Task
	waiting bool // it has a wake-up row and no task row
}

// Row is a task of a set as it was found, for the calls that change it.
type Row = found

// behind is the task that a wake-up row stands for; its ID is zero when the row is bare and there is no task
// row.
type behind struct {
	found
	conclusion store.Conclusion
}

// isTask reports whether there is a live task behind a wake-up row.
func (b *behind) isTask() bool {
	return b.conclusion != store.Leftover && b.conclusion != store.Unclear && !b.ID.IsZero()
}

func noSuchTask() *kinesinv1.Problem { return refusal.NoSuchTask() }

func (in *Inbound) find(ctx context.Context, token task.Token) (found, error) {
	rows, err := in.rows(ctx, []task.Token{token})
	if err != nil {
		return found{}, err
	}
	if rows[0].ID.IsZero() {
		return found{}, api.ErrorOf(noSuchTask())
	}
	return rows[0], nil
}

// rows finds tasks in the store. A task row is the truth where there is one. A task without one waits as its
// first wake-up row; if it was dispatched since the task row was looked for, that does not matter to a reader
// and refuses a change. A task moves from its wake-up row to its task row and never back, so a second look at
// the task row misses nothing where the wake-up row is gone, or does not belong to a waiting task.
func (in *Inbound) rows(ctx context.Context, tokens []task.Token) ([]found, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	if err := in.knowLambdas(ctx, tokens); err != nil {
		return nil, err
	}
	ids := make([]task.ID, len(tokens))
	keys := make([]store.WakeKey, len(tokens))
	for i, t := range tokens {
		ids[i] = t.ID
		keys[i] = store.WakeKey{Partition: t.Partition, Wake: t.Due, ID: t.ID}
	}
	all := make([]found, len(tokens))
	readTasks := func(at []int) ([]task.Task, error) { return in.Store.Tasks(ctx, pick(ids, at)) }
	readWakeups := func(at []int) ([]task.Task, error) { return in.Store.Wakeups(ctx, pick(keys, at)) }
	for _, look := range []struct {
		waiting bool
		read    func(at []int) ([]task.Task, error)
	}{{false, readTasks}, {true, readWakeups}, {false, readTasks}} {
		if err := readMissing(tokens, all, look.waiting, look.read); err != nil {
			return nil, err
		}
	}
	for i := range all {
		if all[i].Forgotten {
			all[i] = found{}
		}
		if all[i].Life != tokens[i].Life { //nolint:gosec // there is a token for each
			all[i] = found{} // the key was used again: the id does not name this task
		}
	}
	return all, nil
}

// rowsTogether reads the tasks of a call that are changed in one write: those that have rows, if wanted agrees, each once.
// at are their places among the ids. The call looks at the other tasks, and at the task of a single id, one by one.
func (in *Inbound) rowsTogether(ctx context.Context, ids []string, wanted func(row *task.Task) bool) (rows []Row, at []int) {
	if len(ids) < 2 {
		return nil, nil
	}
	all, err := in.RowsOf(ctx, ids)
	if err != nil {
		return nil, nil // one by one, so that a row that cannot be read fails no other
	}
	seen := map[task.ID]bool{}
	for i := range all {
		row := &all[i]
		if row.ID.IsZero() || row.IsBare() || seen[row.ID] || !wanted(&row.Task) {
			continue
		}
		seen[row.ID] = true
		rows, at = append(rows, *row), append(at, i)
	}
	return rows, at
}

// knowLambdas looks for lambdas that another process may have created a moment ago: the mode of a lambda
// decides where its tasks are.
func (in *Inbound) knowLambdas(ctx context.Context, tokens []task.Token) error {
	if !in.Shared {
		return nil
	}
	for i := range tokens {
		if _, err := in.Catalog.FindRef(ctx, tokens[i].Partition.Lambda); err != nil {
			return err
		}
	}
	return nil
}

// readMissing reads the rows of tasks that were not found yet: task rows, or, waiting, wake-up rows. A direct
// task has none: a row of its id is one that an earlier try of the same call has left.
func readMissing(tokens []task.Token, all []found, waiting bool, read func([]int) ([]task.Task, error)) error {
	var at []int
	for i := range all {
		if all[i].ID.IsZero() && !tokens[i].Direct {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := read(at)
	for k := range rows {
		if !waiting || waitsAlone(&rows[k]) {
			all[at[k]] = found{Task: rows[k], waiting: waiting}
		}
	}
	return err
}

// waitsAlone reports whether a wake-up row is that of a task that gets a task row only when it is dispatched.
func waitsAlone(row *task.Task) bool { return row.Key == "" && !row.ID.IsZero() && !row.IsBare() }

// tasksBehind reads the tasks of wake-up rows. A task row is the truth where there is one; else the wake-up
// row is.
func (in *Inbound) tasksBehind(ctx context.Context, wakeups []task.Task) ([]behind, error) {
	if len(wakeups) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(wakeups))
	for i := range wakeups {
		ids[i] = wakeups[i].ID
	}
	rows, err := in.Store.Tasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	now := in.Clock.Now()
	all := make([]behind, len(wakeups))
	for i := range wakeups {
		row, wakeup := &rows[i], &wakeups[i]
		all[i].conclusion = store.Conclude(wakeup, row, now)
		if all[i].Task = *row; all[i].conclusion == store.Undispatched {
			all[i].found = found{Task: *wakeup, waiting: true}
		}
	}
	return all, nil
}

func pick[T any](all []T, at []int) []T {
	some := make([]T, len(at))
	for k, i := range at {
		some[k] = all[i]
	}
	return some
}
