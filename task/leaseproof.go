package task

import "context"

const (
	leaseProofUse   = "lease\x00"
	leaseProofBytes = 16
)

// LeaseProof returns the secret that a worker gets with its lease and shows to give the lease up. The
// worker's id does not suffice, because logs and task rows have it. The proof is derived from the id, so that
// every server of an installation can check it and none has to store it. It begins with the number of its
// key, unless that is FirstKey.
func (s *Sealer) LeaseProof(worker string) []byte {
	key := s.ring.seals()
	proof := key.leases.sum(leaseProofUse, []byte(worker), nil)[:leaseProofBytes:leaseProofBytes]
	if key.number > FirstKey {
		proof = append([]byte{key.number}, proof...)
	}
	return proof
}

// IsLeaseProof reports whether proof is a LeaseProof of the worker.
func (s *Sealer) IsLeaseProof(ctx context.Context, worker string, proof []byte) bool {
	number := uint8(FirstKey)
	if len(proof) == 1+leaseProofBytes {
		if number, proof = proof[0], proof[1:]; number <= FirstKey {
			return false
		}
	}
	key, err := s.ring.find(ctx, number)
	return err == nil && !key.idsOnly && len(proof) == leaseProofBytes && key.leases.verify(leaseProofUse, []byte(worker), proof)
}
