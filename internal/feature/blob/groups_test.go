package blob_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// someGroups have members whose place is their second try, and name one blob in what follows.
type someGroups struct{ planned [16]byte }

func (someGroups) MemberID(_ context.Context, group task.ID, index uint32) (task.ID, error) {
	return task.MemberID(group, index, 1), nil
}

func (g someGroups) FollowUpBlobs(context.Context) (map[[16]byte]bool, error) {
	return map[[16]byte]bool{g.planned: true}, nil
}

// Blobs of members, and of tasks that are to follow after a group that may live for a year, are kept.
func TestBlobsOfGroupsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		group, planned, of, other := task.NewID(1, 2, 3), [16]byte{1}, [16]byte{2}, [16]byte{3}
		w.sweeper.Groups = someGroups{planned}
		member := task.BlobOwner{Lambda: "mail", Key: task.MemberKey(group, 7)}
		id := task.MemberID(group, 7, 1)
		w.rows[id] = task.Task{ID: id, State: task.Scheduled, Blob: &task.Blob{ID: of, Bytes: 1}}
		follow := task.BlobOwner{Lambda: "mail", Key: "blob-1"}
		for _, name := range []string{task.BlobName(member, of), task.BlobName(member, other), task.BlobName(follow, planned), task.BlobName(follow, other)} {
			_ = w.Put(t.Context(), name, nil)
		}
		time.Sleep(48 * time.Hour)
		w.sweep()
		for name, kept := range map[string]bool{
			task.BlobName(member, of): true, task.BlobName(member, other): false, task.BlobName(follow, planned): true, task.BlobName(follow, other): false,
		} {
			if _, is := w.put[name]; is != kept {
				t.Errorf("%s: kept %v, want %v", name, is, kept)
			}
		}
	})
}

// someChains name blobs in what follows the tasks of some rows.
type someChains struct {
	names []byte // the last byte of each
	looks int
}

func (c *someChains) FollowUpBlobs(_ context.Context, each func([16]byte)) error {
	c.looks++
	for _, n := range c.names {
		each(ofFollowUp(n))
	}
	return nil
}

func ofFollowUp(n byte) [16]byte {
	id := [16]byte{15: n}
	task.MarkFollowUp(&id)
	return id
}

// A blob of a follow-up is kept as long as something names it, before that has a row and after, and goes
// after two looks, a day apart, that found nothing.
func TestBlobsOfFollowUpsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		chains := &someChains{names: []byte{1, 2}}
		w.sweeper.Chains = chains
		names := map[byte]string{}
		for n := byte(1); n <= 4; n++ {
			owner := task.BlobOwner{Lambda: "mail", Key: "blob-" + string('0'+rune(n))}
			names[n] = task.BlobName(owner, ofFollowUp(n))
			_ = w.Put(t.Context(), names[n], nil)
		}
		created := func(n byte) {
			id := keyed(5, "blob-"+string('0'+rune(n)))
			w.rows[id] = task.Task{ID: id, State: task.Scheduled, Blob: &task.Blob{ID: ofFollowUp(n), Bytes: 1}}
		}
		created(3)
		check := func(when, want string) {
			t.Helper()
			have := ""
			for n := byte(1); n <= 4; n++ {
				if _, is := w.put[names[n]]; is {
					have += string('0' + rune(n))
				}
			}
			if have != want {
				t.Errorf("%s: %q are there, want %q", when, have, want)
			}
		}
		hours := func(n int) {
			for range n {
				time.Sleep(time.Hour)
				w.sweep()
			}
		}
		hours(26)
		check("after one look", "1234")
		hours(24)
		check("after two", "123")
		if chains.looks > 3 {
			t.Errorf("%d looks in 50 hours", chains.looks)
		}
		chains.names = []byte{1}
		created(2)
		hours(72)
		check("when one of them was created", "123")
		chains.names = nil
		hours(24)
		chains.names = []byte{1}
		hours(24)
		check("when one was missed once", "123")
		chains.names = nil
		hours(72)
		check("when nothing names it", "23")
	})
}

// Without all that knows what follows tasks, blobs of follow-ups are kept.
func TestBlobsOfFollowUpsAreKeptWhereNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		name := task.BlobName(task.BlobOwner{Lambda: "mail", Key: "blob-1"}, ofFollowUp(1))
		_ = w.Put(t.Context(), name, nil)
		for range 100 {
			time.Sleep(time.Hour)
			w.sweep()
		}
		if _, is := w.put[name]; !is {
			t.Error("the blob was deleted")
		}
	})
}
