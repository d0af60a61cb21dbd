package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
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
				r.scheduleChain(sdk.Chain(keyed("a").Else(manySteps(string(rune('a' + i)))...)))
				time.Sleep(2 * time.Minute)
			}
			r.scheduleChain(sdk.Chain(keyed("a")))
		},
		"a follow-up whose key is used again": func(r *rig) {
			for i := range 3 {
				r.scheduleChain(sdk.Chain(mail("a"), keyed(strings.Repeat(string(rune('p'+i)), 9000)).Else(manySteps(string(rune('a'+i)))...)))
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

// blobNames is a place for blobs that notes their names and keeps none.
type blobNames struct {
	mu  sync.Mutex // guards put
	put []string
}

func (b *blobNames) Put(_ context.Context, name string, _ []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put = append(b.put, name)
	return nil
}

func (*blobNames) Get(context.Context, string, int64) ([]byte, error) {
	return nil, errors.New("none is kept")
}

// The blobs of what follows tasks are found as long as it may follow: in the row of a task that waits, that
// has ended, of a follow-up, of a member and of what follows a group, also where it is stored apart.
func TestBlobsOfWhatFollowsAreFound(t *testing.T) {
	place := &blobNames{}
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		client := r.dialBy(wall{clock.Real()}, r.nodes[0].transport, sdk.WithBlobs(place, 1000))
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		large := func(letter string) sdk.Step { return mail(strings.Repeat(letter, 2000)) }
		apart := mail("z").Then(large("c"))
		for range 100 {
			apart = apart.Then(mail(strings.Repeat("y", 900)))
		}
		_, err := sdk.Chain(mail("a"), mail("b").After(100*24*time.Hour), large("x")).OnFailure(large("u")).Schedule(r.ctx, client)
		_, err2 := sdk.Chain(apart.After(time.Hour)).Schedule(r.ctx, client)
		plan := sdk.Group(sdk.Item{Lambda: "mail", Payload: []byte("m"), In: 48 * time.Hour, Then: []sdk.Item{{Lambda: "mail", Payload: []byte(strings.Repeat("m", 2000))}}})
		plan.Then(sdk.Item{Lambda: "mail", Payload: []byte("g"), Else: []sdk.Item{{Lambda: "mail", Payload: []byte(strings.Repeat("g", 2000))}}})
		_, err3 := plan.Schedule(r.ctx, client)
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(err, err2, err3)
		}
		time.Sleep(time.Minute) // the first step has ended
		var all, found []string
		for _, name := range place.put {
			_, id, is := task.ParseBlobName(name)
			if !is || !task.OfFollowUp(id) {
				t.Errorf("blob %s", name)
			}
			all = append(all, string(id[:]))
		}
		n := r.nodes[0].node
		if err := (chainBlobs{n}).FollowUpBlobs(r.ctx, func(id [16]byte) { found = append(found, string(id[:])) }); err != nil {
			t.Fatal(err)
		}
		of, err := groupBlobs{n.store}.FollowUpBlobs(r.ctx)
		if err != nil || len(of) != 1 {
			t.Errorf("groups name %d blobs, %v", len(of), err)
		}
		for id := range of {
			found = append(found, string(id[:]))
		}
		slices.Sort(all)
		slices.Sort(found)
		if found = slices.Compact(found); len(all) != 7 || !slices.Equal(all, found) {
			t.Errorf("%d blobs, of which %d are found", len(all), len(found))
		}
	})
}
