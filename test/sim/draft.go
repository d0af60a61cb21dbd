package sim

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
)

// draftLambda is the lambda of the tasks that clients change. Their collection tells their rows apart.
const (
	draftLambda     = "draft"
	draftCollection = "drafts"
)

// drafts is what is known of the tasks that clients change.
type drafts struct {
	w *world

	mu     sync.Mutex // guards all below
	ids    map[int][]sdk.ID
	seqs   map[int]uint64 // as a client saw them last
	calls  map[int][]porcupine.Operation
	events []checker.Event // of executions
}

// openDrafts makes their lambda.
func (w *world) openDrafts(setup *client) *drafts {
	d := &drafts{w: w, ids: map[int][]sdk.ID{}, seqs: map[int]uint64{}, calls: map[int][]porcupine.Operation{}}
	if !w.plan.changesTasks() {
		return d
	}
	for w.ctx.Err() == nil {
		_, _, err := admin.New(setup.sdk).Lambdas.Create(w.ctx, admin.Lambda{
			Name: draftLambda, Timeout: time.Hour, Shards: 1, MaxAttempts: attemptsMax, BackoffMin: time.Second, BackoffMax: 3 * time.Second, KeyRetention: 100 * time.Hour,
		})
		if err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	return d
}

func (p *Plan) changesTasks() bool {
	return slices.ContainsFunc(p.Load, func(o Order) bool { return o.Change != nil })
}

// id returns the id by which a change names its task; empty if nobody was told one.
func (d *drafts) id(c *Change) sdk.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.ids[c.Subject]
	switch {
	case c.Name == byKey:
		return sdk.ByKey(draftLambda, c.key())
	case len(known) == 0:
		return ""
	case c.Name == byOldest:
		return known[0]
	}
	return known[len(known)-1]
}

func (c *Change) key() string { return fmt.Sprintf("draft-%d", c.Subject) }

// add notes what was done to a task.
func (d *drafts) add(subject int, from time.Time, o draftOp) {
	call := porcupine.Operation{Call: from.UnixNano(), Return: unanswered}
	o.from, o.until = call.Call, unanswered
	if !o.unknown && o.kind != kindResult {
		call.Return = time.Now().UnixNano()
		o.until = call.Return
	}
	call.Input = o
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[subject] = append(d.calls[subject], call)
}

// saw notes the seq of a task.
func (d *drafts) saw(subject int, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seqs[subject] = max(d.seqs[subject], seq)
}

// ifSeq is the condition of a change; none if nobody saw its task.
func (d *drafts) ifSeq(c *Change) (seq uint64, opts []sdk.ChangeOption) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq = d.seqs[c.Subject]; !c.IfSeq || seq == 0 {
		return 0, nil
	}
	return seq, []sdk.ChangeOption{sdk.IfSeq(seq)}
}

func (d *drafts) learn(subject int, id sdk.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.ids[subject], func(known sdk.ID) bool { return taskOf(known) == taskOf(id) && lifeOf(known) == lifeOf(id) }) {
		d.ids[subject] = append(d.ids[subject], id)
	}
}

// lifeOf returns the life of a key that a public id is of; 0 for a task without a key.
func lifeOf(id sdk.ID) uint64 {
	text, ok := strings.CutPrefix(string(id), "k3")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	const at = 16 + 6 + 4 + 1 + 2
	if !ok || err != nil || len(raw) < at+8 {
		return 0
	}
	return binary.BigEndian.Uint64(raw[at:])
}

// draftOf returns the number of the task that a nonce is of.
func draftOf(nonce string) (subject int) {
	_, _ = fmt.Sscanf(nonce, "c%d-", &subject)
	return subject
}

// handleDraft runs a task that clients change.
func (k *worker) handleDraft(ctx context.Context, t *sdk.Task[[]byte]) error {
	if k.isDead() {
		return errDead
	}
	var work Work
	if err := json.Unmarshal(t.Payload, &work); err != nil {
		k.w.breach("draft: attempt %d of task %s has another payload than any that was given: %q", t.Attempt, t.ID, t.Payload)
		return sdk.Fatal(err)
	}
	if k.step(context.Background(), 0) != nil {
		return errDead
	}
	o := draftOp{kind: kindStart, attempt: uint32(t.Attempt), payload: work.Nonce, life: lifeOf(t.ID)}
	k.w.drafts.ran(k, t, checker.Started, o)
	outcome, err := k.do(ctx, t, &work)
	if k.step(context.Background(), 0) != nil {
		return errDead
	}
	k.w.drafts.ran(k, t, checker.Ended, draftOp{kind: kindResult, attempt: o.attempt, payload: work.Nonce, outcome: outcome, life: o.life})
	return err
}

