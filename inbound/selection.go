package inbound

import (
	"cmp"
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/where"
	"github.com/kinesin-io/kinesin/task"
)

// Selection is a set of tasks: those that a filter selects and that somebody may read.
type Selection struct {
	Filter *where.Filter
	By     access.Grants  // what may be read
	Lambda *catalog.Entry // nil: of all lambdas
	State  task.State     // Unknown: in all states
	// Live and Ended say which tasks are looked at.
	Live, Ended bool
	// EndedBy leaves out what ended later; 0: nothing.
	EndedBy task.Instant
	// WakesBy leaves out live tasks whose wake-up row is of later; 0: none.
	WakesBy task.Instant
	// Only leaves out what it is false of; nil: nothing.
	Only func(t *task.Task) bool

	oneShard bool // of each lambda and priority, for estimates
}

// Select returns the set that an expression selects, of what a caller may read. Durations in it count from
// now.
func Select(expression string, now task.Instant, by access.Grants) (Selection, error) {
	filter, err := where.Parse(expression, now)
	if err != nil {
		return Selection{}, refusal.Invalid("%v", err)
	}
	return Selection{Filter: filter, By: by, Live: true, Ended: true}.narrowed(), nil
}

// Where returns which of the lambdas an expression may select tasks of, by their names.
func Where(expression string, now task.Instant, lambdas []*catalog.Entry) (names []string, err error) {
	filter, err := where.Parse(expression, now)
	if err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	for _, l := range lambdas {
		if filter.CanBeOf(l.Name) {
			names = append(names, l.Name)
		}
	}
	return names, nil
}

// narrowed leaves out the live or the ended tasks where none of them can be in the set.
func (s Selection) narrowed() Selection {
	anyOf := func(isEnd bool) bool {
		return slices.ContainsFunc(task.States(), func(t task.State) bool { return t.IsEnd() == isEnd && s.canBe(t) })
	}
	s.Live, s.Ended = s.Live && anyOf(false), s.Ended && anyOf(true)
	return s
}

// has reports whether a task is in the set.
func (s *Selection) has(c *catalog.Catalog, t *task.Task) bool {
	lambda, priority := namesOf(c, t.Partition)
	switch {
	case t.Forgotten,
		s.Lambda != nil && s.Lambda.Ref != t.Partition.Lambda,
		s.State != task.Unknown && s.State != t.State,
		s.EndedBy != 0 && t.Ended > s.EndedBy,
		!s.By.AllowIn(access.Read, lambda, t.Collection):
		return false
	}
	return s.Filter.Matches(lambda, priority, t) && (s.Only == nil || s.Only(t))
}

// canBe reports whether tasks of the set can be in a state.
func (s *Selection) canBe(state task.State) bool {
	if s.State != task.Unknown && s.State != state {
		return false
	}
	t := task.Task{State: state}
	return s.Filter.Decide(&where.Subject{Task: &t, Known: where.KnowState}) != where.Never
}

// endState returns the only end in which tasks of the set can be; Unknown if there are several.
func (s *Selection) endState() (only task.State) {
	for _, end := range task.States() {
		if !end.IsEnd() || !s.canBe(end) {
			continue
		}
		if only != task.Unknown {
			return task.Unknown
		}
		only = end
	}
	return only
}

// partitions returns those, in order, that may have tasks of the set in one of some states.
func (s *Selection) partitions(c *catalog.Catalog, states []task.State) (all []task.Partition) {
	if s.State != task.Unknown {
		if !slices.Contains(states, s.State) {
			return nil
		}
		states = []task.State{s.State}
	}
	for _, l := range c.All() {
		if s.Lambda != nil && s.Lambda.Ref != l.Ref || !s.By.AllowSome(access.Read, l.Name) || !s.Filter.CanBeOf(l.Name) {
			continue
		}
		for _, p := range l.Partitions() {
			if s.oneShard && p.Shard > 0 {
				continue
			}
			if s.Filter.CanBe(l.Name, l.Priorities[p.Priority], states...) {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, comparePartitions)
	return all
}

func comparePartitions(a, b task.Partition) int {
	return cmp.Or(cmp.Compare(a.Lambda, b.Lambda), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Shard, b.Shard))
}

// namesOf returns the names of the lambda and the priority of a partition.
func namesOf(c *catalog.Catalog, p task.Partition) (lambda, priority string) {
	l := c.ByRef(p.Lambda)
	if l == nil {
		return deletedLambda, ""
	}
	if int(p.Priority) < len(l.Priorities) {
		priority = l.Priorities[p.Priority]
	}
	return l.Name, priority
}

func liveStates() (live []task.State) {
	for _, s := range task.States() {
		if !s.IsEnd() {
			live = append(live, s)
		}
	}
	return live
}

// Changed is what became of a task of a set: the text of an outcome, such as the state in which it ended, or
// why it was refused.
type Changed struct {
	Outcome string
	Err     error
}

// RowsOf reads tasks by their public ids, for the calls that change them. A row has a zero ID where there is
// no such task.
func (in *Inbound) RowsOf(ctx context.Context, ids []string) ([]Row, error) {
	tokens, at := make([]task.Token, 0, len(ids)), make([]int, 0, len(ids))
	for i, id := range ids {
		if token, err := in.Open(ctx, id); err == nil {
			tokens, at = append(tokens, token), append(at, i)
		}
	}
	some, err := in.rows(ctx, tokens)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(ids))
	for k, i := range at {
		rows[i] = some[k]
	}
	return rows, nil
}

// NoSuchTask is why a task that is not there cannot be changed.
func NoSuchTask() error { return api.ErrorOf(noSuchTask()) }

// PublicID returns the id of a task of a set as users know it.
func (in *Inbound) PublicID(row *Row) string { return in.Sealer.SealTask(&row.Task) }

// View returns a task of a set as users see it.
func (in *Inbound) View(row *Row) *kinesinv1.Task { return in.view(&row.Task) }

// Names returns the names of the lambda and the priority of a task of a set.
func (in *Inbound) Names(row *Row) (lambda, priority string) {
	return namesOf(in.Catalog, row.Partition)
}

// ReasonOf returns the name of the reason of a refusal, such as too_late, for counts and people.
func ReasonOf(err error) kinesinv1.Reason { return refusal.Problem(err).GetReason() }

// withKeys returns ids followed by the ids of the newest tasks with some keys; an empty one for a key that no
// task has. So a key names the task that it names now, whatever becomes of the key while the call goes on.
func (in *Inbound) withKeys(ctx context.Context, ids []string, keys []*kinesinv1.TaskKey) ([]string, error) {
	if n := len(ids) + len(keys); n == 0 || n > IDsMax {
		return nil, refusal.Invalid("a call names 1 to %d tasks by ids and keys, this one has %d", IDsMax, n)
	}
	if len(keys) == 0 {
		return ids, nil
	}
	derived := make([]task.ID, len(keys))
	for i, k := range keys {
		if k.GetKey() == "" {
			return nil, refusal.Invalid("a key is empty; want the key with which the task was scheduled")
		}
		l, err := in.Catalog.Find(ctx, k.GetLambda())
		if err != nil {
			return nil, refusal.Wire(err)
		}
		derived[i] = task.KeyedID(l.Ref, k.GetKey())
	}
	rows, err := in.Store.Tasks(ctx, derived)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	all := make([]string, 0, len(ids)+len(keys))
	all = append(all, ids...)
	for i := range rows {
		id := ""
		if !rows[i].ID.IsZero() && !rows[i].IsBare() {
			id = in.Sealer.SealTask(&rows[i])
		}
		all = append(all, id)
	}
	return all, nil
}
