package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// rows is the store as one process sees it: the rows that all of them share, behind calls that take time,
// fail, or do their work and never say so. Each write of a chain is a step of its own, as on DynamoDB.
type rows struct {
	p    *process
	base store.Driver
}

var errService = errors.New("the service failed")

// reach gets a call to the service.
func (s *rows) reach(ctx context.Context) error {
	w := s.p.w
	if err := s.p.step(ctx, w.latency(Store)); err != nil {
		return err
	}
	w.countAway(Store)
	for w.away(StoreAway) || w.strikes(StoreHang, s.p.name) {
		if err := s.p.step(ctx, time.Second); err != nil {
			return err
		}
		if w.chance(3) == 0 {
			return errService
		}
	}
	return nil
}

// Apply implements store.Driver.
func (s *rows) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	w := s.p.w
	if err := s.reach(ctx); err != nil {
		return nil, errors.Join(store.ErrUnknown, err)
	}
	if w.strikes(StoreThrottled, s.p.name) {
		return refused(ops, store.ErrThrottled), nil
	}
	if w.strikes(StoreLostRequest, s.p.name) {
		return nil, errors.Join(store.ErrUnknown, errService)
	}
	if w.plan.Form == embedded {
		return s.commit(ctx, ops)
	}
	results := make([]error, 0, len(ops))
	for from := 0; from < len(ops); {
		to := from + 1
		for to < len(ops) && ops[to].Follows {
			to++
		}
		results = append(results, s.chain(ctx, ops[from:to])...)
		from = to
	}
	if err := s.p.step(ctx, w.latency(Store)); err != nil {
		return nil, errors.Join(store.ErrUnknown, err)
	}
	if w.strikes(StoreLostAnswer, s.p.name) {
		return nil, errors.Join(store.ErrUnknown, errService)
	}
	return results, nil
}

// commit has a store that does it all in one commit do so.
func (s *rows) commit(ctx context.Context, ops []store.Op) ([]error, error) {
	results, err := s.base.Apply(ctx, ops)
	if gone := s.p.step(ctx, 0); gone != nil {
		return nil, errors.Join(store.ErrUnknown, gone)
	}
	for i := range ops {
		if err == nil {
			s.tell(&ops[i], results[i])
		}
	}
	return results, err
}

func refused(ops []store.Op, err error) []error {
	results := make([]error, len(ops))
	for i := range ops {
		results[i] = err
		if ops[i].Follows && i > 0 {
			results[i] = store.ErrSkipped
		}
	}
	return results
}

// chain applies writes that follow each other, one after the other; the process may die between them.
func (s *rows) chain(ctx context.Context, ops []store.Op) []error {
	results := make([]error, len(ops))
	for i := range ops {
		if i > 0 && !ops[i-1].Holds(results[i-1]) {
			results[i] = store.ErrSkipped
			if errors.Is(results[i-1], store.ErrUnknown) {
				results[i] = store.ErrUnknown
			}
			continue
		}
		if i > 0 {
			if err := s.p.step(ctx, s.p.w.latency(Store)); err != nil {
				results[i] = errors.Join(store.ErrUnknown, err)
				continue
			}
		}
		results[i] = s.one(ctx, &ops[i])
	}
	return results
}

func (s *rows) one(ctx context.Context, op *store.Op) error {
	w := s.p.w
	partial := w.strikes(StorePartial, s.p.name)
	if partial && w.chance(2) == 0 {
		return errors.Join(store.ErrUnknown, errService)
	}
	alone := *op
	alone.Follows = false
	results, err := s.base.Apply(ctx, []store.Op{alone})
	if err != nil {
		return errors.Join(store.ErrUnknown, err)
	}
	s.tell(op, results[0])
	if partial {
		return errors.Join(store.ErrUnknown, errService)
	}
	return results[0]
}