// ran notes the start or the end of an execution.
func (d *drafts) ran(k *worker, t *sdk.Task[[]byte], kind checker.Kind, o draftOp) {
	now := time.Now()
	e := checker.Event{Kind: kind, At: now.UnixMicro(), Task: taskOf(t.ID), Nonce: o.payload, Attempt: o.attempt, PID: k.pid, Outcome: o.outcome}
	d.w.trace.note("draft", "%s task=%s life=%d nonce=%s attempt=%d pid=%d %s", kind, e.Task, o.life, e.Nonce, e.Attempt, e.PID, e.Outcome)
	d.add(draftOf(o.payload), now, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// pending is how many of these tasks have not ended.
func (d *drafts) pending(c *client) (live int) {
	d.mu.Lock()
	ids := slices.Concat(values(d.ids)...)
	d.mu.Unlock()
	for _, id := range ids {
		if info, err := c.sdk.Get(d.w.ctx, id); err != nil && !errors.Is(err, sdk.ErrNotFound) || err == nil && !info.State.IsEnd() {
			live++
		}
	}
	return live
}

func values(byNumber map[int][]sdk.ID) (all [][]sdk.ID) {
	for n := range draftsMax {
		all = append(all, byNumber[n])
	}
	return all
}

// report reads all of these tasks in the end, also by their keys and by the ids of earlier lives.
func (d *drafts) report() {
	c := d.w.client(4)
	for n := range draftsMax {
		d.mu.Lock()
		ids, asked := slices.Clone(d.ids[n]), len(d.calls[n]) > 0
		d.mu.Unlock()
		if asked && d.w.plan.keyed(n) {
			ids = append(ids, sdk.ByKey(draftLambda, (&Change{Subject: n}).key()))
		}
		for _, id := range ids {
			c.seeDraft(d.w.ctx, n, id)
		}
	}
}

func (p *Plan) keyed(subject int) bool {
	return slices.ContainsFunc(p.Load, func(o Order) bool { return o.Change != nil && o.Change.Subject == subject && o.Change.Keyed })
}

// judge says what was wrong with these tasks.
func (d *drafts) judge() (breaches []string) {
	w := d.w
	events := slices.Clone(d.events)
	for _, e := range w.history() {
		switch e.Kind {
		case checker.Died, checker.Stopped, checker.Continued, checker.Terminated, checker.ServerDown, checker.ServerUp:
			events = append(events, e)
		default: // of other tasks
		}
	}
	for _, v := range checker.Check(events, checker.Options{Wake: time.Second}) {
		if v.Rule == checker.Fencing || v.Rule == checker.Overlap && !w.plan.farApart() {
			breaches = append(breaches, v.String())
		}
	}
	apart := w.plan.Apart + w.plan.slewed() + 10*time.Millisecond
	apart = 2*apart + time.Since(w.start)/5000 + w.plan.stepsForward() + w.plan.stepsBack()
	for n := range draftsMax {
		operations := d.operations(n)
		breaches = append(breaches, sameSeq(operations)...)
		explained, steps := draftJudge{int64(apart), d.mayBeGivenUp(n)}.explains(operations)
		switch {
		case explained:
		case steps < 0:
			breaches = append(breaches, fmt.Sprintf("draft: no order of what was done to draft %d was found in %d steps:%s", n, registerStepsMax, described(operations)))
		default:
			breaches = append(breaches, fmt.Sprintf("draft: no order of what was done to draft %d explains all answers:%s", n, described(operations)))
		}
	}
	return breaches
}

// sameSeq finds changes on the condition of one seq that were both done.
func sameSeq(operations []porcupine.Operation) (breaches []string) {
	done := map[uint64]draftOp{}
	for _, operation := range operations {
		o, _ := operation.Input.(draftOp)
		if o.ifSeq == 0 || o.unknown || o.refused != "" {
			continue
		}
		if before, twice := done[o.ifSeq]; twice {
			breaches = append(breaches, fmt.Sprintf("draft: both were done at seq %d: %v, %v", o.ifSeq, before, o))
		}
		done[o.ifSeq] = o
	}
	return breaches
}

// mayBeGivenUp reports whether a task may have ended because its workers were lost. Where writes may be
// missing from the ledger nobody can tell.
func (d *drafts) mayBeGivenUp(subject int) bool {
	l := &d.w.ledger
	if l.gaps || d.w.plan.Form == cloud {
		return true
	}
	for _, id := range d.ids[subject] {
		if l.isGivenUp(taskOf(id)) {
			return true
		}
	}
	return len(d.ids[subject]) == 0
}

// operations returns what was done to a task. From a start on, results of older attempts change nothing.
func (d *drafts) operations(subject int) []porcupine.Operation {
	operations := slices.Clone(d.calls[subject])
	for _, o := range operations {
		start, _ := o.Input.(draftOp)
		if start.kind != kindStart {
			continue
		}
		for i := range operations {
			if r, _ := operations[i].Input.(draftOp); r.kind == kindResult && r.attempt < start.attempt {
				operations[i].Return = max(operations[i].Call, min(operations[i].Return, o.Call))
			}
		}
	}
	return operations
}
