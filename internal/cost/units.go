package cost

// Units over one task's life, as DynamoDB bills rows up to 1 KB. test/cost measures them with
// ReturnConsumedCapacity; docs/cost.md explains each.
const (
	deliverWrites    = 3 // wake-up row: put, acquire, delete
	managedWrites    = 5 // wake-up row put, task row put, claim, end, wake-up row deleted; the same when it is due at once
	keyedExtraWrites = 1 // of a waiting task: its task row exists from the start, and is replaced when it is enqueued
	longWrites       = 1 // the start of an attempt longer than 200 ms
	retryWrites      = 5 // failure, enqueue, claim, and the move of the wake-up row; 3 for a retry within seconds
	matchedWrites    = 1 // saved by each direct hand-off: its claim

	// lookAheadReads: a wake-up row is read about twice before it is due, consistently, several rows per
	// unit.
	lookAheadReads = 0.5
	keyedReads     = 2 // the task row of a task with a key: before it is put, and when it is due
	retryReads     = 2 // a retry: its wake-up row and its task row
	tombstoneReads = 1 // whether the task was cancelled while in the buffer
)

// Units and requests per second without any task.
const (
	partitionReads  = 1/8. + 1/300.        // a consistent scan every 8 s, a full scan every five minutes
	memberWrites    = 1 / 1.5              // a member's row
	serverReads     = 1/1.5 + 1/1.5 + 1/5. // lambdas, members, registrations
	heartbeatWrites = 1 / 3.75             // a worker's lease of 15 s
	pollRequests    = 1 / 20.              // a long poll
)

// SQS.
const (
	requestsPerHop = 3 // send, receive, delete
	// requestsPerSend is for the inbound queue, where a receive and a delete hold the messages of several
	// sends: five here, ten at best.
	requestsPerSend = 1 + 2/5.
	sqsChunkBytes   = 64 << 10
)

// Rows.
const (
	writeUnitBytes        = 1 << 10
	readUnitBytes         = 4 << 10
	payloadInlineBytesMax = 700
	payloadRowBytes       = 64 // key and attribute names
	taskRowBytes          = 300
	storageOverheadBytes  = 100 // per item, as DynamoDB bills it
)
