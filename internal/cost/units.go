package cost

// Units of one task's life, as DynamoDB charges for rows up to 1 KB. test/cost measures them with
// ReturnConsumedCapacity; docs/cost.md says how each comes about.
const (
	deliverWrites    = 3 // wake-up row: put, acquire, delete
	managedWrites    = 5 // wake-up row put, task row put, claim, end, wake-up row deleted; the same when it is due at once
	keyedExtraWrites = 1 // of a task that waits: its task row is there from the start, and is replaced when it is enqueued
	longWrites       = 1 // an attempt of more than 200 ms is noted as started
	retryWrites      = 5 // failure, enqueue, claim, and the wake-up row goes to another place; 3 for a retry within seconds
	matchedWrites    = 1 // saved by each dispatch that finds a free worker: its claim

	// lookAheadReads: a wake-up row is read about twice before it is due, strongly, several to a unit.
	lookAheadReads = 0.5
	keyedReads     = 2 // the task row of a key: before it is put, and when it is due
	retryReads     = 2 // a retry: its wake-up row and its task row
	tombstoneReads = 1 // has the task been cancelled before it came out of the buffer?
)

// Units and requests per second of what runs without any task.
const (
	partitionReads  = 1/8. + 1/300.        // a strong look every 8 s, a full pass every five minutes
	memberWrites    = 1 / 1.5              // a member's row
	serverReads     = 1/1.5 + 1/1.5 + 1/5. // lambdas, members, registrations
	heartbeatWrites = 1 / 3.75             // a worker's lease of 15 s
	pollRequests    = 1 / 20.              // a long poll
)

// Of SQS.
const (
	requestsPerHop = 3 // send, receive, delete
	// requestsPerSend is of the inbound queue, where a receive and a delete have the messages of several
	// sends: of five here, of ten at best.
	requestsPerSend = 1 + 2/5.
	sqsChunkBytes   = 64 << 10
)

// Of rows.
const (
	writeUnitBytes        = 1 << 10
	readUnitBytes         = 4 << 10
	payloadInlineBytesMax = 700
	payloadRowBytes       = 64 // key and attribute names
	taskRowBytes          = 300
	storageOverheadBytes  = 100 // DynamoDB counts so much for each item
)
