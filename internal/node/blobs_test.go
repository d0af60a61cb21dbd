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
	"github.com/kinesin-io/kinesin/task"
)

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
