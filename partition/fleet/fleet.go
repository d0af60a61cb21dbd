// Package fleet is membership by lease rows: each process keeps one control row of
// kind "member" and renews it; whoever stops renewing is out. It is a partition.Membership for
// several processes over one store.
//
// Nobody's wall clock is compared with another's. A process judges the others by its own
// monotonic time since it last saw their rows change, and only while it reads the store often enough
// to have seen a change: after an outage of the store, or a pause of this process, everyone gets
// a whole lease again. A wrong verdict costs refused writes, never a second start: membership only
// decides who tries.
//
// A row also says what its process is about: joining, ready or leaving, which members it fires by, and whose
// share it has taken over. So planned changes leave nothing undone: who comes counts for the others when it
// is warm, who leaves goes on until they are (Declare, InForce, Taken). Those who come when nobody is ready
// are founders, who count at once: they share from the start. While somebody comes or leaves, rows are read
// more often.
//
// The package owns the rows of its kind. It never reads tasks, and it decides nothing about partitions.
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

// Timing. A member that is killed is out at the others at most RenewEvery (until they saw its last change) +
// Length + RenewEvery (until they look again) after its last renewal: 8 seconds. One call to the store that
// fails or hangs in that time adds at most readMax: 10 seconds.
const (
	// RenewEvery is how often a process renews its row and reads those of the others.
	RenewEvery = 1500 * time.Millisecond
	// Length is how long a row may stay unchanged.
	Length = 5 * time.Second

	// gapMax is the longest time between two reads of the rows after which silence still means something. One
	// that hung fits in.
	gapMax = 2*RenewEvery + time.Second
	// muteAfter is how long, and lossesMax how many calls in a row, may have got lost by chance when our own
	// row could not be written. Past both the store is away, for all: silence means nothing.
	muteAfter = 2 * RenewEvery
	lossesMax = 1
	// writeMax and readMax bound a renewal and a read of the rows, so that one that hangs holds up the next
	// by no more. When hasteMax in a row got lost the store may be slow: then callMax is all that bounds
	// them.
	writeMax = RenewEvery
	readMax  = 2 * time.Second
	hasteMax = 3
	// strangerFor is how long a row that was there at the first read may stay unchanged. It is shorter than
	// Length because a process that starts most often follows one that was killed, whose row it finds.
	strangerFor = 2 * RenewEvery
	// buriedAfter is how long a row must have been silent to be deleted by others.
	buriedAfter = 12 * Length
	// callMax bounds a round of calls to the store, so that one that hangs does not stop the next.
	callMax = Length
	// casTriesMax bounds how often the own row is written in one round because it was changed meanwhile.
	casTriesMax = 3

	suffixChars = 8 // 40 random bits
)

// Rows is what a membership needs of a store.
type Rows interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	Controls(ctx context.Context, kind string) ([]store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
	DeleteControl(ctx context.Context, c store.Control) error
}

// Config is what a Membership is made of. Rows, Self, Clock and Log are required.
type Config struct {
	Rows  Rows
	Self  string // name of this process, unique among all; see NewName
	Host  string // what it runs on, for people and for memberships that know pods; need not be unique
	Group string // which processes are one fleet, where something besides the rows tells who is ready; the same in all of them
	Clock clock.Clock
	Log   *slog.Logger
	Hooks Hooks
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	// Members: so many are members now; called at each change.
	Members func(count int)
	// ClockAhead: a member's clock is ahead of ours by at least this much. Worker leases are judged by the
	// clocks of several processes, so it has to stay far below a quarter of the shortest lease.
	ClockAhead func(member string, by time.Duration)
}

// NewName makes a name for a process out of something readable, such as the host's name, and random
// characters: a process that starts again is another member.
func NewName(readable string, random uint64) string {
	var bits [8]byte
	binary.BigEndian.PutUint64(bits[:], random)
	return readable + "-" + strings.ToLower(base32.HexEncoding.EncodeToString(bits[:])[:suffixChars])
}

// Membership implements partition.Membership: the members are the processes whose rows are renewed and say
// that they are ready or founders, and this one. Members is empty until Run has read the rows. All methods
// are safe for concurrent use; besides Run and Taken none blocks.
type Membership struct {
	Config

	run  string        // tells this process from another one of its name
	kick chan struct{} // wakes Run

	// Of the rounds alone, which come one after the other.
	version uint64        // of our row as it was last written; 0: to be made
	beat    uint64        // renewals so far
	ours    bool          // the row of our name is ours
	robbed  bool          // it was gone at the last look
	written record        // what our row says
	begun   bool          // that was tried at all
	renewed time.Duration // when it was last
	failed  bool          // and the store did not take it
	wrote   time.Duration // when the store last took a write of ours, or refused it for a reason of its own
	lost    int           // calls in a row that got no answer
	mute    bool          // the store was away since the last look at the others
	others  others

	mu       sync.Mutex // guards what follows
	members  []string
	changed  chan struct{}
	peers    []Peer
	heard    chan struct{}
	stepped  time.Duration // when the last look at the rows ended
	handover handover
}

// New returns a membership that knows nobody yet, of a process that is Ready.
func New(c Config) *Membership {
	var run [8]byte
	binary.BigEndian.PutUint64(run[:], c.Clock.Uint64())
	now := clock.Mono(c.Clock)
	return &Membership{
		Config: c, run: base32.HexEncoding.EncodeToString(run[:]), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), heard: make(chan struct{}), stepped: now, wrote: now, handover: handover{hurried: now},
	}
}

// Self is the name of this process.
func (m *Membership) Self() string { return m.Config.Self }

// Members are the processes that renew their rows and are ready or founders, as far as this one knows, and
// this one. They stay as they are once this process is Leaving: it fires on what it fired.
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

