// Adapter lets the conformance suite drive the Go SDK: it does the commands that it reads from its standard input, and
// writes their answers and what its handlers do to its standard output. clients/conformance/README.md describes both.
// It uses what every user of the SDK has, and nothing else. It is for tests only.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// lineBytesMax is how long a command may be.
const lineBytesMax = 1 << 20

func main() {
	if err := run(os.Getenv("KINESIN_SERVER")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type adapter struct {
	client *sdk.Client
	admin  *admin.Client
	stop   func() error // ends the worker and returns once it has drained
	mu     sync.Mutex   // of standard output
}

func noWorker() error { return nil }

type object = map[string]any

type command struct {
	N    int    `json:"n"`
	Do   string `json:"do"`
	Args args   `json:"args"`
}

// run does commands, many at a time, until standard input ends. Then it drains.
func run(server string) error {
	client, err := sdk.NewClient(server)
	if err != nil {
		return err
	}
	a := &adapter{client: client, admin: admin.New(client), stop: noWorker}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	var commands sync.WaitGroup
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("command %q: %w", lines.Text(), err)
		}
		commands.Go(func() {
			if ok, err := a.do(context.Background(), c.Do, c.Args); err != nil {
				a.write(object{"n": c.N, "error": object{"reason": reason(err), "message": err.Error()}})
			} else {
				a.write(object{"n": c.N, "ok": ok})
			}
		})
	}
	commands.Wait()
	return errors.Join(lines.Err(), a.stop())
}

func (a *adapter) write(line object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

// reasons are the words of docs/reference/errors.md.
var reasons = map[error]string{
	sdk.ErrInvalid: "invalid", sdk.ErrUnknownLambda: "unknown_lambda", sdk.ErrNotFound: "not_found", sdk.ErrTooLate: "too_late",
	sdk.ErrKeyConflict: "key_conflict", sdk.ErrTooLarge: "too_large", sdk.ErrUnavailable: "unavailable", sdk.ErrExists: "exists",
}

func reason(err error) string {
	for sentinel, word := range reasons {
		if errors.Is(err, sentinel) {
			return word
		}
	}
	return "internal"
}

// args are the arguments of any command.
type args struct {
	Lambda      string            `json:"lambda"`
	Payload     json.RawMessage   `json:"payload"`
	Text        string            `json:"payload_text"`
	Base64      []byte            `json:"payload_base64"`
	Delay       duration          `json:"delay"`
	At          time.Time         `json:"at"`
	Key         string            `json:"key"`
	Conflict    sdk.Conflict      `json:"conflict"`
	Tags        map[string]string `json:"tags"`
	Priority    string            `json:"priority"`
	MaxAttempts int               `json:"max_attempts"`
	Then        []args            `json:"then"`

	ID       sdk.ID   `json:"id"`
	Timeout  duration `json:"timeout"`
	Tasks    []args   `json:"tasks"`
	Name     string   `json:"name"`
	Schedule string   `json:"schedule"`

	Lambdas []string `json:"lambdas"`
	Slots   int      `json:"slots"`
	Lease   duration `json:"lease"`
	Grace   duration `json:"grace"`
}

// duration is one as Go writes it.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func (a args) item() sdk.Item {
	payload := []byte(a.Payload)
	switch {
	case a.Text != "":
		payload = []byte(a.Text)
	case a.Base64 != nil:
		payload = a.Base64
	}
	return sdk.Item{
		Lambda: a.Lambda, Payload: payload, In: time.Duration(a.Delay), At: a.At, Key: a.Key, OnConflict: a.Conflict, Tags: a.Tags,
		Priority: a.Priority, MaxAttempts: a.MaxAttempts, Then: items(a.Then),
	}
}

func items(all []args) []sdk.Item {
	found := make([]sdk.Item, len(all))
	for i := range all {
		found[i] = all[i].item()
	}
	return found
}

// id is the id of the task that the arguments name.
func (a args) id() sdk.ID {
	if a.ID != "" {
		return a.ID
	}
	return sdk.ByKey(a.Lambda, a.Key)
}

func (a *adapter) do(ctx context.Context, what string, of args) (any, error) {
	switch what {
	case "schedule":
		r, err := a.client.Schedule(ctx, of.item())
		return object{"id": r.ID, "created": !r.Duplicate}, err
	case "batch":
		return a.batch(ctx, items(of.Tasks))
	case "get":
		t, err := a.client.Get(ctx, of.id())
		return object{"id": t.ID, "state": t.State, "attempts": t.Attempt, "tags": t.Tags}, err
	case "wait":
		return a.wait(ctx, of)
	case "cancel":
		outcome, err := a.client.Cancel(ctx, of.id())
		return object{"state": outcome}, err
	case "reschedule":
		results, err := a.client.Reschedule(ctx, []sdk.ID{of.id()}, sdk.In(time.Duration(of.Delay)))
		if err != nil {
			return nil, err
		}
		return object{}, results[0].Err
	case "cron":
		_, _, err := a.admin.Crons.Create(ctx, admin.Cron{Name: of.Name, Lambda: of.Lambda, Schedule: of.Schedule, Payload: of.Payload})
		return object{}, err
	case "delete_cron":
		return object{}, a.admin.Crons.Delete(ctx, of.Name)
	case "group":
		g, err := sdk.Group(items(of.Tasks)...).Then(items(of.Then)...).Schedule(ctx, a.client)
		return object{"id": g.ID}, err
	case "chain":
		var steps []sdk.Step
		for _, item := range items(of.Tasks) {
			steps = append(steps, item.Step())
		}
		id, err := sdk.Chain(steps...).Schedule(ctx, a.client)
		return object{"id": id}, err
	case "work":
		return object{}, a.work(of)
	case "stop":
		return object{}, a.stop()
	}
	return nil, fmt.Errorf("%w command %q", sdk.ErrInvalid, what)
}

func (a *adapter) batch(ctx context.Context, all []sdk.Item) (any, error) {
	results, err := a.client.ScheduleMany(ctx, all)
	if len(results) != len(all) {
		return nil, err
	}
	tasks := make([]object, len(results))
	for i, r := range results {
		if tasks[i] = (object{"id": r.ID}); r.Err != nil {
			tasks[i] = object{"reason": reason(r.Err)}
		}
	}
	return object{"tasks": tasks}, nil
}

func (a *adapter) wait(ctx context.Context, of args) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(of.Timeout))
	defer cancel()
	results, err := a.client.Wait(ctx, of.id())
	if err != nil && !errors.Is(err, context.DeadlineExceeded) || len(results) != 1 {
		return nil, err
	}
	t := results[0].Task
	ended := object{"state": t.State}
	switch {
	case json.Valid(t.Result):
		ended["result"] = json.RawMessage(t.Result)
	case t.Result != nil:
		ended["result_base64"] = t.Result
	}
	if n := len(t.Attempts); n > 0 {
		ended["error"] = t.Attempts[n-1].Error
	}
	return ended, results[0].Err
}
