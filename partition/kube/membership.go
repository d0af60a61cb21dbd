package kube

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition/fleet"
)

const (
	// tickEvery is how often it is looked whether the contact is lost, and whether the sources disagree for
	// too long.
	tickEvery = time.Second
	// listsMax is how long the first lists are waited for; past that the rows decide.
	listsMax = 10 * time.Second
	// gatherMax is how long, where nobody is ready, nothing changes until all pods that are wanted are there,
	// and their rows say what they are: who took itself for the only one in between would begin to read
	// everything.
	gatherMax = 2 * time.Second
	// settleAfter is for how long our pod has to be ready until it is left to the watch to say so: until then
	// other watches may be behind.
	settleAfter = 5 * time.Second
	// disputeMax is how long the sources may disagree about a pod until the pods are listed anew: the watch
	// may stand still.
	disputeMax = 10 * time.Second
	// disputePauseMax is the longest time between two such lists, which become rarer while the same dispute
	// lasts.
	disputePauseMax = 10 * time.Minute
)

// Rows is what a Membership needs of the lease rows: *fleet.Membership.
type Rows interface {
	Members() []string
	Peers() []fleet.Peer
	Heard() <-chan struct{}
	Declared() fleet.State
	Hurry()
	Settle()
}

// Membership implements partition.Membership. Members is empty until Run has listed the pods and the rows
// have been read.
type Membership struct {
	*Cluster

	rows  Rows
	feeds []*feed

	mu        sync.Mutex // guards what follows
	seen      inventory
	standing  standing
	begun     bool          // the first members are known
	started   time.Duration // of Run
	gather    time.Duration // since when nobody is ready, and not all have come and said what they are; 0: that is not so
	ready     time.Duration // since when our pod is, and the process says so; 0: it is not
	passed    time.Duration // since when some pod is ready, and our process says that it is; 0: that is not so
	kept      int
	strangers int // processes of other fleets in the same store
	changed   chan struct{}
	ticked    time.Duration
	dispute   dispute
	relists   []chan struct{} // one for each feed
}

// dispute is what the sources do not agree about.
type dispute struct {
	on    bool
	next  time.Duration // when to list anew
	pause time.Duration
}

// Over is the membership of the cluster's pods with the lease rows as its second source. The rows are those
// of a fleet.Membership with Config.Host Pod() and Config.Group Group(), whose Run goes on beside this one's.
func (c *Cluster) Over(rows Rows) *Membership {
	m := &Membership{
		Cluster: c, rows: rows, feeds: c.feeds(), changed: make(chan struct{}),
		seen: inventory{pods: map[string]seenPod{}, sets: map[uid]seenSet{}},
	}
	now := clock.Mono(c.config.Clock)
	m.started, m.ticked = now, now
	for range m.feeds {
		m.relists = append(m.relists, make(chan struct{}, 1))
	}
	return m
}

// Self is the name of this process's pod.
func (m *Membership) Self() string { return m.config.Pod }

// Members are the pods of the fleet that are ready, and this one. They stay as they are once this process is
// leaving.
func (m *Membership) Members() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.standing.members)
}

// Changed returns a channel that is closed at the next change of Members.
func (m *Membership) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Kept is how many are members though the API server says that they are gone.
func (m *Membership) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// ContactAge is how long ago the API server last told anything; bookmarks, which come every minute, count.
func (m *Membership) ContactAge() time.Duration {
	_, _, age := m.contact()
	return age
}

// Stalled is how long ago Run last made progress; it does so every second.
func (m *Membership) Stalled() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return clock.Mono(m.config.Clock) - m.ticked
}

// Run follows the watches and the rows until ctx ends.
func (m *Membership) Run(ctx context.Context) error {
	m.mu.Lock()
	m.started = clock.Mono(m.config.Clock)
	m.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	for i, f := range m.feeds {
		group.Go(func() error { return m.follow(ctx, f, m.relists[i]) })
	}
	group.Go(func() error { return m.judge(ctx) })
	return group.Wait()
}

// judge evaluates again whenever the rows or the time may have changed something.
func (m *Membership) judge(ctx context.Context) error {
	timer := m.config.Clock.NewTimer(tickEvery)
	defer timer.Stop()
	for {
		heard := m.rows.Heard()
		m.learn(func(*inventory) bool { return true })
		select {
		case <-heard:
		case <-timer.C():
			m.tick()
			timer.Reset(tickEvery)
		case <-ctx.Done():
			return nil
		}
	}
}

// learn takes something in that one of the sources told, and judges anew if that says that it matters.
func (m *Membership) learn(what func(*inventory) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !what(&m.seen) || m.rows.Declared() == fleet.Leaving || !m.begun && len(m.rows.Members()) == 0 {
		return
	}
	good, _, _ := m.contact()
	now := clock.Mono(m.config.Clock)
	listed := m.seen.podsListed && (m.seen.setsListed || m.byMaker)
	if !listed && !m.begun && now-m.started < listsMax {
		return
	}
	s := sources{self: m.config.Pod, contact: good && listed, watch: m.seen.shown(m.Cluster), wanted: m.seen.wanted(m.Cluster), rows: m.words()}
	if m.gathers(&s, now) {
		return
	}
	if !m.begun {
		m.begun, m.standing = true, firstStanding(&s)
	}
	m.settle(&s, now)
	m.disputeOver(&s, now)
	m.become(merge(m.standing, s))
}

