// Package executor runs a command for each task, in a process group of its own. A guard, which is a second
// process, kills all groups when this process dies or is stopped past its lease. The package owns the
// processes and their environment. It knows nothing of servers; the caller decides what an exit code means.
// Commands run on Linux and macOS only.
package executor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/sdk"
)

const (
	// TermToKillMax is the longest time between SIGTERM and SIGKILL.
	TermToKillMax = 2 * time.Second
	// envPrefix is the prefix of the variables that describe the task.
	envPrefix = "KINESIN_"
)

// Task describes a task to its command.
type Task struct {
	sdk.Task[[]byte]

	Worker      string
	Deadline    time.Time // zero: none
	AfterGroup  string    // how the group ended after which it follows, in JSON; empty: none
	OutcomeFile string    // into which the command may write; empty: none
}

// ExitError says how a command failed.
type ExitError struct {
	Code   int            // -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited
	Tail   string         // the end of its stderr: the last tailBytesMax
}

// Error says how the command ended, and adds the tail of its stderr.
func (e *ExitError) Error() string {
	text := "exit status " + strconv.Itoa(e.Code)
	if e.Signal != 0 {
		text = "signal: " + e.Signal.String()
	}
	if e.Tail != "" {
		text += ": " + e.Tail
	}
	return text
}

// Config configures an Executor; Command, Stdout and Stderr are required.
type Config struct {
	Command []string // with its arguments
	// Env is the environment of commands. Of its variables that begin with envPrefix they get those that Only
	// names.
	Env        []string
	Only       []string // names of the variables of Env that commands get; nil: all
	Ours       []string // more variables for commands: how to reach the server
	Stdout     io.Writer
	Stderr     io.Writer
	TermToKill time.Duration // between SIGTERM and SIGKILL; 0: TermToKillMax
	// AtOnce reports whether a context that ended with this cause kills the group without a SIGTERM before.
	AtOnce func(cause error) bool
	Guard  *Guard
}

// ErrGuard says that the guard is gone, so that commands would not die with this process.
var ErrGuard = errors.New("the guard process of the worker is gone")

// parentEnv adds the variables that describe a parent.
func parentEnv(p *sdk.Parent, add func(name, value string)) {
	add("PARENT", string(p.ID))
	add("PARENT_LAMBDA", p.Lambda)
	add("PARENT_STATE", string(p.State))
	add("EDGE", p.Edge)
	if p.Error != "" {
		add("PARENT_ERROR", strings.ReplaceAll(p.Error, "\x00", ""))
	}
	switch {
	case len(p.Result) == 0:
	case utf8.Valid(p.Result) && !bytes.Contains(p.Result, []byte{0}):
		add("PARENT_RESULT", string(p.Result))
	default:
		add("PARENT_RESULT_BASE64", base64.StdEncoding.EncodeToString(p.Result))
	}
}

// env returns the variables that describe the task.
func (t *Task) env() []string {
	env := make([]string, 0, 15)
	add := func(name, value string) { env = append(env, envPrefix+name+"="+value) }
	add("TASK_ID", string(t.ID))
	add("LAMBDA", t.Lambda)
	add("PRIORITY", t.Priority)
	add("COLLECTION", t.Collection)
	add("KEY", t.Key)
	add("ATTEMPT", strconv.Itoa(t.Attempt))
	add("FAILURES", strconv.Itoa(t.Failures))
	add("DUE", t.Due.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	add("WORKER", t.Worker)
	if !t.Deadline.IsZero() {
		add("DEADLINE", t.Deadline.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	if o := t.Occurrence; o != nil {
		add("CRON", o.Cron)
		add("NOMINAL", o.Nominal.UTC().Format(time.RFC3339))
		if !o.PreviousSuccess.IsZero() {
			add("PREVIOUS_SUCCESS", o.PreviousSuccess.UTC().Format(time.RFC3339))
		}
	}
	if t.AfterGroup != "" {
		add("GROUP", t.AfterGroup)
	}
	if t.Traceparent != "" {
		add("TRACEPARENT", t.Traceparent)
		env = append(env, "TRACEPARENT="+t.Traceparent) // where programs with OpenTelemetry look for it
	}
	if len(t.Tags) > 0 { // their names are no names of variables
		tags, _ := json.Marshal(t.Tags) // strings never fail
		add("TAGS", string(tags))
	}
	if t.Chain != "" {
		add("CHAIN", string(t.Chain))
	}
	if t.Parent != nil {
		parentEnv(t.Parent, add)
	}
	if t.OutcomeFile != "" {
		add("OUTCOME_FILE", t.OutcomeFile)
	}
	return env
}
