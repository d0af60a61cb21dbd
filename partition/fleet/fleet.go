// Package fleet is membership by lease rows: each process keeps one control row of kind "member" and renews
// it; a process that stops renewing is no longer a member. It is a partition.Membership for several processes
// over one store.
//
// Wall clocks are never compared. A process measures by its own monotonic clock how long another row has not
// changed, and only while it reads the store often enough to see a change: after an outage of the store, or a
// pause of this process, every row gets a whole lease again. A wrong result costs refused writes and never
// starts a task twice, since membership only decides who tries.
//
// A row also holds the state of its process (joining, ready or leaving), a hash of the members it acts on,
// and which leaving processes it has taken over from. So planned changes leave no gap: a joining process
// counts for the others once it is warm, and a leaving one goes on until the others are (Declare, InForce,
// Taken). A process that joins while nobody is ready is a founder and counts at once. While a process joins
// or leaves, rows are read more often.
//
// The package owns the rows of its kind. It reads no tasks and decides nothing about partitions.
package fleet

import (
	"encoding/base32"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Config configures a Membership. Rows, Self, Clock and Log are required.
type Config struct {
	Rows store.ControlRows
	Self string // name of this process, unique among all; see NewName
	Host string // the host or pod of this process; need not be unique
	// Group names the fleet, where something besides the rows tells who is ready; the same in all its
	// processes.
	Group   string
	Version string // of the program; others show it
	Clock   clock.Clock
	Log     *slog.Logger
	Hooks   Hooks
}

// Hooks are called when something happens. A nil hook is not called.
type Hooks struct {
	// ClockAhead reports that a member's clock is ahead of ours by at least this much. Worker leases are
	// judged by the clocks of several processes, so it has to stay far below a quarter of the shortest lease.
	ClockAhead func(member string, by time.Duration)
}

const suffixChars = 8 // 40 random bits

// NewName returns a name for a process: something readable, such as the host's name, and random characters,
// so that a process that restarts is another member.
func NewName(readable string, random uint64) string {
	var bits [8]byte
	binary.BigEndian.PutUint64(bits[:], random)
	return readable + "-" + strings.ToLower(base32.HexEncoding.EncodeToString(bits[:])[:suffixChars])
}

// Membership implements partition.Membership: the members are this process, and those that renew their rows
// and are ready or founders. Members is empty until Run has read the rows. All methods are safe for
// concurrent use; only Run and Taken block.
type Membership struct {
	Config

	run  string        // identifies this process, should another have its name
	kick chan struct{} // wakes Run

	// The fields up to mu are used by Run alone.
	version    uint64        // of our row as last written; 0: it does not exist
	beat       uint64        // number of renewals
	owned      bool          // the row under our name is ours
	rowDeleted bool          // somebody deleted our row
	published  record        // what our row holds
	attempted  bool          // a renewal was attempted
	renewed    time.Duration // time of the last attempt
	failed     bool          // the last attempt got no answer
	answered   time.Duration // time when the store last took a write of ours or refused it for a reason of its own
	failures   int           // calls in a row without an answer
	storeAway  bool          // the store was away since the last look at the others
	others     others

	mu       sync.Mutex // guards what follows
	members  []string
	changed  chan struct{}
	peers    []Peer
	heard    chan struct{}
	stepped  time.Duration // when the rows were last looked at
	handover handover
	counted  counted
}

// handover is the state of this process; Membership.mu guards it.
type handover struct {
	declared       State
	since          time.Duration // of declared
	founder        bool          // it joined when nobody was ready
	settled        bool          // another source tells the others that it is ready
	overtakenSince time.Duration // since when most others are ready and it is not; 0: they are not
	inForce        []string      // sorted; nil: none yet
	view           uint64        // of inForce
	inForceSince   time.Duration
	fastUntil      time.Duration // until when rows are read more often in any case
}

// counted is since when the others have counted this process without a break; Membership.mu guards it. How
// long ago a round was is told by all clocks: the monotonic one alone stands still while the machine is
// suspended, and the others take us for gone meanwhile.
type counted struct {
	since task.Instant   // by the monotonic clock; zero: they do not
	last  clock.Readings // when the latest round began in which our row was renewed and the others were read
}

// New returns a Membership without members, of a process that is Ready.
func New(c Config) *Membership {
	var run [8]byte
	binary.BigEndian.PutUint64(run[:], c.Clock.Uint64())
	now := clock.Mono(c.Clock)
	return &Membership{
		Config: c, run: base32.HexEncoding.EncodeToString(run[:]), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), heard: make(chan struct{}), stepped: now, answered: now, handover: handover{fastUntil: now},
	}
}

// Self returns the name of this process.
func (m *Membership) Self() string { return m.Config.Self }

// Members returns this process and all others that renew their rows and are ready or founders. It no longer
// changes once this process is Leaving, so that the process goes on with the partitions it had.
func (m *Membership) Members() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.members)
}

// Changed returns a channel that is closed at the next change of Members.
func (m *Membership) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// wake makes pause compute again how long to wait.
func (m *Membership) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

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
