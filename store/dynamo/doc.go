// Package dynamo is the store on Amazon DynamoDB. It owns the layout of four tables, which Tables describes,
// Setup creates and Check compares; docs/adr/0008 says why they are as they are. It calls only the AWS client
// that it is given, and decides nothing about tasks.
//
// # Rows
//
// A row is the encoding of package store, in one binary attribute, and the few attributes that keys,
// conditions, indexes and TTL need. Instants in keys are microseconds in 16 digits, so that texts sort by
// time:
//
//	schedule   p <lambda>/<priority>/<shard>   k <wake>#<task id>   q seq of the wake-up row
//	           r task, or its id alone
//	tasks      i <task id>   q seq   r task
//	           d <partition>   e <ended>#<task id>   of dead letters: the index dead
//	           x <expire at, seconds>                of an ended task
//	payloads   i <payload id>   r payload   x <expiry, seconds>
//	control    c <kind>   n <name>   q version   r value
//
// # Writes
//
// Every write has a condition. It is a statement of a PartiQL batch of up to 25, or a PutItem or DeleteItem
// when it is alone. The writes of all calls share batches. A write goes at once when no request is in flight,
// and else waits 2 ms for others; a patient one waits 3 ms, a deferred deletion 100 ms, and a patient end 80
// ms while ends are frequent. A batch goes when one of its writes has waited that long, or when it is full.
// At most Config.RequestsMax requests are in flight, half of them less than full (one more after 40 ms). All
// other writes wait here; control rows, heartbeats among them, are first in line. A batch never names a key
// twice, and the writes of one call on one key follow each other. An op that follows another
// (store.Op.Follows) is sent after that one was acknowledged, so the wake-up row is there before the task row
// that needs it. An insertion of a batch that meets a row is sent again as a PutItem, which can replace a
// lower wake-up row and shows the row that it meets.
//
// A lazy DeleteWakeup is deferred: its caller gets the result as soon as the op that it follows holds, and
// the deletion goes with other writes, or after 100 ms. This process no longer sees the row; others do until
// then. Close sends what is left. A deletion that fails, is one more than 8,192, or is lost in a crash leaves
// a row over, which the scheduler finds in a full scan; the log counts those that are known.
//
// A throttled write waits with all others of its table and partition, while the rest goes on. They are sent
// again in rounds, each after a random pause that grows while most of a round is throttled; a round in which
// nothing is throttled is followed by one of twice as many writes. A write that is throttled for 8 s is
// store.ErrThrottled.
//
// The client's own retries are off, since a write that is sent again meets itself. A write that may have been
// applied or not is store.ErrUnknown, which Store reads back. One that got no connection was surely not
// applied and is store.ErrUnreachable, at once, since the caller knows better how long to try; a read tries a
// few times. Any other write that was surely not applied returns an error with DynamoDB's words.
//
// Calls cost, in units for rows up to 1 KB, measured with TestUnits:
//
//	PutWakeup, ReplaceWakeup, DeleteWakeup       1
//	PutTask                                      1
//	ReplaceTask                                  1   2 to or from dead
//	PutPayload, DeletePayload                    1 for every KB
//	PutControl, DeleteControl                    1 for every KB
//	a write whose condition fails                as if it held, without the index
//	a PutWakeup, PutTask or PutControl that
//	meets a row in a batch                       1 more
//	Tasks, Wakeups, Payload, one control row     1 read unit for every 4 KB of each row
//	ScanSchedule                                 1 read unit for every 4 KB in all, at least 1
//
// So a managed task costs 5 (wake-up row 1, dispatch 1, claim 1, end 1, wake-up row 1), with a key 6, one
// less when it is claimed as it is dispatched; a task of a deliver lambda costs 3.
//
// # Reads
//
// Rows are read strongly consistent. The index of dead letters only says where to look: the row itself is
// read. Pages are followed to their end, and keys that a batch leaves unprocessed are asked for again. A row
// that this program cannot read, because a newer version wrote it or it is damaged, is left alone, logged
// once and passed to Observer.Unreadable; beyond 1,024 such rows the log says once a minute how often they
// were met. It never hides others: only a call for that single row fails.
//
// # Expiry
//
// TTL deletes ended task rows, some time after they expire. Wake-up rows have no TTL: they are deleted when
// their task ends. Payload rows have one that does not depend on the end of their task, because updating it
// would cost as much as writing them: see payloadKeep.
package dynamo
