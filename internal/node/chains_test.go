package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// stepLog notes which tasks ran, by their payload, and what they were told of the task before them.
type stepLog struct {
	mu   sync.Mutex
	seen []string
	late time.Duration
}

func (s *stepLog) handler(ctx context.Context, t *sdk.Task[[]byte]) error {
	name := string(t.Payload)
	text := name
	if p := t.Parent; p != nil {
		text += fmt.Sprintf("<%s:%s:%s:%s", p.Edge, p.State, p.Result, p.Error)
	}
	s.mu.Lock()
	s.seen = append(s.seen, text)
	s.late = max(s.late, time.Since(t.Due))
	s.mu.Unlock()
	switch {
	case strings.HasPrefix(name, "fail"):
		return sdk.Fatal(errors.New("no " + name))
	case strings.HasPrefix(name, "more"):
		t.Then(sdk.Item{Lambda: "mail", Payload: []byte("added")}.Step())
	}
	t.SetResult([]byte("r-" + name))
	return nil
}

func (s *stepLog) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(s.seen)), " ")
}

func mail(payload string) sdk.Step { return sdk.Item{Lambda: "mail", Payload: []byte(payload)}.Step() }

// states draws a chain in a line.
func states(t *sdk.ChainTask) string {
	text := string(t.State)
	for i := range t.Followups {
		next := &t.Followups[i]
		text += fmt.Sprintf(" %s(%s)", next.Edge, states(next))
	}
	return text
}

func (r *rig) chain(id sdk.ID) string {
	r.Helper()
	c, err := r.client.GetChain(r.ctx, id)
	if err != nil {
		r.Fatal(err)
	}
	return c.State + ": " + states(&c.Root)
}

func TestAChainRuns(t *testing.T) {
	for _, n := range []int{1, 3} {
		inRig(t, drivers{}, n, nil, func(r *rig) {
			r.lambda(sdk.LambdaInfo{Name: "mail"})
			var s stepLog
			r.work(r.nodes[0], "mail", s.handler)
			id, err := sdk.Chain(mail("a"), mail("b").After(10*time.Minute).Finally(mail("always")), mail("more"), mail("fail"), mail("never")).
				OnFailure(mail("undo")).Schedule(r.ctx, r.client)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got, want := r.chain(id), "live: success then(scheduled then(planned"; !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s…", got, want)
			}
			time.Sleep(11 * time.Minute)
			const want = "a added<then:success:r-more: always<finally:success:r-b: b<then:success:r-a: fail<then:success:r-more: more<then:success:r-b: undo<else:fatal_failure::no fail"
			if got := s.all(); got != want {
				t.Errorf("%d nodes: ran %s\nwant %s", n, got, want)
			}
			if got, want := r.chain(id), "ended: success then(success then(success then(fatal_failure then(skipped else(skipped)) else(success)) then(success) else(skipped)) else(skipped) finally(success)) else(skipped)"; got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

func TestFollowUpsAreOnTime(t *testing.T) {
	for n, most := range map[int]time.Duration{1: 2 * time.Millisecond, 3: 60 * time.Millisecond} { // of several nodes another may own the partition
		inRig(t, drivers{}, n, func(c *Config) { c.Shared = n > 1 }, func(r *rig) {
			r.lambda(sdk.LambdaInfo{Name: "mail"})
			var s stepLog
			r.work(r.nodes[0], "mail", s.handler)
			time.Sleep(time.Minute)
			all := make([]sdk.Step, 30)
			for i := range all {
				all[i] = mail("a")
			}
			if _, err := sdk.Chain(all...).Schedule(r.ctx, r.client); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if len(s.seen) != len(all) || s.late > most {
				t.Errorf("%d nodes: within 5 s %d of %d steps ran, up to %v late", n, len(s.seen), len(all), s.late)
			}
		})
	}
}
