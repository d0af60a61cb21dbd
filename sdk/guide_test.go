package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// ChargeCard is a lambda whose handler changes something outside.
var ChargeCard = sdk.NewLambda[Charge]("charge-card", sdk.Timeout(time.Minute))

// Charge is its argument.
type Charge struct {
	Order int `json:"order"`
	Cents int `json:"cents"`
}

// ledger is the outside: it takes from a later attempt only what an earlier one has not done.
type ledger struct {
	attempt map[int]int
}

func (l *ledger) charge(_ context.Context, c Charge, fence int) error {
	if fence < l.attempt[c.Order] {
		return fmt.Errorf("attempt %d of order %d was overtaken", fence, c.Order)
	}
	l.attempt[c.Order] = fence
	return nil
}

func Example_fencing() {
	k := newKinesin()
	defer k.Close()
	k.Lambda(ChargeCard.Name())
	bank := &ledger{attempt: map[int]int{}}

	w := sdk.NewWorker(k.Client())
	ChargeCard.Handle(w, func(ctx context.Context, t *sdk.Task[Charge]) error {
		// The number of a later attempt is higher, and the bank refuses a lower one.
		return bank.charge(ctx, t.Args, t.Attempt)
	})
	defer k.Run(w)()

	id, err := ChargeCard.Schedule(context.Background(), k.Client(), Charge{Order: 7, Cents: 995})
	k.Advance(0)
	fmt.Println(k.Task(id).State, err)
	// Output: success <nil>
}

func Example_context() {
	k := newKinesin()
	defer k.Close()
	k.Lambda(ChargeCard.Name())

	w := sdk.NewWorker(k.Client())
	ChargeCard.Handle(w, func(ctx context.Context, _ *sdk.Task[Charge]) error {
		err := k.Sleep(ctx, time.Hour) // stands for work that obeys ctx
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, sdk.ErrTimeout):
			fmt.Println("took longer than the task's timeout")
		case errors.Is(cause, sdk.ErrCancelled):
			fmt.Println("somebody cancelled the task")
		case errors.Is(cause, sdk.ErrDraining):
			fmt.Println("this worker is stopping, and the grace is over")
		case errors.Is(cause, sdk.ErrLeaseLost), errors.Is(cause, sdk.ErrFenced):
			fmt.Println("the task runs elsewhere by now: change nothing more")
		}
		return err
	})
	defer k.Run(w)()

	_, err := ChargeCard.Schedule(context.Background(), k.Client(), Charge{Order: 7, Cents: 995}, sdk.MaxAttempts(1))
	fmt.Println("error:", err)
	k.Advance(2 * time.Minute)
	// Output:
	// error: <nil>
	// took longer than the task's timeout
}

func Example_chain() {
	k := newKinesin()
	defer k.Close()
	ctx, client := context.Background(), k.Client()
	ship, refund := sdk.NewLambda[Charge]("ship"), sdk.NewLambda[Charge]("refund")
	w := sdk.NewWorker(client)
	for _, l := range []sdk.Lambda[Charge]{ChargeCard, ship, refund} {
		k.Lambda(l.Name())
		l.Handle(w, func(_ context.Context, t *sdk.Task[Charge]) error {
			fmt.Println(t.Lambda, "order", t.Args.Order)
			return nil
		})
	}
	defer k.Run(w)()

	charge, order := ChargeCard, Charge{Order: 7, Cents: 995}
	id, err := sdk.Chain(
		charge.With(order),
		ship.With(order).After(time.Hour),
	).OnFailure(refund.With(order)).Schedule(ctx, client)
	k.Advance(time.Hour)
	fmt.Println(k.Task(id).State, err)
	// Output:
	// charge-card order 7
	// ship order 7
	// success <nil>
}

