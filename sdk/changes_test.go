package sdk_test

import (
	"context"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// A task that is redriven in the very millisecond at which it was due waits at the place of its first life.
func TestARedrivenTaskStartsAtOnce(t *testing.T) {
	k := sdktest.New(t)
	k.Lambda("report", admin.Lambda{})
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	ran := make(chan string, 10)
	w.Register("report", func(_ context.Context, task *sdk.Task[[]byte]) error {
		ran <- string(task.Payload)
		return nil
	})
	k.Run(w)
	for _, key := range []string{"", "mine"} {
		r, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: "report", Payload: []byte("first"), In: time.Hour, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Hour)
		<-ran
		for range 3 {
			changed, err := k.Client().Redrive(t.Context(), []sdk.ID{r.ID}, sdk.Force(), sdk.WithNewPayload([]byte("again")))
			if err != nil || changed[0].Err != nil {
				t.Fatal(changed, err)
			}
			k.Advance(time.Second)
			if got := <-ran; got != "again" {
				t.Errorf("ran with %q", got)
			}
		}
	}
}
