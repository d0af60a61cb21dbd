package web

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/zones"
)

type taskBody struct {
	*kinesinv1.Task

	Now      time.Time
	Late     string // how late it started, or is; empty: it is not due
	Steps    []step
	Tries    []try
	Payload  *content
	Result   *content
	Sees     bool // payloads
	Ended    bool
	Running  bool
	Cancel   bool // what may be done
	Move     bool
	Redrive  bool
	Replace  bool
	Text     string // the payload, where a form can hold it
	Editable bool
	Wait     *kinesinv1.WaitsFor
	Trace    string // where its trace is shown
	Related  *related
}

// step is a moment in the life of a task.
type step struct {
	Name   string
	Micros int64
	After  string // since the step before, or the due time
	Ahead  bool
}

// try is an attempt, with the place of its bar in 1000ths of the time that all took.
type try struct {
	*kinesinv1.Attempt

	Took    string
	X, W    int64
	Running bool
}

func only(response *kinesinv1.GetResponse) (*kinesinv1.Task, error) {
	if len(response.GetResults()) != 1 {
		return nil, api.Errorf(kinesinv1.Reason_REASON_INTERNAL, "%d results for one request", len(response.GetResults()))
	}
	result := response.GetResults()[0]
	return result.GetTask(), api.ErrorOf(result.GetProblem())
}

func (c *call) task(withPayload bool) (*kinesinv1.Task, error) {
	response, err := c.Tasks.Get(c.r.Context(), &kinesinv1.GetRequest{Ids: []string{c.r.PathValue("id")}, WithPayload: withPayload})
	if err != nil {
		return nil, err
	}
	return only(response)
}

// payloadAtOnceBytesMax bounds the payload that the page of a task shows before it is asked for it, in bytes.
const payloadAtOnceBytesMax = 32 << 10

// showTask shows the life of a task. The audit log notes who reads its payload: whoever may, or, of a large one, whoever
// asks for it.
func showTask(c *call) error {
	t, err := c.task(false)
	if err != nil {
		return err
	}
	sees := c.caller.Grants.AllowIn(access.ReadPayload, t.GetLambda(), t.GetCollection())
	shows := c.field("payload") != "" || sees && t.GetPayloadBytes() <= payloadAtOnceBytesMax
	if shows {
		if t, err = c.task(true); err != nil {
			return err
		}
	}
	b := &taskBody{Task: t, Now: c.now(), Sees: sees}
	b.Ended, b.Running = slices.Contains(endStates, t.GetState()), slices.Contains(runningStates, t.GetState())
	b.Wait, b.Trace, b.Related = c.waitOf(t, b.Running, b.Ended), c.traceURL(t), c.relatedOf(t)
	b.Steps, b.Tries = stepsOf(t, b.Now), triesOf(t, b.Now)
	switch {
	case t.GetStarted() != 0:
		b.Late = "started " + microsText(t.GetStarted()-t.GetDue()) + " after its due time"
	case !b.Ended && t.GetDue() < b.Now.UnixMicro():
		b.Late = "overdue for " + ago(t.GetDue(), b.Now)
	case !b.Ended:
		b.Late = "due in " + durationText(time.UnixMicro(t.GetDue()).Sub(b.Now))
	}
	b.Cancel = !b.Ended && c.mayIn(access.Cancel, t.GetLambda(), t.GetCollection())
	b.Move = !b.Ended && !b.Running && c.mayIn(access.Schedule, t.GetLambda(), t.GetCollection())
	b.Redrive = b.Ended && c.mayIn(access.Operate, t.GetLambda(), t.GetCollection())
	if shows {
		b.Payload = contentOf(t.GetPayload())
		const editableMax = 16 << 10
		b.Editable = len(t.GetPayload()) <= editableMax && b.Payload.Kind != "bytes" && t.GetBlob() == nil && !strings.Contains(string(t.GetPayload()), "\r") && api.Visible(string(t.GetPayload())) == string(t.GetPayload())
		b.Replace, b.Text = b.Move && b.Editable, string(t.GetPayload())
	}
	if len(t.GetResult()) > 0 {
		b.Result = contentOf(t.GetResult())
	}
	return c.show("Task", Prefix+"tasks", taskPage(b))
}

// resentMicros is the shortest time after which a task that nobody has claimed is sent once more. A task
// tells when it was sent last, and this long after its due time that need not have been the first time.
const resentMicros = int64(15 * time.Second / time.Microsecond)

// stepsOf returns what happened to a task, in the order in which it did.
func stepsOf(t *kinesinv1.Task, now time.Time) (steps []step) {
	add := func(name string, micros int64) {
		if micros != 0 {
			steps = append(steps, step{Name: name, Micros: micros, Ahead: micros > now.UnixMicro()})
		}
	}
	add("Scheduled", t.GetCreated())
	add("Due", t.GetDue())
	sent := "Sent to its queue"
	if t.GetAttempt() > 1 || t.GetEnqueued()-max(t.GetDue(), t.GetCreated()) >= resentMicros {
		sent = "Last sent to its queue"
	}
	add(sent, t.GetEnqueued())
	if attempts := t.GetAttempts(); len(attempts) > 0 && attempts[0].GetNumber() == 1 {
		add("Claimed by a worker", attempts[0].GetStart())
	}
	add("Started", t.GetStarted())
	if slices.Contains(endStates, t.GetState()) {
		add("Ended as "+t.GetState(), t.GetEnded())
	} else if next := t.GetNext(); next != t.GetDue() {
		add("Looked at next", next)
	}
	// Due times are whole milliseconds, so within one the order is that of life.
	slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.Micros/1000, y.Micros/1000) })
	for i := range steps[min(1, len(steps)):] {
		steps[i+1].After = "+" + durationText(max(0, time.Duration(steps[i+1].Micros-steps[i].Micros)*time.Microsecond))
	}
	return steps
}

