package cost

// Units of one task's life, as DynamoDB charges for rows up to 1 KB. test/cost measures them with
// ReturnConsumedCapacity; docs/cost.md says how each comes about.
const (
	deliverWrites    = 3 // waiting row: put, acquire, delete
	scheduledWrites  = 7 // waiting row put 1, task row put 1 + 1 index, waiting row delete 1, claim 1, end 1 + 1 index
	immediateWrites  = 5 // task row put 1 + 1 index, claim 1, end 1 + 1 index
	keyedExtraWrites = 1 // put 1 + 1, enqueue 1 + 2, claim 1, end 1 + 1
	longWrites       = 1 // an attempt of more than 200 ms is noted as started
	retryWrites      = 7 // failure 1 + 2, enqueue 1 + 2, claim 1

	// lookAheadReads: a waiting row is read about twice before it is due, strongly, several to a unit.
	lookAheadReads = 0.5
	wakeupReads    = 2 // the rows of a wake-up that fires: the index and the row, found twice
	tombstoneReads = 1 // has the task been cancelled before it came out of the buffer?
)

// Units and requests per second of what runs without any task.
const (
	partitionReads  = 1.5 / 8              // two scans of an empty range every 8 s: 1 strong, 0.5 of the index
	memberWrites    = 1 / 1.5              // a member's row
	serverReads     = 1/1.5 + 1/1.5 + 1/5. // lambdas, members, registrations
	heartbeatWrites = 1 / 3.75             // a worker's lease of 15 s
	pollRequests    = 1 / 20.              // a long poll
)

// Of SQS.
const (
	requestsPerHop = 3 // send, receive, delete
	// requestsPerSend is of the inbound queue, where a receive and a delete have the messages of several sends: of five here, of ten at best.
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
