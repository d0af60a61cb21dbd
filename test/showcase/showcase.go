// Package showcase makes an installation as an operator meets it on a bad morning: 40 lambdas and any number
// of tasks, of which one lambda makes more than it can run, one is paused, one has a task that kills its
// workers, one burns its error budget, some tasks died of a timeout, and many are due at midnight. It is for
// tests and for people who look at the console.
package showcase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// The lambdas that something is wrong with.
const (
	Noisy   = "export"    // has more due than it can run
	Paused  = "thumbnail" // by a gate
	Poison  = "ocr"       // has a task that kills its worker
	Burning = "push"      // starts late, as a quota holds it, and has an objective
	Failing = "webhook"   // its tasks died of a timeout, and succeed when they are redriven
	Nightly = "statement" // most of its tasks are due at midnight
)

// Customer is the one of Customers customers that asks what became of its webhooks.
const (
	Customer  = "acme"
	Customers = 50
)

// Timeout is the error of which the tasks of Failing died. Others of them died of Refused.
const (
	Timeout = `POST https://hooks.example/orders: timeout awaiting response headers`
	Refused = `POST https://hooks.example/orders: 401 Unauthorized`
)

// ordinary are the lambdas that run as they should.
var ordinary = []string{
	"mail", "mail-digest", "mail-welcome", "sms", "invoice", "invoice-remind", "payment-capture", "payment-retry", "refund", "payout", "trial-end",
	"subscription-renew", "subscription-cancel", "order-expire", "order-confirm", "stock-sync", "stock-alert", "price-update", "search-index", "search-purge", "cache-warm",
	"image-moderate", "video-encode", "backup", "report-daily", "report-weekly", "session-expire", "account-delete", "fraud-check", "address-verify",
	"shipment-track", "shipment-label", "survey", "crm-sync",
}

// Tasks are some of what Fill made, for whoever looks.
type Tasks struct {
	Noisy, Paused, Poison, Late sdk.ID
	Dead, AtMidnight            int // of Customer by Timeout; of all customers
	Midnight                    time.Time
}

// Midnight returns the next one in UTC.
func Midnight(now time.Time) time.Time {
	return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}

// Fill creates the lambdas and schedules tasks, 10,000 at least. It returns when they are durable.
func Fill(ctx context.Context, client *sdk.Client, tasks int, now time.Time) (made Tasks, err error) {
	const tasksMin = 10_000
	if tasks < tasksMin {
		return made, fmt.Errorf("%d tasks: want at least %d", tasks, tasksMin)
	}
	if err := configure(ctx, client); err != nil {
		return made, err
	}
	made.Midnight = Midnight(now)
	some := tasks / 100
	dead, midnight := min(some*2, 20_000), some*4
	made.AtMidnight = midnight
	for i := range dead {
		if i%Customers == 0 && i/Customers%4 != 3 {
			made.Dead++
		}
	}
	first := map[string]sdk.ID{}
	for _, part := range []struct {
		lambda string
		count  int
		item   func(i int) sdk.Item
	}{
		{Failing, dead, func(i int) sdk.Item { return failing(i, now) }},
		{Poison, 1, func(int) sdk.Item { return sdk.Item{Key: "scan-poison", Payload: []byte(kill)} }},
		{Paused, some, func(i int) sdk.Item {
			return sdk.Item{Key: fmt.Sprintf("image-%06d", i), In: time.Duration(i) * time.Second}
		}},
		{Noisy, some * 10, func(i int) sdk.Item { return sdk.Item{Payload: []byte(slow), Key: fmt.Sprintf("export-%06d", i)} }},
		{Burning, some, func(i int) sdk.Item { return sdk.Item{Key: fmt.Sprintf("push-%06d", i)} }},
		{Nightly, midnight, func(i int) sdk.Item {
			return sdk.Item{At: made.Midnight, Payload: fmt.Appendf(nil, `{"account": %d}`, i)}
		}},
		{"", tasks - dead - 1 - some*12 - midnight, func(i int) sdk.Item { return usual(i, tasks, now) }},
	} {
		id, err := schedule(ctx, client, part.count, func(i int) sdk.Item {
			item := part.item(i)
			if part.lambda != "" {
				item.Lambda = part.lambda
			}
			item.Tags = map[string]string{"customer": customer(i)}
			return item
		})
		if err != nil {
			return made, fmt.Errorf("schedule tasks of %q: %w", part.lambda, err)
		}
		first[part.lambda] = id
	}
	made.Noisy, made.Paused, made.Poison, made.Late = first[Noisy], first[Paused], first[Poison], first[Burning]
	return made, nil
}

