package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// textOrBase64 returns data as text if it is UTF-8, else in base64.
func textOrBase64(data []byte) (text, encoded string) {
	if utf8.Valid(data) {
		return string(data), ""
	}
	return "", base64.StdEncoding.EncodeToString(data)
}

// timeText returns a time in UTC with microseconds; empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// instantText returns a time of the wire; empty for 0.
func instantText(micros int64) string {
	if micros == 0 {
		return ""
	}
	return timeText(time.UnixMicro(micros))
}

// spanText returns a duration of the wire.
func spanText(micros int64) string { return formatDuration(task.Micros(micros)) }

// millisText returns a duration of the wire in milliseconds.
func millisText(micros int64) string {
	return strconv.FormatFloat(float64(micros)/1000, 'f', 3, 64) + " ms"
}

// printTask prints a task as text, a line for each field that is set.
func printTask(w io.Writer, t *kinesinv1.Task, withPayload bool) error {
	rows := newTable(w)
	rows.facts([][2]string{
		{"id", t.GetId()},
		{"lambda", t.GetLambda()},
		{"state", taskStateText(t)},
	})
	rows.facts(api.Shown(t))
	rows.facts([][2]string{
		{"cron", t.GetOccurrence().GetCron()},
		{"nominal", instantText(t.GetOccurrence().GetNominal())},
		{"chain", t.GetChain().GetRoot()},
	})
	if c := t.GetChain(); c.GetParent() != "" {
		rows.fact("follows", c.GetParent()+" ("+c.GetEdge()+")")
	}
	if m := t.GetMember(); m != nil {
		rows.fact("group", fmt.Sprintf("%s, member %d", m.GetGroup(), m.GetIndex()))
	}
	rows.facts([][2]string{
		{"follows group", t.GetGroup().GetGroup()},
		{"tags", tagsText(t.GetTags())},
		{"due", instantText(t.GetDue())},
		{"start before", instantText(t.GetStartBefore())},
		{"created", instantText(t.GetCreated())},
		{"enqueued", instantText(t.GetEnqueued())},
		{"started", instantText(t.GetStarted())},
		{"ended", instantText(t.GetEnded())},
	})
	if t.GetStarted() != 0 {
		rows.fact("lateness", millisText(t.GetStarted()-t.GetDue()))
	}
	if !sdk.State(t.GetState()).IsEnd() {
		rows.fact("next wake-up", instantText(t.GetNext()))
	}
	rows.fact("waits for", t.GetWaitsFor().GetText())
	if t.GetMaxAttempts() > 0 { // not of a deliver lambda
		rows.fact("failures", fmt.Sprintf("%d of at most %d", t.GetFailures(), t.GetMaxAttempts()))
	}
	if t.GetTimeout() > 0 {
		rows.fact("timeout", spanText(t.GetTimeout())+", of its own")
	}
	if t.GetBackoffMax() > 0 {
		rows.fact("backoff", formatRange(task.Micros(t.GetBackoffMin()), task.Micros(t.GetBackoffMax()))+", of its own")
	}
	rows.fact("workers lost", countText(t.GetWorkerLost()))
	rows.fact("traceparent", t.GetTraceparent())
	if line := shortText(t.GetPayload()); line != "" && !withPayload {
		rows.fact("payload", line)
	} else if t.GetPayloadBytes() > 0 || t.GetMaxAttempts() > 0 && t.GetState() != string(sdk.StateAccepted) { // without a row it is unknown
		rows.fact("payload", fmt.Sprintf("%d bytes", t.GetPayloadBytes()))
	}
	rows.fact("result", resultText(t))
	for _, a := range t.GetAttempts() {
		rows.fact(fmt.Sprintf("attempt %d", a.GetNumber()), attemptText(a))
	}
	if err := rows.Flush(); err != nil || !withPayload {
		return err
	}
	text, encoded := textOrBase64(t.GetPayload())
	if encoded != "" {
		text = "(base64) " + encoded
	}
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// shortText returns a payload that is a short text, in one line; empty for others.
func shortText(payload []byte) string {
	text := string(payload)
	isOdd := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case len(text) > shortPayloadBytesMax || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return isOdd(r) && !unicode.IsSpace(r) }):
		return ""
	case strings.ContainsFunc(text, isOdd):
		return strconv.Quote(text)
	}
	return text
}

// resultText returns a result in one line: its JSON, the text in quotes, or base64.
func resultText(t *kinesinv1.Task) string {
	var line bytes.Buffer
	switch result := t.GetResult(); {
	case json.Compact(&line, result) == nil:
		return line.String()
	case len(result) > 0 && utf8.Valid(result):
		return strconv.Quote(string(result))
	case len(result) > 0:
		return "(base64) " + base64.StdEncoding.EncodeToString(result)
	case t.GetResultBytes() > 0:
		return fmt.Sprintf("%d bytes", t.GetResultBytes())
	}
	return ""
}

func taskStateText(t *kinesinv1.Task) string {
	text := t.GetState()
	if t.GetCancelRequested() && t.GetEnded() == 0 {
		text += ", cancel requested"
	}
	if t.GetSuspect() {
		text += ", suspected of killing its worker"
		if t.GetEnded() == 0 {
			text += ": runs alone"
		}
	}
	return text
}

func attemptText(a *kinesinv1.Attempt) string {
	if a.GetWorker() == "" { // none had the task when it was dropped
		return a.GetOutcome() + " at " + instantText(a.GetEnd()) + ": " + a.GetError()
	}
	text := "on " + a.GetWorker()
	if a.GetStart() != 0 {
		text += " from " + instantText(a.GetStart())
	}
	if a.GetEnd() != 0 {
		text += " to " + instantText(a.GetEnd())
	}
	if a.GetOutcome() != "" {
		text += ": " + a.GetOutcome()
	} else {
		text += ": running"
	}
	if a.GetError() != "" {
		text += ": " + strconv.Quote(a.GetError())
	}
	return text
}
