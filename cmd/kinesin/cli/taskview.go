package cli

import (
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/sdk"
)

// jsonTime prints microseconds in UTC.
const jsonTime = "2006-01-02T15:04:05.000000Z07:00"

// taskObject is a task in JSON results. Names are documented in docs/cli.md;
// what is not set is left out.
type taskObject struct {
	ID              string          `json:"id"`
	Lambda          string          `json:"lambda"`
	State           string          `json:"state"`
	Priority        string          `json:"priority"`
	Collection      string          `json:"collection,omitempty"`
	Key             string          `json:"key,omitempty"`
	Due             string          `json:"due"`
	Created         string          `json:"created,omitempty"`
	Enqueued        string          `json:"enqueued,omitempty"`
	Started         string          `json:"started,omitempty"`
	Ended           string          `json:"ended,omitempty"`
	Next            string          `json:"next,omitempty"`
	LatenessMS      *float64        `json:"lateness_ms,omitempty"`
	Attempt         int             `json:"attempt"`
	Failures        int             `json:"failures"`
	MaxAttempts     int             `json:"max_attempts"`
	WorkerLost      int             `json:"worker_lost"`
	Suspect         bool            `json:"suspect"`
	CancelRequested bool            `json:"cancel_requested"`
	Worker          string          `json:"worker,omitempty"`
	Traceparent     string          `json:"traceparent,omitempty"`
	PayloadBytes    int64           `json:"payload_bytes"`
	Payload         *string         `json:"payload,omitempty"`
	PayloadBase64   string          `json:"payload_base64,omitempty"`
	Attempts        []attemptObject `json:"attempts"`
}

type attemptObject struct {
	Attempt int    `json:"attempt"`
	Worker  string `json:"worker,omitempty"`
	Start   string `json:"start,omitempty"`
	End     string `json:"end,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`
}

// missingObject stands for an id that names no task, in arrays.
type missingObject struct {
	ID     string `json:"id"`
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

func objectOf(t *sdk.TaskInfo) taskObject {
	o := taskObject{
		ID: string(t.ID), Lambda: t.Lambda, State: t.State.String(), Priority: t.Priority, Collection: t.Collection, Key: t.Key,
		Due: timeText(t.Due), Created: timeText(t.Created), Enqueued: timeText(t.Enqueued), Started: timeText(t.Started),
		Ended: timeText(t.Ended), Attempt: t.Attempt, Failures: t.Failures,
		MaxAttempts: t.MaxAttempts, WorkerLost: t.WorkerLost, Suspect: t.Suspect, CancelRequested: t.CancelRequested,
		Worker: t.Worker, Traceparent: t.Traceparent, PayloadBytes: t.PayloadBytes, Attempts: make([]attemptObject, len(t.Attempts)),
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

// withPayload shows the payload as text where it is text.
func (o taskObject) withPayload(payload []byte) taskObject {
	if utf8.Valid(payload) {
		text := string(payload)
		o.Payload = &text
	} else {
		o.PayloadBase64 = base64.StdEncoding.EncodeToString(payload)
	}
	return o
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(jsonTime)
}

// printTask writes a task for people: a line for each fact that is set.
func printTask(w io.Writer, o *taskObject) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	line("id", o.ID)
	line("lambda", o.Lambda)
	line("state", o.stateText())
	line("priority", o.Priority)
	line("collection", o.Collection)
	line("key", o.Key)
	line("due", o.Due)
	line("created", o.Created)
	line("enqueued", o.Enqueued)
	line("started", o.Started)
	line("ended", o.Ended)
	if o.LatenessMS != nil {
		line("lateness", strconv.FormatFloat(*o.LatenessMS, 'f', 3, 64)+" ms")
	}
	line("next look", o.Next)
	if o.MaxAttempts > 0 { // else it is not for Kinesin to run
		line("failures", fmt.Sprintf("%d of at most %d", o.Failures, o.MaxAttempts))
	}
	if o.WorkerLost > 0 {
		line("workers lost", strconv.Itoa(o.WorkerLost))
	}
	line("traceparent", o.Traceparent)
	if o.PayloadBytes > 0 || o.MaxAttempts > 0 && o.State != sdk.StateAccepted.String() { // else it may be that no row tells
		line("payload", fmt.Sprintf("%d bytes", o.PayloadBytes))
	}
	for _, a := range o.Attempts {
		line(fmt.Sprintf("attempt %d", a.Attempt), a.text())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return o.printPayload(w)
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

func (o *taskObject) stateText() string {
	text := o.State
	if o.CancelRequested && o.Ended == "" {
		text += ", cancel requested"
	}
	if o.Suspect {
		text += ", suspected of having killed its worker: runs apart"
	}
	return text
}

func latenessText(d time.Duration) string { return strconv.FormatFloat(millis(d), 'f', 3, 64) + " ms" }

func (a *attemptObject) text() string {
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