// Run renews and reads until ctx ends; then it takes this process's row away, so that the others need not
// wait for it.
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

// step is a round when our row is to be renewed, else only a look at the others.
func (m *Membership) step(ctx context.Context) error {
	if m.toRenew(clock.Mono(m.Clock)) {
		return m.round(ctx)
	}
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	return m.glance(ctx)
}

// round is one renewal and one look at the others. What it could not do it leaves as it was.
func (m *Membership) round(ctx context.Context) error {
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	within, stop := m.patience(ctx, writeMax)
	robbed, err := m.renew(within)
	stop()
	m.robbed = m.robbed || robbed
	m.failed = err != nil && !errors.Is(err, errTaken)
	if m.failed {
		m.lost++
	} else {
		m.mute = m.mute || m.away(clock.Mono(m.Clock))
		m.wrote = m.renewed
	}
	return errors.Join(err, m.glance(ctx))
}

// patience bounds a call.
func (m *Membership) patience(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	if m.lost >= hasteMax {
		bound = callMax
	}
	return clock.Within(ctx, m.Clock, bound)
}

// away says whether the store is, or was until now.
func (m *Membership) away(now time.Duration) bool {
	return m.lost > lossesMax && now-m.wrote >= muteAfter
}

// glance is one look at the others.
func (m *Membership) glance(ctx context.Context) error {
	defer m.stamp()
	within, stop := m.patience(ctx, readMax)
	rows, err := m.Rows.Controls(within, Kind)
	stop()
	if err != nil {
		m.lost++
		return fmt.Errorf("read the members: %w", err)
	}
	if len(rows) == 0 { // though our own was just written
		return errEmpty
	}
	if m.ours {
		before := len(rows)
		rows = slices.DeleteFunc(rows, func(row store.Control) bool { return row.Name == m.Config.Self })
		m.robbed = m.robbed || len(rows) == before
	}
	m.look(ctx, rows, m.robbed)
	m.robbed = false
	m.publish()
	return m.bury(ctx)
}

var errEmpty = errors.New("the store shows no member at all: the last ones known are kept")

// renew writes our row. robbed says that somebody else had deleted it.
func (m *Membership) renew(ctx context.Context) (robbed bool, err error) {
	m.begun, m.renewed = true, clock.Mono(m.Clock)
	says := m.says()
	for range casTriesMax {
		next := m.version + 1
		err = m.Rows.PutControl(ctx, m.row(next, says))
		if err == nil {
			m.version, m.ours, m.written = next, true, says
			return robbed, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		have, readErr := m.current(ctx, err)
		switch {
		case errors.Is(readErr, store.ErrNotFound):
			robbed, m.version = m.version > 0, 0
		case readErr != nil:
			return robbed, fmt.Errorf("read the membership of %s: %w", m.Config.Self, readErr)
		case decode(&have).Run == m.run: // a write of ours whose answer got lost
			m.version = have.Version
		default:
			m.ours, m.version = false, 0
			return robbed, fmt.Errorf("%w: %s", errTaken, m.Config.Self)
		}
	}
	return robbed, fmt.Errorf("renew the membership of %s: %w", m.Config.Self, err)
}

// errTaken makes this process stand back, without partitions, until the other is silent and buried.
var errTaken = errors.New("another process is a member of the same name; give each one of its own")

// current is the row as the conflict showed it, or as it is read now.
func (m *Membership) current(ctx context.Context, conflict error) (store.Control, error) {
	if seen, ok := errors.AsType[*store.ConflictError](conflict); ok && seen.Control != nil {
		return *seen.Control, nil
	}
	return m.Rows.Control(ctx, Kind, m.Config.Self)
}

// look judges the rows of others, and tells of clocks that are ahead of ours.
func (m *Membership) look(ctx context.Context, rows []store.Control, robbed bool) {
	now := clock.Mono(m.Clock)
	m.others.mute = m.mute || m.away(now)
	if !m.failed {
		m.lost, m.mute = 0, false
	}
	for _, skewed := range m.others.look(rows, now, m.Clock.Now(), robbed) {
		if skewed.first {
			m.Log.WarnContext(ctx, "a member's clock is ahead of ours: worker leases are judged by both",
				slog.String("member", skewed.name), slog.Duration("ahead_by", skewed.by))
		}
		if m.Hooks.ClockAhead != nil {
			m.Hooks.ClockAhead(skewed.name, skewed.by)
		}
	}
}

// publish makes known what the rows say now.
func (m *Membership) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hear(m.others.peers(m.Config.Self))
	if m.handover.declared == Leaving {
		return
	}
	members := m.others.members()
	members = slices.DeleteFunc(members, func(name string) bool { return name == m.Config.Self })
	if m.ours {
		members = append(members, m.Config.Self)
	}
	slices.Sort(members)
	if len(members) == 0 || slices.Equal(members, m.members) {
		return
	}
	m.members = members
	if m.Hooks.Members != nil {
		m.Hooks.Members(len(members))
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// bury deletes rows that have been silent for long, unless they move at this moment.
func (m *Membership) bury(ctx context.Context) error {
	for _, row := range m.others.toBury(clock.Mono(m.Clock), m.Config.Self) {
		if err := m.Rows.DeleteControl(ctx, row); err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("delete the row of the silent member %s: %w", row.Name, err)
		}
	}
	return nil
}

// leave takes our row away, if it is ours. Should that fail, the others miss its renewal.
func (m *Membership) leave(ctx context.Context) {
	if !m.ours {
		return
	}
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	m.ours = false
	err := m.Rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: m.Config.Self, Version: m.version})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		m.Log.WarnContext(ctx, "membership not given up", slog.Any("error", err))
	}
}