func triesOf(t *kinesinv1.Task, now time.Time) (tries []try) {
	attempts := t.GetAttempts()
	if len(attempts) == 0 {
		return nil
	}
	first, last := int64(math.MaxInt64), int64(0)
	for _, a := range attempts {
		if a.GetStart() != 0 {
			first = min(first, a.GetStart())
		}
		last = max(last, a.GetEnd(), a.GetStart())
		if a.GetEnd() == 0 {
			last = max(last, now.UnixMicro())
		}
	}
	const least = 6
	scale := func(micros int64) int64 { return micros * whole / max(1, last-first) }
	for _, a := range attempts {
		end := a.GetEnd()
		one := try{Attempt: a, Running: end == 0, Took: "–"}
		if a.GetStart() == 0 { // its worker was lost before it said that the attempt had begun
			tries = append(tries, one)
			continue
		}
		if one.Running {
			end = now.UnixMicro()
		}
		one.Took = microsText(end - a.GetStart())
		one.X = min(whole-least, scale(a.GetStart()-first))
		one.W = max(least, min(whole-one.X, scale(end-a.GetStart())))
		tries = append(tries, one)
	}
	return tries
}

// actOnTask changes one task.
func actOnTask(c *call) error {
	if c.field("action") == "cancel" {
		if err := c.because(); err != nil {
			return err
		}
	}
	id, ctx := c.r.PathValue("id"), c.r.Context()
	ids := []string{id}
	var problem *kinesinv1.Problem
	first := func(response *kinesinv1.ChangeResponse, err error) error {
		for _, r := range response.GetResults() {
			problem = r.GetProblem()
		}
		return err
	}
	var err error
	var done string
	switch c.field("action") {
	case "cancel":
		var response *kinesinv1.CancelResponse
		response, err = c.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: ids})
		for _, r := range response.GetResults() {
			problem = r.GetProblem()
		}
		done = "cancelled"
	case "run-now":
		err, done = first(c.Tasks.Reschedule(ctx, &kinesinv1.RescheduleRequest{Ids: ids})), "started"
	case "reschedule":
		request := &kinesinv1.RescheduleRequest{Ids: ids}
		if request.Due, request.Delay, err = c.when(); err != nil {
			return err
		}
		err, done = first(c.Tasks.Reschedule(ctx, request)), "rescheduled"
	case "redrive":
		err, done = first(c.Tasks.Redrive(ctx, &kinesinv1.RedriveRequest{Ids: ids, Force: c.field("force") != "", RequestId: requestID(c.field("request"))})), "redriven"
	case "redrive-with":
		err, done = first(c.Tasks.Redrive(ctx, &kinesinv1.RedriveRequest{Ids: ids, IfSeq: c.seq(), Payload: c.payload(), Force: c.field("force") != "", RequestId: requestID(c.field("request"))})), "redriven-with"
	case "replace":
		err, done = first(c.Tasks.Update(ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{{Id: id, IfSeq: c.seq(), Payload: c.payload(), Fields: []string{"payload"}}}})), "replaced"
	default:
		return invalid("action %q: want cancel, run-now, reschedule, redrive, redrive-with or replace", c.field("action"))
	}
	if err == nil {
		err = api.ErrorOf(problem)
	}
	if err != nil {
		return err
	}
	return c.goTo(taskPath(id), done)
}

// when reads when a task is to be due: a time, or a duration from now.
func (c *call) when() (due, delay int64, err error) {
	text := c.field("when")
	if d, err := parseDuration(text); err == nil {
		return 0, max(1, d.Microseconds()), nil
	}
	zone, err := zones.Default().Load(c.field("zone"))
	if err != nil {
		return 0, 0, invalid("%v", err)
	}
	if at, _, found := zones.OnClock(text, c.now(), zone); found {
		text = at.Format(time.RFC3339)
	}
	if due, err = jsonform.ParseInstant(text); err != nil {
		return 0, 0, invalid("time %q: want %s", text, whenWant)
	}
	return due, 0, nil
}

// whenWant says what when reads.
const whenWant = "a duration from now such as 90s or 3d, a time of the zone such as 2027-01-31 09:00, tomorrow 9:00 or monday 9:00, " +
	"or one with an offset such as 2027-01-31T09:00:00Z"

// seq returns the seq that the task had when its form was shown, so that nothing is replaced that somebody
// else has changed since.
func (c *call) seq() uint64 {
	seq, err := strconv.ParseUint(c.field("seq"), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
