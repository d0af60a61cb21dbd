package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/sdk"
)

// jsonTime prints microseconds in UTC.
const jsonTime = "2006-01-02T15:04:05.000000Z07:00"

// taskObject is a task in JSON. docs/cli-guide.md documents the fields; unset ones are omitted.
type taskObject struct {
	ID              string            `json:"id"`
	Lambda          string            `json:"lambda"`
	State           sdk.State         `json:"state"`
	Priority        string            `json:"priority"`
	Collection      string            `json:"collection,omitempty"`
	Key             string            `json:"key,omitempty"`
	LimitKey        string            `json:"limit_key,omitempty"`
	Due             string            `json:"due"`
	Created         string            `json:"created,omitempty"`
	Enqueued        string            `json:"enqueued,omitempty"`
	Started         string            `json:"started,omitempty"`
	Ended           string            `json:"ended,omitempty"`
	Next            string            `json:"next,omitempty"`
	LatenessMS      *float64          `json:"lateness_ms,omitempty"`
	Attempt         int               `json:"attempt"`
	Failures        int               `json:"failures"`
	MaxAttempts     int               `json:"max_attempts"`
	TimeoutMS       float64           `json:"timeout_ms,omitempty"` // this and the next two: of its own
	BackoffMinMS    float64           `json:"backoff_min_ms,omitempty"`
	BackoffMaxMS    float64           `json:"backoff_max_ms,omitempty"`
	WorkerLost      int               `json:"worker_lost"`
	Suspect         bool              `json:"suspect"`
	CancelRequested bool              `json:"cancel_requested"`
	Worker          string            `json:"worker,omitempty"`
	Seq             uint64            `json:"seq,omitempty"`
	Traceparent     string            `json:"traceparent,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	StartBefore     string            `json:"start_before,omitempty"`
	Cron            string            `json:"cron,omitempty"`
	Nominal         string            `json:"nominal,omitempty"`
	PayloadBytes    int64             `json:"payload_bytes"`
	Payload         *string           `json:"payload,omitempty"`
	PayloadBase64   string            `json:"payload_base64,omitempty"`
	ResultBytes     int64             `json:"result_bytes,omitempty"`
	Result          json.RawMessage   `json:"result,omitempty"` // one that is JSON
	ResultBase64    string            `json:"result_base64,omitempty"`
	WaitsFor        *waitsForObject   `json:"waits_for,omitempty"`
	Chain           *linkObject       `json:"chain,omitempty"`
	Member          *memberOfObject   `json:"member,omitempty"`
	AfterGroup      string            `json:"after_group,omitempty"`
	Attempts        []attemptObject   `json:"attempts"`
}

// waitsForObject says what holds a task back.
type waitsForObject struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Gate   string `json:"gate,omitempty"`
	Until  string `json:"until,omitempty"`
}

// linkObject says where in a chain a task is.
type linkObject struct {
	Root      string `json:"root"`
	Parent    string `json:"parent,omitempty"`
	Edge      string `json:"edge,omitempty"`
	Followups int    `json:"followups,omitempty"`
	Paused    bool   `json:"paused,omitempty"`
}

// memberOfObject says which member of a group a task is.
type memberOfObject struct {
	Group string `json:"group"`
	Index int    `json:"index"`
}

type attemptObject struct {
	Attempt int    `json:"attempt"`
	Worker  string `json:"worker,omitempty"`
	Start   string `json:"start,omitempty"`
	End     string `json:"end,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`
}

// missingObject stands in arrays for an id without a task.
type missingObject struct {
	ID string `json:"id"`
	refusal
}

func objectOf(t *sdk.TaskInfo) taskObject {
	o := taskObject{
		ID: string(t.ID), Lambda: t.Lambda, State: t.State, Priority: t.Priority, Collection: t.Collection, Key: t.Key, LimitKey: t.LimitKey,
		Due: timeText(t.Due), Created: timeText(t.Created), Enqueued: timeText(t.Enqueued), Started: timeText(t.Started),
		Ended: timeText(t.Ended), Attempt: t.Attempt, Failures: t.Failures,
		TimeoutMS: millis(t.Timeout), BackoffMinMS: millis(t.BackoffMin), BackoffMaxMS: millis(t.BackoffMax),
		MaxAttempts: t.MaxAttempts, WorkerLost: t.WorkerLost, Suspect: t.Suspect, CancelRequested: t.CancelRequested,
		Worker: t.Worker, Seq: t.Seq, Traceparent: t.Traceparent, PayloadBytes: t.PayloadBytes, ResultBytes: t.ResultBytes,
		Tags: t.Tags, StartBefore: timeText(t.StartBefore), Attempts: make([]attemptObject, len(t.Attempts)),
	}
	if w := &t.WaitsFor; w.Reason != "" {
		o.WaitsFor = &waitsForObject{w.Reason, w.Text, w.Gate, timeText(w.Until)}
	}
	if c := t.Chain; c != nil {
		o.Chain = &linkObject{string(c.Root), string(c.Parent), c.Edge, c.Followups, c.Paused}
	}
	if m := t.Member; m != nil {
		o.Member = &memberOfObject{m.Group, m.Index}
	}
	if g := t.Group; g != nil {
		o.AfterGroup = g.ID
	}
	if at := t.Occurrence; at != nil {
		o.Cron, o.Nominal = at.Cron, timeText(at.Nominal)
	}
	if json.Valid(t.Result) {
		o.Result = t.Result
	} else if len(t.Result) > 0 {
		o.ResultBase64 = base64.StdEncoding.EncodeToString(t.Result)
	}
	if !t.State.IsEnd() {
		o.Next = timeText(t.Next)
	}
	if !t.Started.IsZero() {
		ms := float64(t.Lateness().Microseconds()) / 1000
		o.LatenessMS = &ms
	}
	for i, a := range t.Attempts {
		o.Attempts[i] = attemptObject{
			Attempt: a.Number, Worker: a.Worker, Start: timeText(a.Start), End: timeText(a.End), Outcome: string(a.Outcome), Error: a.Error,
		}
	}
	return o
}

