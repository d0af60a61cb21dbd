package blobsweep_test

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
