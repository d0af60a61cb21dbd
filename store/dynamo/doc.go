// Package dynamo is the store on Amazon DynamoDB. It owns the layout of four tables, which Tables describes,
// Setup creates and Check compares; docs/adr/0008 says why they are as they are. It calls nothing but the AWS
// client that it is given, and decides nothing about tasks.
//
// # Rows
//
// A row is what package store encodes, in one binary attribute, and the few attributes that keys, conditions,
// indexes and TTL need. Instants in keys are microseconds in 16 digits, so that texts sort by time:
//
//	schedule   p <lambda>/<priority>/<shard>   k <wake>#<task id>   q seq of the wake-up row
//	           r task, or its id alone
//	tasks      i <task id>   q seq   r task
//	           d <partition>   e <ended>#<task id>   of dead letters: the index dead
//	           x <expire at, seconds>                in an end
//	payloads   i <payload id>   r payload   x <expiry, seconds>
//	control    c <kind>   n <name>   q version   r value
//
// # Writes
//
// Every write has a condition and is one of a PartiQL batch of up to 25, or a PutItem or DeleteItem when it
// is alone. Calls that are made at once share batches: a write goes at once when nothing is under way, and
// else waits 2 ms for others, a patient one 3 ms, a deferred deletion 100 ms, and a patient end 80 ms while
// ends come no further apart than that. What is ready goes with the first whose time is over, or as soon as
// 25 are. While Config.SharedMax requests are under way only full ones follow, and while Config.RequestsMax
// are, none: the writes wait here, where control rows, the heartbeats among them, are first in line. A batch
// never names a key twice, and the writes of one call on one key follow each other. An op that follows
// another (store.Op.Follows) is sent after that one was acknowledged; so the wake-up row is there before the
// task row that needs it. A statement of a batch can insert a row but not replace a lower one: PutWakeup that
// meets a row goes again by itself.
//
// A lazy DeleteWakeup is deferred: its caller has the answer as soon as what it follows holds. The deletion
// fills up the batches of others, or goes with its like after 100 ms; this process no longer sees the row,
// others do until then. Close sends what is left. One that fails, is beyond 8,192 under way or is lost in a
// crash leaves a row that the scheduler finds in a pass; the log counts those it knows of.
//
// What was put off for want of capacity is held back, with what else is written to the same partition of that
// table, while the writes of others go on. It is tried again in rounds: after a random wait, which grows
// while nothing comes through, twice as many as came through in the last round, and one. After 8 s the caller
// hears of it.
//
// The client's own retries are switched off, since a write that is sent again meets itself. What may or may
// not have been written is store.ErrUnknown, which Store reads back. What no connection led to was surely not
// written and is store.ErrUnreachable, at once, since whoever asked knows better how long to try; a read
// looks for one a few times. What else was surely not written is an error of its own, with DynamoDB's words.
//
// What calls cost, in units for rows up to 1 KB, measured with TestUnits:
//
//	PutWakeup, ReplaceWakeup, DeleteWakeup       1   PutWakeup in a batch 2 when it replaces a row
//	PutTask                                      1
//	ReplaceTask                                  1   2 to or from dead
//	PutPayload, DeletePayload                    1 for every KB
//	PutControl, DeleteControl                    1 for every KB
//	a write whose condition fails                what it would have cost, without the index
//	Tasks, Wakeups, Payload, one control row     1 read unit for every 4 KB of each row
//	ScanSchedule                                 1 read unit for every 4 KB in all, at least 1
//
// So a managed task costs 5 (wake-up row 1, dispatch 1, claim 1, end 1, wake-up row 1), with a key 6, one
// less when it is claimed as it is dispatched; one of a deliver lambda 3.
//
// # Reads
//
// Rows are read strongly consistent; the index of dead letters only says where to look, and what it names is
// checked against the row. Pages are followed to their end, and keys that a batch leaves over are asked for
// again. A row that this program cannot read, of a newer version or damaged, is left alone, logged once and
// told to Observer.Unreadable; of more than 1,024 the log says once a minute how often they were met. It
// never stands before others: only a call for that single row fails.
//
// # Expiry
//
// DynamoDB's TTL deletes ended task rows, some time after they expire. Wake-up rows have none: they are
// deleted when their task ends. TTL deletes payload rows too, which know nothing of their task's end, because
// telling them would cost as much as writing them: see payloadKeep.
package dynamo
