package fleet

import "time"

// Timing. The others remove a killed member at most RenewEvery (until they saw its last renewal) + Length +
// RenewEvery (until they look again) after its last renewal: 8 seconds. One call to the store that fails or
// hangs meanwhile adds at most readMax: 10 seconds.
const (
	// RenewEvery is how often a process renews its row and reads the others.
	RenewEvery = 1500 * time.Millisecond
	// Length is how long a row may stay unchanged.
	Length = 5 * time.Second

	// gapMax is the longest time between two reads after which an unchanged row is taken for silent. One read
	// that hung fits in.
	gapMax = 2*RenewEvery + time.Second
	// When more than failuresMax calls in a row failed and no write of ours was answered for awayAfter, the
	// store is away for everybody, and unchanged rows mean nothing.
	awayAfter   = 2 * RenewEvery
	failuresMax = 1
	// writeMax and readMax bound a renewal and a read, so that a call that hangs delays the next one by no
	// more. After slowAfter failures in a row the store may be slow, and only callMax bounds a call.
	writeMax  = RenewEvery
	readMax   = 2 * time.Second
	slowAfter = 3
	// firstReadLength is how long a row that the first read found may stay unchanged. It is shorter than
	// Length because a process mostly starts in place of one that was killed, and finds the row of that one.
	firstReadLength = 2 * RenewEvery
	// deleteAfter is how long a row must have been silent before others delete it.
	deleteAfter = 12 * Length
	// callMax bounds a round of calls to the store.
	callMax = Length
	// casTriesMax bounds how often one round writes the own row because it was changed meanwhile.
	casTriesMax = 3
)
