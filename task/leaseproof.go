package task

import "crypto/subtle"

const (
	leaseProofUse   = "lease\x00"
	leaseProofBytes = 16
)

// LeaseProof returns the secret that a worker gets with its lease and shows to give the lease up. The
// worker's id does not suffice, because logs and task rows have it. The proof is derived from the id, so that
// every server of an installation can check it and none has to store it.
func (s *Sealer) LeaseProof(worker string) []byte {
	return s.macs.sum(leaseProofUse, []byte(worker), nil)[:leaseProofBytes:leaseProofBytes]
}

// IsLeaseProof reports whether proof is the LeaseProof of the worker.
func (s *Sealer) IsLeaseProof(worker string, proof []byte) bool {
	return subtle.ConstantTimeCompare(s.LeaseProof(worker), proof) == 1
}