var opNames = map[store.OpKind]string{ //nolint:gochecknoglobals // a table
	store.PutWakeup: "put wake-up", store.DeleteWakeup: "delete wake-up", store.PutTask: "put task", store.ReplaceTask: "replace task",
	store.PutPayload: "put payload", store.DeletePayload: "delete payload", store.PutControl: "put control", store.DeleteControl: "delete control",
	store.ReplaceWakeup: "replace wake-up",
}

// tell notes a write that came to the rows.
func (s *rows) tell(op *store.Op, result error) {
	w := s.p.w
	if op.Kind == store.PutControl || op.Kind == store.DeleteControl {
		if k := op.Control.Kind; k != "worker" && k != "member" {
			w.trace.note(s.p.name, "%s %s %s: %v", opNames[op.Kind], k, op.Control.Name, result)
		}
		return
	}
	w.book(op, result)
	t := &op.Task
	w.trace.note(s.p.name, "%s %s %s seq %d attempt %d wake %v/%d: %v", opNames[op.Kind], t.ID, t.State, t.Seq, t.Attempt, t.WakeRow.At, t.WakeRow.Seq, result)
	if result == nil && (op.Kind == store.PutTask || op.Kind == store.ReplaceTask) {
		w.saw(fmt.Sprintf("state %s", t.State))
	}
	if w.plan.Form != embedded {
		w.checkRows(t.ID)
	}
}

// read is around every read.
func (s *rows) read(ctx context.Context) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	if s.p.w.strikes(StoreReadFails, s.p.name) {
		return errService
	}
	return nil
}

// Tasks implements store.Driver, as do the other methods.
func (s *rows) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	found, err := s.base.Tasks(ctx, ids)
	return found, errors.Join(err, s.p.step(ctx, s.p.w.latency(Store)))
}

// Wakeups reads wake-up rows.
func (s *rows) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	found, err := s.base.Wakeups(ctx, keys)
	return found, errors.Join(err, s.p.step(ctx, s.p.w.latency(Store)))
}

// Payload reads a payload.
func (s *rows) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return s.base.Payload(ctx, id)
}

// ScanSchedule reads wake-up rows in order.
func (s *rows) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	found, err := s.base.ScanSchedule(ctx, p, after, through, limit)
	return found, errors.Join(err, s.p.step(ctx, s.p.w.latency(Store)))
}

// ScanEnded pages over ended rows.
func (s *rows) ScanEnded(ctx context.Context, p *task.Partition, state task.State, cursor []byte, limit int) ([]task.Task, []byte, error) {
	if err := s.read(ctx); err != nil {
		return nil, nil, err
	}
	return s.base.ScanEnded(ctx, p, state, cursor, limit)
}

// Controls reads control rows.
func (s *rows) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	found, err := s.base.Controls(ctx, kind, name)
	return found, errors.Join(err, s.p.step(ctx, s.p.w.latency(Store)))
}

// Sweep deletes expired rows.
func (s *rows) Sweep(ctx context.Context, now task.Instant, limit int) (int, error) {
	if err := s.read(ctx); err != nil {
		return 0, err
	}
	return s.base.Sweep(ctx, now, limit)
}

// Capabilities are those of the rows.
func (s *rows) Capabilities() store.Capabilities { return s.base.Capabilities() }

// Close leaves rows that are shared as they are.
func (s *rows) Close() error {
	if s.p.w.plan.Form == embedded {
		return s.base.Close()
	}
	return nil
}

// checkRows is invariant I16, after every write of a row of that task: a live task row names a place where
// there is a wake-up row.
func (w *world) checkRows(id task.ID) {
	found, err := w.rows.Tasks(context.Background(), []task.ID{id})
	if err != nil || found[0].ID != id || found[0].State.IsEnd() {
		return
	}
	t := found[0]
	wakeups, err := w.rows.Wakeups(context.Background(), []store.WakeKey{store.KeyOf(&t)})
	if err == nil && wakeups[0].ID != id {
		w.breach("I16: task %s is %s at seq %d and has no wake-up row at %v", id, t.State, t.Seq, t.WakeRow.At)
	}
}