// withPayload adds the payload, as text if it is UTF-8.
func (o taskObject) withPayload(payload []byte) taskObject {
	text, encoded := textOrBase64(payload)
	if o.PayloadBase64 = encoded; encoded == "" {
		o.Payload = &text
	}
	return o
}

// textOrBase64 returns data as text if it is UTF-8, else in base64.
func textOrBase64(data []byte) (text, encoded string) {
	if utf8.Valid(data) {
		return string(data), ""
	}
	return "", base64.StdEncoding.EncodeToString(data)
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(jsonTime)
}

// printTask prints a task as text, a line for each field that is set.
func printTask(w io.Writer, o *taskObject) error {
	t := newTable(w)
	t.fact("id", o.ID)
	t.fact("lambda", o.Lambda)
	t.fact("state", o.stateText())
	t.fact("priority", o.Priority)
	t.fact("collection", o.Collection)
	t.fact("key", o.Key)
	t.fact("limit key", o.LimitKey)
	t.fact("cron", o.Cron)
	t.fact("nominal", o.Nominal)
	o.relations(t)
	t.fact("tags", tagsText(o.Tags))
	t.fact("due", o.Due)
	t.fact("start before", o.StartBefore)
	t.fact("created", o.Created)
	t.fact("enqueued", o.Enqueued)
	t.fact("started", o.Started)
	t.fact("ended", o.Ended)
	if o.LatenessMS != nil {
		t.fact("lateness", strconv.FormatFloat(*o.LatenessMS, 'f', 3, 64)+" ms")
	}
	t.fact("next wake-up", o.Next)
	if o.WaitsFor != nil {
		t.fact("waits for", o.WaitsFor.Text)
	}
	if o.MaxAttempts > 0 { // not of a deliver lambda
		t.fact("failures", fmt.Sprintf("%d of at most %d", o.Failures, o.MaxAttempts))
	}
	if o.TimeoutMS > 0 {
		t.fact("timeout", durationOfMillis(o.TimeoutMS).String()+", of its own")
	}
	if o.BackoffMaxMS > 0 {
		t.fact("backoff", durationOfMillis(o.BackoffMinMS).String()+".."+durationOfMillis(o.BackoffMaxMS).String()+", of its own")
	}
	if o.WorkerLost > 0 {
		t.fact("workers lost", strconv.Itoa(o.WorkerLost))
	}
	t.fact("traceparent", o.Traceparent)
	if o.PayloadBytes > 0 || o.MaxAttempts > 0 && o.State != sdk.StateAccepted { // without a row it is unknown
		t.fact("payload", fmt.Sprintf("%d bytes", o.PayloadBytes))
	}
	t.fact("result", o.resultText())
	for _, a := range o.Attempts {
		t.fact(fmt.Sprintf("attempt %d", a.Attempt), a.text())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return o.printPayload(w)
}

// relations adds lines that say what the task follows, and in which chain and group it is.
func (o *taskObject) relations(t table) {
	if c := o.Chain; c != nil {
		t.fact("chain", c.Root)
		if c.Parent != "" {
			t.fact("follows", c.Parent+" ("+c.Edge+")")
		}
	}
	if m := o.Member; m != nil {
		t.fact("group", fmt.Sprintf("%s, member %d", m.Group, m.Index))
	}
	t.fact("follows group", o.AfterGroup)
}

func (o *taskObject) printPayload(w io.Writer) error {
	switch {
	case o.Payload != nil:
		_, err := fmt.Fprintf(w, "\n%s\n", *o.Payload)
		return err
	case o.PayloadBase64 != "":
		_, err := fmt.Fprintf(w, "\n(base64) %s\n", o.PayloadBase64)
		return err
	}
	return nil
}

// resultText returns a result in one line: its JSON, or base64 of what is none.
func (o *taskObject) resultText() string {
	switch {
	case o.Result != nil:
		var line bytes.Buffer
		_ = json.Compact(&line, o.Result) // it is valid
		return line.String()
	case o.ResultBase64 != "":
		return "(base64) " + o.ResultBase64
	case o.ResultBytes > 0:
		return fmt.Sprintf("%d bytes", o.ResultBytes)
	}
	return ""
}

func (o *taskObject) stateText() string {
	text := o.State.String()
	if o.CancelRequested && o.Ended == "" {
		text += ", cancel requested"
	}
	if o.Suspect {
		text += ", suspected of killing its worker"
		if o.Ended == "" {
			text += ": runs alone"
		}
	}
	return text
}

func latenessText(d time.Duration) string { return strconv.FormatFloat(millis(d), 'f', 3, 64) + " ms" }

func (a *attemptObject) text() string {
	if a.Worker == "" { // none had the task when it was dropped
		return a.Outcome + " at " + a.End + ": " + a.Error
	}
	text := "on " + a.Worker
	if a.Start != "" {
		text += " from " + a.Start
	}
	if a.End != "" {
		text += " to " + a.End
	}
	if a.Outcome != "" {
		text += ": " + a.Outcome
	} else {
		text += ": running"
	}
	if a.Error != "" {
		text += ": " + strconv.Quote(a.Error)
	}
	return text
}

func durationOfMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