// firstStanding is what a process that starts takes for the members before it: who says so itself.
func firstStanding(s *sources) standing {
	var said []string
	for pod, w := range s.rows {
		if w == ready {
			said = append(said, pod)
		}
	}
	slices.Sort(said)
	return standing{base: said}
}

// gathers says whether to wait for those who come together with this one. It holds mu.
func (m *Membership) gathers(s *sources, now time.Duration) bool {
	m.gather = sinceWhen(m.gather, s.gathering(), now)
	return m.gather != 0 && now-m.gather < gatherMax
}

// settle has our row leave it to the watch who is ready: when that has shown our pod for long enough, or
// others for so long that ours will not come to it. It holds mu.
func (m *Membership) settle(s *sources, now time.Duration) {
	says := m.rows.Declared() == fleet.Ready
	m.ready = sinceWhen(m.ready, says && s.watch[s.self], now)
	m.passed = sinceWhen(m.passed, says && s.contact && s.anyReady(), now)
	if m.ready != 0 && now-m.ready >= settleAfter || m.passed != 0 && now-m.passed >= fleet.FounderMax {
		m.rows.Settle()
	}
}

// sinceWhen is since when something is so: before, if it was, or now; 0 when it is not.
func sinceWhen(before time.Duration, is bool, now time.Duration) time.Duration {
	switch {
	case !is:
		return 0
	case before == 0:
		return now
	}
	return before
}

// become makes a merged result known. It holds mu.
func (m *Membership) become(now standing, kept int) {
	changed := !slices.Equal(now.members, m.standing.members)
	m.standing = now
	if kept != m.kept {
		m.kept = kept
		m.tellKept(kept)
	}
	if !changed {
		return
	}
	m.rows.Hurry()
	if m.config.Hooks.Members != nil {
		m.config.Hooks.Members(len(now.members))
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Membership) tellKept(kept int) {
	if m.config.Hooks.Kept != nil {
		m.config.Hooks.Kept(kept)
	}
	if kept > 0 {
		m.config.Log.Warn("more than half of the members, or all, are gone or not ready by the API server and renew their rows: they stay until both agree",
			slog.Int("kept", kept), slog.Int("members", len(m.standing.members)))
	}
}

// words is what the rows of our fleet say of each pod; that of its most hopeful process counts.
func (m *Membership) words() map[string]word {
	peers, group, strangers := m.rows.Peers(), m.Group(), 0
	words := make(map[string]word, len(peers))
	for i := range peers {
		p := &peers[i]
		switch {
		case p.Group != group:
			if p.Alive {
				strangers++
			}
		case p.Host != m.config.Pod:
			words[p.Host] = max(words[p.Host], wordOf(p))
		}
	}
	m.tellStrangers(strangers)
	return words
}

// tellStrangers tells of processes over the same store that share the partitions by another membership.
func (m *Membership) tellStrangers(count int) {
	if count > 0 && m.strangers == 0 {
		m.config.Log.Warn("processes outside this Deployment serve the same store: both share out all partitions",
			slog.Int("processes", count), slog.String("fleet", m.Group()))
	}
	m.strangers = count
}

func wordOf(p *fleet.Peer) word {
	switch {
	case !p.Alive:
		return gone
	case p.State == fleet.Leaving:
		return leaving
	case p.Founder:
		return founding
	case p.State == fleet.Joining:
		return joining
	}
	return ready
}

// contact is that of the feeds together.
func (m *Membership) contact() (good, spoilt bool, age time.Duration) {
	good = true
	for _, f := range m.feeds {
		g, s, a := f.contact()
		good, spoilt, age = good && g, spoilt || s, max(age, a)
	}
	return good, spoilt, age
}

// disputeOver notes since when the sources disagree about some pod. It holds mu.
func (m *Membership) disputeOver(s *sources, now time.Duration) {
	for pod, w := range s.rows {
		if watched := s.watch[pod]; watched && w == gone || !watched && w == ready {
			if !m.dispute.on {
				m.dispute = dispute{on: true, next: now + disputeMax, pause: disputeMax}
			}
			return
		}
	}
	m.dispute = dispute{}
}

// tick lists anew where the watch seems to stand still.
func (m *Membership) tick() {
	_, spoilt, _ := m.contact()
	now := clock.Mono(m.config.Clock)
	m.mu.Lock()
	m.ticked = now
	disputed := m.dispute.on && now >= m.dispute.next
	if disputed {
		m.dispute.pause = min(2*m.dispute.pause, disputePauseMax)
		m.dispute.next = now + m.dispute.pause
	}
	m.mu.Unlock()
	if spoilt || disputed {
		m.relist()
	}
}

// relist ends the watches, each of which is followed by a list.
func (m *Membership) relist() {
	if m.config.Hooks.Relisted != nil {
		m.config.Hooks.Relisted()
	}
	for _, again := range m.relists {
		select {
		case again <- struct{}{}:
		default:
		}
	}
}
