package checker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Kind says what an event is about.
type Kind string

// The kinds of events, and who writes them.
const (
	Requested  Kind = "requested"  // client: about to ask for the task Nonce of LimitKey
	Acked      Kind = "acked"      // client: Nonce is Task, due at Due, and must end in Want
	Cancelling Kind = "cancelling" // client: about to ask that Task be cancelled
	Cancelled  Kind = "cancelled"  // client: told that Task will never start
	Started    Kind = "started"    // worker: Attempt of Task began in PID
	Effect     Kind = "effect"     // worker: Attempt of Task changed the world, its context being alive
	Ended      Kind = "ended"      // worker: Attempt of Task is about to return Outcome
	Died       Kind = "died"       // harness: process PID is gone
	Stopped    Kind = "stopped"    // harness: process PID was stopped (SIGSTOP)
	Continued  Kind = "continued"  // harness: process PID goes on (SIGCONT)
	Terminated Kind = "terminated" // harness: process PID was asked to end (SIGTERM)
	ServerDown Kind = "serverdown" // harness: the server was killed
	ServerUp   Kind = "serverup"   // harness: the server answers again
	Reported   Kind = "reported"   // client: what the server says of Task at the very end
)

// Outcomes of an execution, as the worker program saw them.
const (
	OK       = "ok"       // the handler returned nil
	Fail     = "fail"     // the handler returned an error that may be retried
	Fatal    = "fatal"    // the handler returned an error that may not
	Snooze   = "snooze"   // the handler asked to be called again
	Obeyed   = "obeyed"   // the handler returned because its context ended
	Poisoned = "poisoned" // the handler is about to kill its process
)

// Event is one line of a history. Times are Unix microseconds of one machine's clock.
type Event struct {
	Kind    Kind   `json:"kind"`
	At      int64  `json:"at"`
	Task    string `json:"task,omitempty"`
	Nonce   string `json:"nonce,omitempty"`
	Attempt uint32 `json:"attempt,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Due     int64  `json:"due,omitempty"`
	Outcome string `json:"outcome,omitempty"`

	// LimitKey is that of a requested task.
	LimitKey string `json:"limit_key,omitempty"`
	// Want is the state in which an acknowledged task has to end; empty means success.
	Want string `json:"want,omitempty"`

	// The server's report of a task.
	State    string `json:"state,omitempty"`
	Failures uint32 `json:"failures,omitempty"`
	Lost     uint32 `json:"lost,omitempty"`
	// Winner is the attempt whose result ended the task, 0 for none.
	Winner uint32 `json:"winner,omitempty"`
}

// Line is the event as one line of a log, to be written with a single write.
func (e Event) Line() []byte {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return append(line, '\n')
}

// lineBytesMax bounds a line; events are far smaller.
const lineBytesMax = 64 << 10

// Read reads the lines of a log. A last line that was cut short by a kill is an error: each event
// is written with one write, which a kill cannot cut.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("event %d: %w: %q", len(events)+1, err, lines.Text())
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
