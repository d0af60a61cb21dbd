package intake

import "testing"

// A row that is stored as enqueued has the seq after the one of its call, and a task that uses a key again
// has that for its life.
func TestNoCallHasTheSeqAfterThatOfAnother(t *testing.T) {
	in := &Intake{}
	first := (&Batch{Intake: in, Now: 1000}).SeqOfKeyed()
	in.passKeyed(first + 1)
	second := (&Batch{Intake: in, Now: 1001}).SeqOfKeyed()
	if third := (&Batch{Intake: in, Now: 1002}).SeqOfKeyed(); first != 1000 || second <= first+1 || third <= second+1 {
		t.Errorf("seqs %d, %d, %d: want none that is the next of another", first, second, third)
	}
}
