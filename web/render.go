package web

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// ranges shows whole numbers that are in order, such as 0–3, 7.
func ranges(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		last := i
		for last+1 < len(all) && all[last+1] == all[last]+1 {
			last++
		}
		part := strconv.Itoa(all[i])
		if last > i {
			part += "–" + strconv.Itoa(all[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}

// ago tells how long an instant in microseconds is over.
func ago(micros int64, now time.Time) string {
	if micros == 0 {
		return "–"
	}
	return durationText(now.Sub(time.UnixMicro(micros)))
}

func microsText(micros int64) string { return durationText(time.Duration(micros) * time.Microsecond) }

// durationText shows a duration in at most two units.
func durationText(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "−", -d
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return sign + strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64) + " ms"
	case d < 10*time.Millisecond:
		return sign + strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d < time.Second:
		return sign + strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return sign + strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return sign + twoUnits(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return sign + twoUnits(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return sign + twoUnits(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func twoUnits(large int, unit string, small int, lesser string) string {
	if small == 0 {
		return strconv.Itoa(large) + " " + unit
	}
	return fmt.Sprintf("%d %s %d %s", large, unit, small, lesser)
}

// waitsText says what a task waits for.
func waitsText(reason string) string {
	switch reason {
	case "gate":
		return "It waits: a gate holds it"
	case "quota":
		return "It waits for its quota"
	case "key":
		return "It waits for its limit key"
	case "no worker":
		return "It waits for a worker: there is none"
	case "busy workers":
		return "It waits for a worker: all are busy"
	case "queue full":
		return "It waits: its queue is full"
	}
	return "It waits: " + api.Visible(reason)
}

// waitText says in a few words what a task waits for, as waitsText does in a sentence; empty: for nothing that is known.
func waitText(w *kinesinv1.WaitsFor) string {
	if w == nil {
		return ""
	}
	return strings.TrimLeft(strings.TrimPrefix(waitsText(w.GetReason()), "It waits"), ": ")
}

// lateness shows how late the first start was, or is by now.
func lateness(t *kinesinv1.Task, now time.Time) string {
	if t.GetStarted() == 0 {
		if overdue := now.UnixMicro() - t.GetDue(); t.GetEnded() == 0 && overdue > 0 {
			return microsText(overdue)
		}
		return "–"
	}
	return microsText(t.GetStarted() - t.GetDue())
}

// count is a number of things.
type count interface{ int | int64 | uint32 | uint64 }

// number groups digits by thousands.
func number[N count](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	digits := strings.TrimPrefix(text, "-")
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(d)
	}
	return text[:len(text)-len(digits)] + b.String()
}

func numberOf[N count](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

func rateText(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 10:
		return strconv.FormatFloat(perSecond, 'f', 2, 64)
	case perSecond < 100:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return number(int64(perSecond + 0.5))
}

func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return number(n) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// short shows the beginning of a text that may be long, on one line.
func short(text string) string {
	const charsMax = 160
	text = strings.Join(strings.Fields(api.Visible(text)), " ")
	if utf8.RuneCountInString(text) <= charsMax {
		return text
	}
	return string([]rune(text)[:charsMax]) + "…"
}

// quote makes a value of a filter of a text.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func escapeQuery(text string) string { return url.QueryEscape(text) }

// content is a payload or a result as people read it.
type content struct {
	Kind string // "JSON", "text", or "bytes"
	Text string
	Size int64
	More bool // Text has only the beginning
}

// contentShownMax bounds what a page shows of one payload, in bytes.
const contentShownMax = 64 << 10

func contentOf(data []byte) *content {
	c := &content{Size: int64(len(data))}
	shown := data
	if len(shown) > contentShownMax {
		shown, c.More = shown[:contentShownMax], true
	}
	var b bytes.Buffer
	switch {
	case !c.More && json.Indent(&b, shown, "", "  ") == nil && b.Len() > 0:
		c.Kind, c.Text = "JSON", api.Visible(b.String())
	case utf8.Valid(data):
		c.Kind, c.Text = "text", api.Visible(strings.ToValidUTF8(string(shown), ""))
	default:
		c.Kind, c.Text = "bytes", hex.Dump(shown)
	}
	return c
}

// lastError returns the text of the last attempt that failed.
func lastError(t *kinesinv1.Task) string {
	for _, a := range slices.Backward(t.GetAttempts()) {
		if a.GetError() != "" {
			return a.GetError()
		}
	}
	return ""
}

// sentence makes a sentence of the text of an error.
func sentence(text string) string {
	text = strings.TrimPrefix(text, ErrRefused.Error()+": ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
