package task

import "encoding/binary"

// Occurrence says which occurrence of a cron a task is, and what came before it. When the task is dispatched
// its Succeeded becomes that of its Verdict, and nothing changes after that.
type Occurrence struct {
	Cron string  `row:"1"` // its name
	Life Instant `row:"2"` // when the cron was created: one of the same name that was deleted is another
	At   Firing  `row:"3,inline"`

	Before Firing `row:"5,inline"` // the occurrence before it, whatever became of that; zero: it is the first
	// Ran is the newest occurrence before Before that ran; zero: none. Failed and Succeeded do not count it.
	Ran       Firing  `row:"7,inline"`
	Failed    uint32  `row:"9"`  // occurrences in a row that ran and failed, until Ran
	Succeeded Instant `row:"10"` // nominal time of the newest one that succeeded, until Ran; zero: none

	// Backfill says that a job put it, for a nominal time that had passed. It has nothing before it and
	// nothing after it.
	Backfill bool `row:"70"`
}

// Firing names an occurrence of a cron.
type Firing struct {
	Revision uint64
	Nominal  Instant
}

// IsZero reports whether it names none.
func (f Firing) IsZero() bool { return f == Firing{} }

// OccurrenceID returns the id of an occurrence of a cron of a lambda. It is the same whoever puts it, so that
// it is put once.
func OccurrenceID(lambda uint32, cron string, life Instant, f Firing) ID {
	var numbers [28]byte
	binary.BigEndian.PutUint32(numbers[:], lambda)
	binary.BigEndian.PutUint64(numbers[4:], uint64(life))
	binary.BigEndian.PutUint64(numbers[12:], f.Revision)
	binary.BigEndian.PutUint64(numbers[20:], uint64(f.Nominal))
	return IDOf([]byte("cron"), numbers[:], []byte(cron))
}

// BackfillID returns the id of the occurrence with which a backfill makes up for a nominal time. It is the
// same for all revisions and all backfills, so that a repeated one runs nothing twice.
func BackfillID(lambda uint32, cron string, life, nominal Instant) ID {
	var numbers [20]byte
	binary.BigEndian.PutUint32(numbers[:], lambda)
	binary.BigEndian.PutUint64(numbers[4:], uint64(life))
	binary.BigEndian.PutUint64(numbers[12:], uint64(nominal))
	return IDOf([]byte("cron-backfill"), numbers[:], []byte(cron))
}

// Verdict is what becomes of an occurrence that is about to be dispatched. The zero value: it is dispatched.
type Verdict struct {
	Skip  string  // why it is not, and ends instead; empty: it is
	Again Instant // when that is to be decided; zero: it is now
	Err   error   // why nothing could be decided
	// Succeeded is the nominal time of the newest occurrence before it that succeeded; zero: none.
	Succeeded Instant
}
