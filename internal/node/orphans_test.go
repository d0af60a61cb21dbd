package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// payloadRows notes which payload rows were put.
type payloadRows struct {
	store.Driver

	mu  sync.Mutex // guards put
	put map[task.ID]bool
}

func (p *payloadRows) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	p.mu.Lock()
	for i := range ops {
		if ops[i].Kind == store.PutPayload {
			p.put[ops[i].Task.ID] = true
		}
	}
	p.mu.Unlock()
	return p.Driver.Apply(ctx, ops)
}

// left returns how many of the payload rows are there, and how many were put.
func (p *payloadRows) left(ctx context.Context) (there, put int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.put {
		if _, err := p.Payload(ctx, id); !errors.Is(err, store.ErrNotFound) {
			there++
		}
	}
	return there, len(p.put)
}

// manySteps are follow-ups that do not fit the row of the task before them.
func manySteps(payload string) (all []sdk.Step) {
	for range 20 {
		all = append(all, mail(strings.Repeat(payload, 600)))
	}
	return all
}

// No payload row of a chain is left when the retention of its tasks is over, on a store whose payloads do not
// expire by themselves: also where a key was used again or a chain was extended.
func TestNoPayloadRowIsLeft(t *testing.T) {
	for name, run := range map[string]func(r *rig){
		"follow-ups apart, with payloads apart": func(r *rig) {
			r.scheduleChain(sdk.Chain(mail("a").Then(manySteps("b")...).Then(mail(strings.Repeat("c", 9000)).Else(manySteps("d")...))))
		},
		"a key that is used again": func(r *rig) {
			for i := range 3 {
				r.scheduleChain(sdk.Chain(keyed("a", "k").Else(manySteps(string(rune('a' + i)))...)))
				time.Sleep(2 * time.Minute)
			}
			r.scheduleChain(sdk.Chain(keyed("a", "k")))
		},
		"a follow-up whose key is used again": func(r *rig) {
			for i := range 3 {
				r.scheduleChain(sdk.Chain(mail("a"), keyed(strings.Repeat(string(rune('p'+i)), 9000), "k").Else(manySteps(string(rune('a'+i)))...)))
				time.Sleep(2 * time.Minute)
			}
		},
		"a handler adds to what follows": func(r *rig) {
			r.scheduleChain(sdk.Chain(mail("more").Then(manySteps("b")...)))
		},
		"a handler adds, and its task is redriven": func(r *rig) {
			id := r.scheduleChain(sdk.Chain(mail("more").Then(manySteps("b")...)))
			for range 2 {
				time.Sleep(30 * time.Second)
				if _, err := r.client.Redrive(r.ctx, []sdk.ID{id}, sdk.Force()); err != nil {
					r.Fatal(err)
				}
			}
		},
		"a chain whose start before is extended": func(r *rig) {
			item, err := sdk.Chain(mail("a").Then(manySteps("b")...)).Item(sdk.In(time.Minute))
			if err != nil {
				r.Fatal(err)
			}
			made, err := r.client.Schedule(r.ctx, item)
			if err != nil {
				r.Fatal(err)
			}
			if _, err := r.admin().Chains.Extend(r.ctx, made.ID, time.Now().Add(10*time.Hour)); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := &payloadRows{put: map[task.ID]bool{}}
			over := func(d store.Driver) store.Driver {
				rows.Driver = d
				return rows
			}
			inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", KeyRetention: time.Minute})
				var s stepLog
				r.work(r.nodes[0], "mail", s.handler)
				run(r)
				time.Sleep(3 * time.Minute)
				if _, err := rows.Sweep(r.ctx, task.InstantOf(time.Now().Add(1000*24*time.Hour)), 1000); err != nil {
					t.Fatal(err)
				}
				if there, put := rows.left(r.ctx); there != 0 || put == 0 {
					t.Errorf("%d of %d payload rows are left", there, put)
				}
			})
		})
	}
}

func (r *rig) scheduleChain(steps sdk.Steps) sdk.ID {
	r.Helper()
	id, err := steps.Schedule(r.ctx, r.client)
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// damagedPayloads is a store whose payload rows are damaged.
type damagedPayloads struct{ store.Driver }

func (damagedPayloads) Payload(context.Context, task.ID) ([]byte, error) {
	return nil, store.ErrCorrupt
}

// A task whose handler adds to follow-ups that cannot be read any more ends, and says why: each further try
// would fail in the same way.
func TestAHandlerThatAddsToDamagedFollowUpsFails(t *testing.T) {
	over := func(d store.Driver) store.Driver { return damagedPayloads{d} }
	inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id := r.scheduleChain(sdk.Chain(mail("more").Then(manySteps("b")...)))
		time.Sleep(time.Minute)
		info, err := r.client.Get(r.ctx, id)
		if err != nil || info.State != sdk.StateFatalFailure || len(info.Attempts) != 1 || !strings.Contains(info.Attempts[0].Error, "damaged") {
			t.Errorf("%v: %s, %+v", err, info.State, info.Attempts)
		}
	})
}
