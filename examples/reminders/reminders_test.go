package reminders_test

import (
	"context"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/examples/reminders"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

const day = 24 * time.Hour

func TestTheReminderGoesOutAfterThirtyDays(t *testing.T) {
	k := sdktest.New(t) // a whole Kinesin in memory, in virtual time
	k.Lambda(reminders.Send.Name())
	var sent []string
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	reminders.Send.Handle(w, func(_ context.Context, t *sdk.Task[reminders.Reminder]) error {
		sent = append(sent, t.Args.Text)
		return nil
	})
	k.Run(w)

	plants := reminders.Reminder{User: 42, Text: "water the plants"}
	if _, err := reminders.Send.Schedule(t.Context(), k.Client(), plants, sdk.In(30*day)); err != nil {
		t.Fatal(err)
	}
	task := sdktest.RequireScheduled(t, k, reminders.Send, sdktest.Args(plants), sdktest.In(30*day))

	k.Advance(30*day - time.Millisecond)
	if len(sent) > 0 {
		t.Fatalf("sent %q too early", sent)
	}
	k.Advance(time.Millisecond) // returns when all that fell due has ended
	if len(sent) != 1 || sent[0] != "water the plants" {
		t.Errorf("sent %q", sent)
	}
	sdktest.RequireState(t, k, task.ID, sdk.StateSuccess)
}