func customer(i int) string {
	if i%Customers == 0 {
		return Customer
	}
	return fmt.Sprintf("customer-%02d", i%Customers)
}

// failing is a task that dies now, and succeeds when it is redriven.
func failing(i int, now time.Time) sdk.Item {
	text := Timeout
	if i/Customers%4 == 3 {
		text = Refused
	}
	return sdk.Item{Payload: []byte(failOnce + text), Key: fmt.Sprintf("hook-%06d", i), MaxAttempts: 1, At: now}
}

// usual is a task of an ordinary lambda, due at some time of the next week.
func usual(i, tasks int, now time.Time) sdk.Item {
	const week = 7 * 24 * time.Hour
	ahead := 2*time.Minute + week/time.Duration(tasks)*time.Duration(i) // not before all are scheduled
	return sdk.Item{Lambda: ordinary[i*7%len(ordinary)], At: now.Add(ahead), Payload: fmt.Appendf(nil, `{"order": %d, "template": "plain"}`, i)}
}

func configure(ctx context.Context, client *sdk.Client) error {
	for _, name := range append([]string{Noisy, Paused, Poison, Burning, Failing, Nightly}, ordinary...) {
		info := admin.Lambda{Name: name, MaxAttempts: 3, BackoffMin: time.Second, BackoffMax: 10 * time.Second, Retention: 7 * 24 * time.Hour}
		if _, _, err := admin.New(client).Lambdas.Create(ctx, info); err != nil {
			return fmt.Errorf("create lambda %s: %w", name, err)
		}
	}
	for _, lambda := range []string{Burning, "mail", "invoice", "sms"} {
		if _, err := admin.New(client).Objectives.Set(ctx, admin.Objective{Lambda: lambda, Within: 5 * time.Second, Percent: 99}); err != nil {
			return fmt.Errorf("set the objective of %s: %w", lambda, err)
		}
	}
	if _, err := admin.New(client).Quotas.Set(ctx, admin.Quota{Lambda: Burning, Rate: 20}, admin.QuotaSetOptions{}); err != nil {
		return fmt.Errorf("set the quota of %s: %w", Burning, err)
	}
	if _, err := admin.New(client).Gates.Create(ctx, admin.Gate{Action: admin.GatePause, Lambda: Paused, Reason: "the image service is being moved"}); err != nil {
		return fmt.Errorf("pause %s: %w", Paused, err)
	}
	return nil
}

// schedule schedules tasks in parallel, and returns the id of the first.
func schedule(ctx context.Context, client *sdk.Client, count int, item func(i int) sdk.Item) (first sdk.ID, err error) {
	const batch, callers = 1000, 8
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(callers)
	for from := 0; from < count; from += batch {
		group.Go(func() error {
			var items []sdk.Item
			for i := from; i < min(from+batch, count); i++ {
				items = append(items, item(i))
			}
			results, err := client.ScheduleMany(ctx, items)
			if err == nil && from == 0 {
				first = results[0].ID
			}
			return err
		})
	}
	return first, group.Wait()
}

const (
	kill     = "kill"       // the worker
	slow     = "slow"       // half a second
	failOnce = "fail once " // with the text that follows, in the first attempt
)

// Work runs workers for all lambdas until the context ends, except for Poison.
func Work(ctx context.Context, client *sdk.Client) error {
	group, ctx := errgroup.WithContext(ctx)
	worker := sdk.NewWorker(client, sdk.Slots(32), sdk.Grace(time.Second), sdk.Name("worker-a"), sdk.Version("2.4.1"))
	for _, name := range append([]string{Paused, Burning, Failing, Nightly}, ordinary...) {
		worker.Register(name, handle)
	}
	group.Go(func() error { return worker.Run(ctx) })
	noisy := sdk.NewWorker(client, sdk.Slots(8), sdk.Grace(time.Second), sdk.Name("worker-b"), sdk.Version("2.3.0"))
	noisy.Register(Noisy, handle)
	group.Go(func() error { return noisy.Run(ctx) })
	return group.Wait()
}

// WorkUntilKilled runs a worker of Poison in this process, which the task ends.
func WorkUntilKilled(ctx context.Context, client *sdk.Client) error {
	worker := sdk.NewWorker(client, sdk.Slots(4), sdk.Grace(time.Second), sdk.Name("worker-ocr"), sdk.Version("0.9.0"))
	worker.Register(Poison, handle)
	return worker.Run(ctx)
}

func handle(ctx context.Context, t *sdk.Task[[]byte]) error {
	switch string(t.Payload) {
	case kill:
		os.Exit(137)
	case slow:
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	if text, fails := strings.CutPrefix(string(t.Payload), failOnce); fails && t.Attempt == 1 {
		return errors.New(text)
	}
	return nil
}
