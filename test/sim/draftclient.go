package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// alter makes a call about a task that clients change, and notes its answer. Each call is tried once, so that
// what an order of them explains is what servers do, and not what the SDK makes of it.
func (c *client) alter(ctx context.Context, change *Change) {
	d := c.w.drafts
	id := d.id(change)
	if id == "" && change.Do != doSchedule {
		return
	}
	ids := []sdk.ID{id}
	seq, opts := d.ifSeq(change)
	switch change.Do {
	case doSchedule:
		c.draft(ctx, change)
	case doReschedule:
		o := draftOp{kind: kindReschedule, ifSeq: seq, due: time.Now().Add(change.In).UnixNano()}
		c.altered(change, id, o, func() (sdk.ChangeResult, error) { return one(c.once.Reschedule(ctx, ids, sdk.In(change.In), opts...)) })
	case doRunNow:
		o := draftOp{kind: kindReschedule, ifSeq: seq, due: time.Now().UnixNano()}
		c.altered(change, id, o, func() (sdk.ChangeResult, error) { return one(c.once.RunNow(ctx, ids, opts...)) })
	case doUpdate:
		o := draftOp{kind: kindUpdate, ifSeq: seq, payload: change.Task.Nonce}
		c.altered(change, id, o, func() (sdk.ChangeResult, error) {
			return c.once.Update(ctx, id, sdk.Update{Payload: change.Task.encoded()}, opts...)
		})
	case doRedrive, doRepayload:
		o := draftOp{kind: kindRedrive, ifSeq: seq, force: change.Force}
		if change.Force {
			opts = append(opts, sdk.Force())
		}
		if change.Do == doRepayload {
			o.payload = change.Task.Nonce
			opts = append(opts, sdk.WithNewPayload(change.Task.encoded()))
		}
		c.altered(change, id, o, func() (sdk.ChangeResult, error) { return one(c.once.Redrive(ctx, ids, opts...)) })
	case doCancel:
		c.cancelDraft(ctx, change, id, draftOp{kind: kindCancel, ifSeq: seq}, opts)
	case doGet:
		c.seeDraft(ctx, change.Subject, id)
	}
}

func (w *Work) encoded() []byte {
	payload, err := json.Marshal(w)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return append(payload, bytes.Repeat([]byte(" "), w.Fill)...)
}

func one(results []sdk.ChangeResult, err error) (sdk.ChangeResult, error) {
	if err != nil {
		return sdk.ChangeResult{}, err
	}
	return results[0], results[0].Err
}

// refusals are the answers by which a call changes nothing for sure.
var refusals = map[string]error{ //nolint:gochecknoglobals // a table
	tooLate: sdk.ErrTooLate, notFound: sdk.ErrNotFound, conflict: sdk.ErrKeyConflict, staleSeq: sdk.ErrStaleSeq, invalid: sdk.ErrInvalid,
}

const (
	notFound = "not found"
	conflict = "key conflict"
	staleSeq = "stale seq"
	invalid  = "invalid"
)

// answered sets what a call was told; an error that is no refusal leaves it open what was done.
func (o *draftOp) answered(err error) {
	if err == nil {
		return
	}
	o.unknown = true
	for text, refusal := range refusals {
		if errors.Is(err, refusal) {
			o.unknown, o.refused = false, text
		}
	}
}

func (c *client) tell(change *Change, id sdk.ID, o draftOp, from time.Time, err error) {
	c.w.trace.note(c.name, "draft %d, life %d: %v; %v", change.Subject, lifeOf(id), o, err)
	c.w.saw("draft " + o.answer())
	c.w.drafts.add(change.Subject, from, o)
}

// altered makes a call that changes a task which is there.
func (c *client) altered(change *Change, id sdk.ID, o draftOp, call func() (sdk.ChangeResult, error)) {
	from := time.Now()
	o.name(id)
	c.w.trace.note(c.name, "draft %d: %s %s", change.Subject, o.kind, id)
	r, err := call()
	o.answered(err)
	if err == nil && o.kind == kindReschedule {
		o.due = min(o.due, r.Due.UnixNano())
	}
	if err == nil {
		c.w.drafts.saw(change.Subject, r.Seq)
	}
	if err == nil && o.byKey {
		o.life, o.byKey = lifeOf(r.ID), false
		c.w.drafts.learn(change.Subject, r.ID)
	}
	c.tell(change, id, o, from, err)
}

// name sets which task a call is about.
func (o *draftOp) name(id sdk.ID) {
	o.life = lifeOf(id)
	o.byKey = id[:4] == "key:"
}

// draft schedules a task that is changed later.
func (c *client) draft(ctx context.Context, change *Change) {
	from := time.Now()
	o := draftOp{kind: kindDraft, payload: change.Task.Nonce, due: from.Add(change.In).UnixNano(), onConflict: change.Conflict, keyed: change.Keyed}
	item := sdk.Item{
		Lambda: draftLambda, Payload: change.Task.encoded(), In: change.In, Collection: draftCollection, OnConflict: change.Conflict,
	}
	if change.Keyed {
		item.Key = change.key()
	} else {
		item.OnConflict = ""
	}
	if change.Within > 0 {
		item.StartBefore = c.clock.Now().Time().Add(change.In + change.Within)
		o.expires = from.Add(change.In + change.Within).UnixNano()
	}
	c.w.trace.note(c.name, "draft %d: schedule %s %s in %v", change.Subject, change.Task.Nonce, change.Conflict, change.In)
	r, err := c.once.Schedule(ctx, item)
	o.answered(err)
	if err == nil {
		o.life, o.duplicate, o.replaced = lifeOf(r.ID), r.Duplicate, r.Replaced
		o.due = min(o.due, r.Due.UnixNano())
		c.w.drafts.learn(change.Subject, r.ID)
	}
	c.tell(change, r.ID, o, from, err)
}

func (c *client) cancelDraft(ctx context.Context, change *Change, id sdk.ID, o draftOp, opts []sdk.ChangeOption) {
	from := time.Now()
	o.name(id)
	outcome, err := c.once.Cancel(ctx, id, opts...)
	o.answered(err)
	o.outcome = string(outcome)
	c.tell(change, id, o, from, err)
}

// seeDraft reads a task that is changed.
func (c *client) seeDraft(ctx context.Context, subject int, id sdk.ID) {
	from := time.Now()
	o := draftOp{kind: kindGet}
	o.name(id)
	info, err := c.sdk.Get(ctx, id, sdk.WithPayload())
	if o.answered(err); o.unknown {
		return
	}
	if err == nil {
		o.seen, o.life, o.byKey = seenIn(&info), lifeOf(info.ID), false
		o.due = info.Due.UnixNano()
		var work Work
		if json.Unmarshal(info.Payload, &work) == nil {
			o.payload = work.Nonce
		}
		c.w.drafts.learn(subject, info.ID)
		c.w.drafts.saw(subject, info.Seq)
	}
	c.tell(&Change{Subject: subject}, id, o, from, err)
}