func Example_options() {
	k := newKinesin()
	defer k.Close()
	ctx, client := context.Background(), k.Client()

	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42},
		sdk.At(time.Date(2030, 3, 1, 9, 0, 0, 0, time.UTC)), // or sdk.In(90*time.Second); neither means now
		sdk.Key("reminder-42"),
		sdk.Priority("high"),
		sdk.Collection("spring-campaign"),
		sdk.MaxAttempts(5),
		sdk.Timeout(30*time.Second), // of one attempt
		sdk.Backoff(time.Second, 10*time.Minute),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := client.Get(ctx, id)
	fmt.Println(info.State, "for", info.Due.Format(time.DateTime), info.Priority, err)
	// Output: scheduled for 2030-03-01 09:00:00 high <nil>
}

func ExampleClient_List() {
	k := newKinesin()
	defer k.Close()
	ctx, client := context.Background(), k.Client()
	w := sdk.NewWorker(client)
	SendReminder.Handle(w, func(_ context.Context, t *sdk.Task[Reminder]) error {
		return fmt.Errorf("user %d has no address", t.Args.User)
	})
	defer k.Run(w)()
	if _, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}); err != nil {
		fmt.Println(err)
	}
	k.Advance(day)

	// The dead letters of a lambda, page by page as the loop goes on.
	for info, err := range client.List(ctx, sdk.ListQuery{Lambda: SendReminder.Name(), State: sdk.StateDead}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		last := info.Attempts[len(info.Attempts)-1]
		fmt.Printf("%s after %d attempts: %s\n", info.State, info.Failures, last.Error)
	}
	// Output: dead after 3 attempts: user 42 has no address
}

func ExampleObserve() {
	k := newKinesin()
	defer k.Close()

	w := sdk.NewWorker(k.Client(), sdk.Observe(sdk.Hooks{
		Started: func(t *sdk.Work, late time.Duration) { fmt.Println(t.Lambda, "started late by", late) },
		Ended: func(t *sdk.Work, o sdk.Outcome, took time.Duration) {
			fmt.Println(t.Lambda, o, "after", took)
		},
	}))
	SendReminder.Handle(w, func(context.Context, *sdk.Task[Reminder]) error { return nil })
	defer k.Run(w)()
	if _, err := SendReminder.Schedule(context.Background(), k.Client(), Reminder{User: 42}, sdk.In(day)); err != nil {
		fmt.Println(err)
	}
	k.Advance(day)
	// Output:
	// send-reminder started late by 0s
	// send-reminder success after 0s
}

// TestGuideShowsCodeThatRuns finds each snippet of the guide and of the pages on concepts and how-to in an example or a test.
func TestGuideShowsCodeThatRuns(t *testing.T) {
	t.Parallel()
	guides, err := filepath.Glob("../docs/[ch]o*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages strings.Builder
	for _, page := range append(guides, "../docs/reference/sdk.md") {
		if strings.HasPrefix(filepath.Base(page), "from-") {
			continue // it shows programs of another system
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(text)
	}
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "admin/*_test.go", "sdktest/*_test.go", "sqsinbound/*_test.go", "../examples/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.WriteString(unindented(string(text)) + "\n")
		}
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(pages.String(), -1)
	if len(snippets) < 10 {
		t.Errorf("%d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(code.String(), unindented(s[1])) {
			t.Errorf("no example or test has this:\n%s", s[1])
		}
	}
}

// unindented is code without its indentation and blank lines.
func unindented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// TestReminder is the guide's test of a user's own.
func TestReminder(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	k.Lambda(SendReminder.Name())
	var reminded []int
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	SendReminder.Handle(w, func(_ context.Context, t *sdk.Task[Reminder]) error {
		reminded = append(reminded, t.Args.User)
		return nil
	})
	k.Run(w)

	if _, err := SendReminder.Schedule(t.Context(), k.Client(), Reminder{User: 42}, sdk.In(30*day)); err != nil {
		t.Fatal(err)
	}
	task := sdktest.RequireScheduled(t, k, SendReminder, sdktest.In(30*day), sdktest.Args(Reminder{User: 42}))

	k.Advance(30 * day) // returns when all that fell due has ended
	sdktest.RequireState(t, k, task.ID, sdk.StateSuccess)
	if len(reminded) != 1 {
		t.Errorf("reminded %v", reminded)
	}
}
