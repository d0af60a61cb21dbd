package api

import (
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// BlobOf returns a blob as a call names it; nil for none. It returns ErrInvalid for one that does not have an
// id of 16 bytes, a digest of 32 bytes and an allowed size.
func BlobOf(w *kinesinv1.Blob) (*task.Blob, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	b := &task.Blob{Bytes: w.Bytes}
	if len(w.Id) != len(b.ID) || len(w.Sha256) != len(b.SHA256) {
		return nil, Errorf(kinesinv1.Reason_REASON_INVALID, "blob with an id of %d bytes and a digest of %d: want %d and %d",
			len(w.Id), len(w.Sha256), len(b.ID), len(b.SHA256))
	}
	copy(b.ID[:], w.Id)
	copy(b.SHA256[:], w.Sha256)
	if err := b.Check(); err != nil {
		return nil, Errorf(kinesinv1.Reason_REASON_INVALID, "%s", err.Error())
	}
	return b, nil
}

// WireBlob returns a blob as it is in calls; nil for none.
func WireBlob(b *task.Blob) *kinesinv1.Blob {
	if b == nil {
		return nil
	}
	return &kinesinv1.Blob{Id: b.ID[:], Bytes: b.Bytes, Sha256: b.SHA256[:]}
}
