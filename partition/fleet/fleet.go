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
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// Kind is the kind of the control rows.
const Kind = "member"

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

	suffixChars = 8 // 40 random bits
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

// Run renews our row and reads the others until ctx ends. Then it deletes our row, so that the others need
// not wait for its lease to end.
func (m *Membership) Run(ctx context.Context) error {
	for {
		if err := m.step(ctx); err != nil && ctx.Err() == nil {
			m.Log.WarnContext(ctx, "membership not renewed", slog.Any("error", err))
		}
		if m.pause(ctx) != nil {
			m.leave(context.WithoutCancel(ctx))
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}

// step renews our row if that is due, and reads the others.
func (m *Membership) step(ctx context.Context) error {
	if m.renewalDue(clock.Mono(m.Clock)) {
		return m.round(ctx)
	}
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	return m.read(ctx)
}

// round renews our row and reads the others, whether or not the renewal succeeded.
func (m *Membership) round(ctx context.Context) error {
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	began := clock.Read(m.Clock)
	within, stop := m.bound(ctx, writeMax)
	err := m.renew(within)
	stop()
	renewed := clock.Read(m.Clock)
	m.failed = err != nil && !errors.Is(err, errNameTaken)
	if m.failed {
		m.failures++
	} else {
		m.storeAway = m.storeAway || m.isStoreAway(clock.Mono(m.Clock))
		m.answered = m.renewed
	}
	err = errors.Join(err, m.read(ctx))
	if err == nil {
		m.noteCounted(began, renewed)
	}
	return err
}

// bound limits a call to the store.
func (m *Membership) bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if m.failures >= slowAfter {
		limit = callMax
	}
	return clock.Within(ctx, m.Clock, limit)
}

func (m *Membership) isStoreAway(now time.Duration) bool {
	return m.failures > failuresMax && now-m.answered >= awayAfter
}

// read reads the rows of the others and publishes what follows from them.
func (m *Membership) read(ctx context.Context) error {
	defer m.stamp()
	within, stop := m.bound(ctx, readMax)
	rows, err := m.Rows.Controls(within, Kind)
	stop()
	if err != nil {
		m.failures++
		return fmt.Errorf("read the members: %w", err)
	}
	if len(rows) == 0 { // though our own was just written
		return errEmpty
	}
	if m.owned {
		before := len(rows)
		rows = slices.DeleteFunc(rows, func(row store.Control) bool { return row.Name == m.Config.Self })
		m.rowDeleted = m.rowDeleted || len(rows) == before
	}
	m.look(ctx, rows)
	m.publish()
	return m.deleteSilent(ctx)
}

var errEmpty = errors.New("the store returned no member rows; keeping the last known members")

// renew writes our row, and notes if somebody else had deleted it.
func (m *Membership) renew(ctx context.Context) (err error) {
	m.attempted, m.renewed = true, clock.Mono(m.Clock)
	r := m.desired()
	for range casTriesMax {
		next := m.version + 1
		err = m.Rows.PutControl(ctx, m.row(next, r))
		if err == nil {
			m.version, m.owned, m.published = next, true, r
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		have, readErr := m.current(ctx, err)
		switch {
		case errors.Is(readErr, store.ErrNotFound):
			m.rowDeleted, m.version = m.rowDeleted || m.version > 0, 0
		case readErr != nil:
			return fmt.Errorf("read the membership of %s: %w", m.Config.Self, readErr)
		case decode(&have).Run == m.run: // our own write, whose answer was lost
			m.version = have.Version
		default:
			m.owned, m.version = false, 0
			return fmt.Errorf("%w: %s", errNameTaken, m.Config.Self)
		}
	}
	return fmt.Errorf("renew the membership of %s: %w", m.Config.Self, err)
}

// errNameTaken keeps this process without partitions until the other one is silent and its row deleted.
var errNameTaken = errors.New("another process is a member of the same name; give each one of its own")

// current returns our row from the conflict, or reads it.
func (m *Membership) current(ctx context.Context, conflict error) (store.Control, error) {
	if seen, ok := errors.AsType[*store.ConflictError](conflict); ok && seen.Control != nil {
		return *seen.Control, nil
	}
	return m.Rows.Control(ctx, Kind, m.Config.Self)
}

// look judges the rows of the others, and reports clocks that are ahead of ours.
func (m *Membership) look(ctx context.Context, rows []store.Control) {
	now := clock.Mono(m.Clock)
	m.others.storeAway = m.storeAway || m.isStoreAway(now)
	if !m.failed {
		m.failures, m.storeAway = 0, false
	}
	clocksAhead := m.others.look(rows, now, m.Clock.Now(), m.rowDeleted)
	m.rowDeleted = false
	for _, ahead := range clocksAhead {
		if ahead.first {
			m.Log.WarnContext(ctx, "a member's clock is ahead of ours; worker leases depend on both",
				slog.String("member", ahead.name), slog.Duration("ahead_by", ahead.by))
		}
		if m.Hooks.ClockAhead != nil {
			m.Hooks.ClockAhead(ahead.name, ahead.by)
		}
	}
}

// publish updates Peers and Members from the rows.
func (m *Membership) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	peers := m.others.peers(m.Config.Self)
	m.setPeers(peers)
	if m.handover.declared == Leaving {
		return
	}
	var members []string
	for i := range peers {
		if peers[i].counts() {
			members = append(members, peers[i].Process)
		}
	}
	if m.owned {
		members = append(members, m.Config.Self)
	}
	slices.Sort(members)
	if len(members) == 0 || slices.Equal(members, m.members) {
		return
	}
	m.members = members
	close(m.changed)
	m.changed = make(chan struct{})
}

// deleteSilent deletes rows that have been silent for long, unless they change at this moment.
func (m *Membership) deleteSilent(ctx context.Context) error {
	for _, row := range m.others.toDelete(clock.Mono(m.Clock), m.Config.Self) {
		if err := m.Rows.DeleteControl(ctx, row); err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("delete the row of the silent member %s: %w", row.Name, err)
		}
	}
	return nil
}

// leave deletes our row, if it is ours. Should that fail, its lease ends.
func (m *Membership) leave(ctx context.Context) {
	if !m.owned {
		return
	}
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	m.owned = false
	err := m.Rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: m.Config.Self, Version: m.version})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		m.Log.WarnContext(ctx, "member row not deleted; its lease ends by itself", slog.Any("error", err))
	}
}
