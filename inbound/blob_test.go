package inbound_test

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

func blob(id, digest byte) *kinesinv1.Blob {
	return &kinesinv1.Blob{Id: bytes.Repeat([]byte{id}, 16), Bytes: 50 << 20, Sha256: bytes.Repeat([]byte{digest}, 32)}
}

func keyedBlob(b *kinesinv1.Blob) *kinesinv1.ScheduleItem {
	return with(in(time.Hour), func(i *item) { i.Key, i.Payload, i.Blob = "k", nil, b })
}

// shown returns the blob of a task as a reader sees it.
func (f *fixture) shown(id string) *kinesinv1.Blob {
	f.t.Helper()
	response, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: []string{id}, WithPayload: true})
	if err != nil {
		f.t.Fatal(err)
	}
	t := response.Results[0].Task
	if t.GetBlob() != nil && (len(t.Payload) != 0 || t.PayloadBytes != t.Blob.Bytes) {
		f.t.Errorf("a blob of %d bytes and %d bytes of a payload; payload_bytes %d", t.Blob.Bytes, len(t.Payload), t.PayloadBytes)
	}
	return t.GetBlob()
}

// A task with a blob has a row from the start, near or far: whoever deletes blobs looks there.
func TestATaskWithABlobHasARow(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second, time.Hour} {
		run(t, func(f *fixture) {
			id := f.accept(with(keyedBlob(blob(1, 2)), func(i *item) { i.Delay = delay.Microseconds() }))
			row := f.row(id)
			if row.ID.IsZero() || row.Blob == nil || row.Blob.ID != [16]byte(blob(1, 2).Id) || row.PayloadSize != 0 {
				t.Errorf("in %v: %+v", delay, row)
			}
			if got := f.shown(id); !proto.Equal(got, blob(1, 2)) {
				t.Errorf("in %v: got %v", delay, got)
			}
			if got := f.get(id).Task.Blob; got != nil && len(got.Id) == 0 {
				t.Errorf("in %v: %v", delay, got)
			}
		})
	}
}

// The same key is the same task if the contents are, whatever the name of the blob. The digest of a blob as a
// payload is not that blob.
func TestTheDigestOfABlobDecides(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(keyedBlob(blob(1, 2)))
		if r := f.schedule(keyedBlob(blob(9, 2)))[0]; !r.Duplicate || r.Id != id || !proto.Equal(f.shown(id), blob(1, 2)) {
			t.Errorf("the same contents: %v", r)
		}
		wantRefusal(t, "other contents", f.schedule(keyedBlob(blob(1, 3)))[0].Problem, isConflict)
		for _, payload := range [][]byte{blob(1, 2).Sha256, append([]byte{255}, blob(1, 2).Sha256...), nil} {
			r := f.schedule(with(keyedBlob(nil), func(i *item) { i.Payload = payload }))[0]
			wantRefusal(t, "bytes that look like it", r.Problem, isConflict)
		}
	})
}

func TestBlobsThatAreRefused(t *testing.T) {
	run(t, func(f *fixture) {
		for what, change := range map[string]func(i *item){
			"needs a key":                         func(i *item) { i.Key = "" },
			"a payload or a blob, not both":       func(i *item) { i.Payload = []byte("x") },
			"an id of 0 bytes":                    func(i *item) { i.Blob.Id = nil },
			"a digest of 31: want 16 and 32":      func(i *item) { i.Blob.Sha256 = i.Blob.Sha256[1:] },
			"0 bytes: want 1 to 104857600":        func(i *item) { i.Blob.Bytes = 0 },
			"104857601 bytes: want 1 to 10485760": func(i *item) { i.Blob.Bytes = task.BlobBytesMax + 1 },
			"its id is zero":                      func(i *item) { i.Blob.Id = make([]byte, 16) },
		} {
			r := f.schedule(with(keyedBlob(blob(1, 2)), change))[0]
			wantRefusal(t, what, r.Problem, kinesinv1.Reason_REASON_INVALID, what)
		}
		id := f.accept(keyedBlob(blob(1, 2)))
		for what, b := range map[string]*kinesinv1.TaskUpdate{
			"a payload or a blob, not both": {Id: id, Payload: []byte("x"), Blob: blob(3, 4)},
			"want 1 to 104857600":           {Id: id, Blob: &kinesinv1.Blob{Id: blob(3, 4).Id, Sha256: blob(3, 4).Sha256}},
		} {
			wantRefusal(t, what, f.update(b).Problem, kinesinv1.Reason_REASON_INVALID, what)
		}
		if !proto.Equal(f.shown(id), blob(1, 2)) {
			t.Error("a refused update changed the blob")
		}
	})
}
