package store

import "google.golang.org/protobuf/encoding/protowire"

// The fields after the header.
const (
	fieldID protowire.Number = iota + 1
	fieldDue
	fieldCreated
	fieldCollection
	fieldKey
	fieldDigest
	fieldPayload
	fieldPayloadSize
	fieldMaxAttempts
	fieldTimeout
	fieldBackoffMin
	fieldBackoffMax
	fieldAttempt
	fieldFailures
	fieldLost
	fieldBlamed
	fieldEnqueues
	fieldFlags
	fieldWorker
	fieldEnqueued
	fieldClaimedAt
	fieldStarted
	fieldFirstStarted
	fieldEnded    // only outside an end
	fieldExpireAt // only outside an end
	fieldHistory
	fieldTraceparent
	fieldTag
	fieldLife
	fieldStartBefore
	fieldResult
	fieldFirstDue
	fieldPayloadRev
	fieldBlob
	fieldRequest
	fieldRedriveRequest
	fieldLimitKey
	fieldOccurrence

	fieldFirstPartition protowire.Number = 45

	fieldMember   protowire.Number = 60
	fieldGroupEnd protowire.Number = 61
)

// fieldChain is the place of a task in a chain.
const fieldChain protowire.Number = 50

// The fields of a chain.
const (
	chainRoot protowire.Number = iota + 1
	chainParent
	chainOnEdge
	chainIndex
	chainDepth
	chainRound
	chainPaused
	chainPausedDue
	chainFollow
	chainFollowID
	chainFollowBytes
	chainFollowCount
	chainOutcome
	chainFromParent
	chainAddedThen
	chainAddedElse
	chainAddedFinally

	chainHeld        protowire.Number = 210
	chainStartBefore protowire.Number = 211
	chainFollowSum   protowire.Number = 310
	chainEarlier     protowire.Number = 320
)

// The fields of an end from which a task was redriven.
const (
	earlierRound protowire.Number = iota + 1
	earlierEnded
	earlierSucceeded
	earlierPaused
	earlierAdded
)

// The fields of a link.
const (
	linkID protowire.Number = iota + 1
	linkPartition
	linkDue
	linkLife
)

// The fields of a follow-up whose key another task held.
const (
	heldEdge protowire.Number = iota + 1
	heldIndex
	heldHolder
)

// The fields of a tag.
const (
	tagName protowire.Number = iota + 1
	tagValue
)

// The fields of a blob.
const (
	blobID protowire.Number = iota + 1
	blobBytes
	blobSHA256
)

// The fields of an occurrence.
const (
	occurrenceCron protowire.Number = iota + 1
	occurrenceLife
	occurrenceRevision
	occurrenceNominal
	occurrenceBeforeRevision
	occurrenceBefore
	occurrenceRanRevision
	occurrenceRan
	occurrenceFailed
	occurrenceSucceeded

	occurrenceBackfill protowire.Number = 70
)

// The fields of a member of a group.
const (
	memberGroup protowire.Number = iota + 1
	memberIndex
	memberUntil
	memberTry
)

// The fields of the end of a group. Each count is the state and the number.
const (
	groupEndGroup protowire.Number = iota + 1
	groupEndMembers
	groupEndCount
	groupEndExpired
	groupEndCancelled
)

// The fields of an entry of the history.
const (
	attemptNumber protowire.Number = iota + 1
	attemptWorker
	attemptStart
	attemptEnd
	attemptOutcome
	attemptError
)

const (
	flagSuspect = 1 << iota
	flagCancelRequested
	flagForgotten
)
