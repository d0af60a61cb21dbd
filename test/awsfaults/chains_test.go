package awsfaults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// stepsSeen are the tasks that ran, by the place of their step.
type stepsSeen struct {
	mu    sync.Mutex
	tasks map[string]map[string]bool
}

func (s *stepsSeen) handle(_ context.Context, t *sdk.Task[[]byte]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := string(t.Args)
	if s.tasks[place] == nil {
		s.tasks[place] = map[string]bool{}
	}
	s.tasks[place][string(t.ID[:23])] = true // without what the id says of its due time
	var n int
	if _, err := fmt.Sscanf(place, "%d/first", &n); err == nil && n%2 == 1 {
		return sdk.Fatal(errors.New("as it is to"))
	}
	return nil
}

// Chains with then, else and finally go on while both servers of a fleet are killed in turn: each task that
// follows runs, no other does, and none was created twice.
func TestChainsWhileServersAreKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{})
	s.Serve()
	ctx, stop := context.WithTimeout(t.Context(), harness.SettleMax+time.Minute)
	defer stop()
	if _, _, err := admin.New(s.Client.Client).Lambdas.Create(ctx, admin.Lambda{Name: "steps"}); err != nil {
		t.Fatal(err)
	}
	seen := &stepsSeen{tasks: map[string]map[string]bool{}}
	var workers sync.WaitGroup
	working, end := context.WithCancel(ctx)
	defer workers.Wait()
	defer end()
	for _, server := range s.Servers {
		w := sdk.NewWorker(s.At(server).Client, sdk.Slots(20), sdk.Lease(patient), sdk.Grace(time.Second), sdk.ExitWith(func(int) {}))
		w.Register("steps", seen.handle)
		workers.Go(func() { _ = w.Run(working) })
	}

	chains := harness.Either(600, 200)
	ids := make([]sdk.ID, chains)
	var load sync.WaitGroup
	load.Go(func() {
		for i := range ids {
			r, err := s.Client.Client.Schedule(ctx, chainOf(i))
			if err != nil {
				t.Errorf("chain %d: %v", i, err)
				return
			}
			ids[i] = r.ID
			time.Sleep(rand.N(30 * time.Millisecond))
		}
	})
	for range harness.Either(4, 2) {
		for _, server := range s.Servers {
			time.Sleep(up)
			server.Crash()
			time.Sleep(rand.N(up))
			server.Start()
		}
	}
	load.Wait()
	if t.Failed() {
		return
	}
	for i, id := range ids {
		for info, err := s.GetChain(ctx, id); err != nil || info.State != "ended"; info, err = s.GetChain(ctx, id) {
			if ctx.Err() != nil {
				t.Fatalf("chain %d has not ended: %v %+v", i, err, info)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for i := range ids {
		follows := map[bool]string{true: "then", false: "else"}
		for place, want := range map[string]int{
			"first": 1, "finally": 1, follows[i%2 == 0]: 1, follows[i%2 == 0] + "/finally": 1, follows[i%2 == 1]: 0, follows[i%2 == 1] + "/finally": 0,
		} {
			if n := len(seen.tasks[fmt.Sprintf("%d/%s", i, place)]); n != want {
				t.Errorf("%s of chain %d ran as %d tasks, want %d", place, i, n, want)
			}
		}
	}
}

// chainOf is a chain of which the first task succeeds if its number is even.
func chainOf(i int) sdk.Item {
	step := func(place string, finally ...sdk.Item) sdk.Item {
		return sdk.Item{Lambda: "steps", Payload: fmt.Appendf(nil, "%d/%s", i, place), Finally: finally}
	}
	first := step("first", step("finally"))
	first.Then = []sdk.Item{step("then", step("then/finally"))}
	first.Else = []sdk.Item{step("else", step("else/finally"))}
	return first
}

// killsMax ends the kills where a server needs most of the time that it lives to start.
const killsMax = 40

// A group is added to, runs and ends while its two servers, which both look after groups and take partitions
// over from each other, are killed in turn.
func TestAGroupWhoseServersAreKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{})
	s.Serve()
	turn := 0
	s.Grouped(harness.Either(5000, 1000), func() {
		time.Sleep(up)
		if turn >= killsMax {
			return
		}
		server := s.Servers[turn%2]
		turn++
		server.Crash()
		time.Sleep(up / 2)
		server.Start()
	})
	if harness.Figure(t, "group_kills", turn); turn < 2 {
		t.Errorf("%d kills tested too little", turn)
	}
}
