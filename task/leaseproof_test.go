package task_test

import (
	"bytes"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

func TestALeaseProofIsOfOneWorkerAndOneStore(t *testing.T) {
	ours := task.NewSealer(bytes.Repeat([]byte{1}, task.TokenKeyBytes))
	theirs := task.NewSealer(bytes.Repeat([]byte{2}, task.TokenKeyBytes))
	proof := ours.LeaseProof("host-7-abc")
	if !ours.IsLeaseProof(t.Context(), "host-7-abc", proof) {
		t.Error("its own proof is refused")
	}
	flipped := bytes.Clone(proof)
	flipped[0] ^= 1
	for name, refused := range map[string]bool{
		"of another worker": ours.IsLeaseProof(t.Context(), "host-7-abd", proof),
		"of another store":  theirs.IsLeaseProof(t.Context(), "host-7-abc", proof),
		"none":              ours.IsLeaseProof(t.Context(), "host-7-abc", nil),
		"a part of it":      ours.IsLeaseProof(t.Context(), "host-7-abc", proof[:len(proof)-1]),
		"more than it":      ours.IsLeaseProof(t.Context(), "host-7-abc", append(bytes.Clone(proof), 0)),
		"another one":       ours.IsLeaseProof(t.Context(), "host-7-abc", flipped),
	} {
		if refused {
			t.Errorf("a proof %s is accepted", name)
		}
	}
}
