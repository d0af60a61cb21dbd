package task

import "crypto/subtle"

const (
	leaseProofUse   = "lease\x00"
	leaseProofBytes = 16
)

// LeaseProof is what whoever was given a lease shows when it gives that up: the worker's id alone, which is
// in logs and in answers about tasks, must not free its tasks. It follows from the id, so that every server
// over a store knows it and none has to keep it.
func (s *Sealer) LeaseProof(worker string) []byte {
	return s.macs.sum(leaseProofUse, []byte(worker), nil)[:leaseProofBytes:leaseProofBytes]
}

// IsLeaseProof reports whether a proof is that of the worker's lease.
func (s *Sealer) IsLeaseProof(worker string, proof []byte) bool {
	return subtle.ConstantTimeCompare(s.LeaseProof(worker), proof) == 1
}
