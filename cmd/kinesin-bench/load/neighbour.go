package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// Behaviour is what the workers of a neighbour do with its tasks.
type Behaviour string

// The behaviours.
const (
	Idle  Behaviour = "none" // there are no workers
	Works Behaviour = "work"
	Fails Behaviour = "fail"
	Hangs Behaviour = "hang"
	Dies  Behaviour = "die" // each task ends the process
	// Paused has a gate that pauses the tasks, before workers that would run them.
	Paused Behaviour = "pause"
	// Keyed has many limit keys of which one task runs at a time, before workers that run them.
	Keyed Behaviour = "keys"
	// HotKey has tasks of one limit key in the lambda that is measured, before its workers.
	HotKey Behaviour = "hot-key"
)

// Neighbour is the load of a lambda that shares a server with the one that is measured.
type Neighbour struct {
	Client       *sdk.Client
	Lambda       string
	Tasks        int
	PayloadBytes int
	Slots        int
	Behaviour    Behaviour
	Die          func()    // ends the process, for Dies
	Due          time.Time // of all its tasks
}

const (
	// keysMax is how many limit keys the tasks of a neighbour have that is Keyed.
	keysMax = 100_000
	// hotKey is the limit key of a neighbour's tasks that is HotKey. The lambda has HotKeyOthers more.
	hotKey = "hot"
)

// HotKeyOthers is how many limit keys the measured tasks have beside a neighbour that is HotKey, and
// HotKeyConcurrency how many tasks of each key run at once.
const (
	HotKeyOthers      = 999
	HotKeyConcurrency = 10
)

// Schedule creates the lambda and its tasks.
func (n *Neighbour) Schedule(ctx context.Context) error {
	info := admin.Lambda{Name: n.Lambda, Priorities: []string{"normal"}}
	switch n.Behaviour {
	case Keyed:
		info.LimitKeyConcurrency = 1
	case HotKey:
		info.LimitKeyConcurrency = HotKeyConcurrency
	case Idle, Works, Fails, Hangs, Dies, Paused:
	}
	if _, _, err := admin.New(n.Client).Lambdas.Create(ctx, info); err != nil {
		return err
	}
	if n.Behaviour == Paused {
		if _, err := admin.New(n.Client).Gates.Create(ctx, admin.Gate{Action: admin.GatePause, Lambda: n.Lambda, Reason: "benchmark of isolation"}); err != nil {
			return err
		}
	}
	batch := max(1, min(1000, batchBytesMax/max(n.PayloadBytes, 1)))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callersMax)
	for from := 0; from < n.Tasks && ctx.Err() == nil; from += batch {
		g.Go(func() error {
			items := make([]sdk.Item, min(batch, n.Tasks-from))
			for i, payload := range payloads(len(items), n.PayloadBytes, func(i int) uint64 { return n.number(from + i) }) {
				items[i] = sdk.Item{Lambda: n.Lambda, At: n.Due, Payload: payload, LimitKey: n.limitKey(from + i)}
			}
			_, err := n.Client.ScheduleMany(ctx, items)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if late := time.Since(n.Due); late > 0 {
		return fmt.Errorf("scheduling %d tasks took %v longer than there was time before they were due: choose fewer", n.Tasks, late)
	}
	return nil
}

// number returns what the payload of a task begins with. Workers of the measured lambda do not count the
// tasks of a neighbour that is HotKey.
func (n *Neighbour) number(i int) uint64 {
	if n.Behaviour == HotKey {
		return warmUpIndex
	}
	return uint64(i)
}

func (n *Neighbour) limitKey(i int) string {
	switch n.Behaviour {
	case Keyed:
		return keyOf(i % keysMax)
	case HotKey:
		return hotKey
	case Idle, Works, Fails, Hangs, Dies, Paused:
	}
	return ""
}

// keyOf returns the limit key with a number.
func keyOf(i int) string { return fmt.Sprint("key-", i) }

// batchBytesMax bounds the payloads of one call.
const batchBytesMax = 4 << 20

// Work runs the neighbour's workers until ctx ends.
func (n *Neighbour) Work(ctx context.Context) error {
	if n.Behaviour == Idle || n.Behaviour == HotKey { // the measured lambda's workers run hot tasks, too
		<-ctx.Done()
		return nil
	}
	w := sdk.NewWorker(n.Client, sdk.Slots(n.Slots), sdk.Grace(time.Second))
	sdk.NewLambda[[]byte](n.Lambda).Handle(w, func(ctx context.Context, _ *sdk.Task[[]byte]) error {
		switch n.Behaviour {
		case Fails:
			return errors.New("as it was told to")
		case Hangs:
			<-ctx.Done()
		case Dies:
			n.Die()
		case Idle, Works, Paused, Keyed, HotKey:
		}
		return nil
	})
	return w.Run(ctx)
}
