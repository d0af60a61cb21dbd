package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// groupBatch is how many members one call adds to a group.
const groupBatch = 250

// Grouped adds members to a group and runs them while hurt is called again and again, until the group has
// ended. Every tenth member fails for good. It wants the group to count each member once, and what follows to
// follow once. A worker runs at each server.
func (s *Site) Grouped(members int, hurt func()) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), 2*SettleMax)
	defer cancel()
	for _, name := range []string{"part", "whole"} {
		if _, _, err := admin.New(s.Client.Client).Lambdas.Create(ctx, admin.Lambda{Name: name, MaxAttempts: 100, BackoffMin: 50 * time.Millisecond, BackoffMax: time.Second}); err != nil {
			s.T.Fatal(err)
		}
	}
	whole := &whole{ends: map[sdk.ID]sdk.GroupEnd{}}
	for _, server := range s.Servers {
		defer s.groupWorker(ctx, server, whole)()
	}
	var g sdk.GroupInfo
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g, err = s.addParts(ctx, members)
		for err == nil && g.State != "done" && ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
			if now, getErr := s.GetGroup(ctx, g.ID); getErr == nil {
				g = now
			}
		}
	}()
	for isOver := false; !isOver; {
		hurt()
		select {
		case <-ended:
			isOver = true
		default:
		}
	}
	if err != nil {
		s.T.Fatal(err)
	}
	s.checkGroup(ctx, &g, members, whole)
}

// whole notes what followed, by the ids of the tasks.
type whole struct {
	mu   sync.Mutex
	ends map[sdk.ID]sdk.GroupEnd
}

func (w *whole) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ends)
}

// groupWorker runs members and what follows, in this process, which nobody kills.
func (s *Site) groupWorker(ctx context.Context, server *Server, whole *whole) (stop func()) {
	w := sdk.NewWorker(s.At(server).Client, sdk.Slots(50))
	w.Register("part", func(_ context.Context, t *sdk.Task[[]byte]) error {
		if t.Member.Index%10 == 3 {
			return sdk.Fatal(errors.New("it never works"))
		}
		return nil
	})
	w.Register("whole", func(_ context.Context, t *sdk.Task[[]byte]) error {
		whole.mu.Lock()
		defer whole.mu.Unlock()
		whole.ends[t.ID] = *t.Group
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.T.Logf("worker: %v", err)
		}
	}
}

// addParts makes a group, adds its members and seals it. The outcome of a call is not known when its server
// is killed: it is made again.
func (s *Site) addParts(ctx context.Context, members int) (g sdk.GroupInfo, err error) {
	spec := sdk.GroupSpec{Else: []sdk.Item{{Lambda: "whole"}}, Finally: []sdk.Item{{Lambda: "whole"}}}
	for g, err = s.CreateGroup(ctx, spec); err != nil && ctx.Err() == nil; g, err = s.CreateGroup(ctx, spec) {
		time.Sleep(100 * time.Millisecond)
	}
	for at := 0; at < members && ctx.Err() == nil; {
		items := make([]sdk.Item, min(groupBatch, members-at))
		for i := range items {
			items[i] = sdk.Item{Lambda: "part", Payload: fmt.Append(nil, at+i), In: time.Duration(i%5) * time.Second}
		}
		ids, err := s.AddMembers(ctx, g.ID, at, items)
		if err != nil && !errors.Is(err, sdk.ErrUnavailable) {
			return g, fmt.Errorf("add members at %d: %w", at, err)
		}
		at += len(ids)
	}
	for {
		sealed, err := s.SealGroup(ctx, g.ID, members)
		if err == nil || ctx.Err() != nil || !errors.Is(err, sdk.ErrUnavailable) {
			return sealed, err
		}
	}
}

func (s *Site) checkGroup(ctx context.Context, g *sdk.GroupInfo, members int, whole *whole) {
	s.T.Helper()
	failed := (members + 6) / 10
	want := map[sdk.State]int{sdk.StateSuccess: members - failed, sdk.StateFatalFailure: failed}
	if g.State != "done" || g.Members != members || fmt.Sprint(g.Counts) != fmt.Sprint(want) {
		s.T.Fatalf("%+v, want %v", g, want)
	}
	rows := map[sdk.State]int{}
	for m, err := range s.GroupMembers(ctx, g.ID) {
		if err != nil {
			s.T.Fatal(err)
		}
		rows[m.Task.State]++
	}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		s.T.Errorf("the rows of members say %v, want %v", rows, want)
	}
	for whole.count() < len(g.FollowUps) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // for one too many
	whole.mu.Lock()
	defer whole.mu.Unlock()
	if len(whole.ends) != 2 {
		s.T.Errorf("%d tasks followed, want 2", len(whole.ends))
	}
	for id, end := range whole.ends {
		if fmt.Sprint(end.Ended) != fmt.Sprint(want) || end.Members != members || id != g.FollowUps[0].ID && id != g.FollowUps[1].ID {
			s.T.Errorf("%s was told %+v; the group has %+v", id, end, g.FollowUps)
		}
	}
}
