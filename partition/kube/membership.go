package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition/fleet"
)

const (
	// tickEvery is how often Run checks the contact and whether the sources disagree for too long.
	tickEvery = time.Second
	// listsMax is how long Run waits for the first lists. Past that the rows decide.
	listsMax = 10 * time.Second
	// gatherMax is how long nothing changes while a fleet starts, until all wanted pods exist and their rows
	// say what they are. Otherwise each would take itself for the only one and begin to read everything.
	gatherMax = 2 * time.Second
	// settleAfter is how long the watch must show our pod as ready before our row leaves that to the watch;
	// until then the watches of others may be behind.
	settleAfter = 5 * time.Second
	// While the sources disagree about a pod the watch may hang: the pods are listed again after disputeMin,
	// and then at intervals that double up to disputeMax.
	disputeMin = 10 * time.Second
	disputeMax = 10 * time.Minute
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

	mu           sync.Mutex // guards what follows
	seen         inventory
	standing     standing
	begun        bool          // the first members are known
	started      time.Duration // of Run
	gatherSince  time.Duration // since when the fleet is starting; 0: it is not
	readySince   time.Duration // since when the watch and our row say that we are ready; 0: they do not
	passedSince  time.Duration // since when our row says so and the watch shows some pod as ready; 0: not so
	kept         int
	strangers    int // processes of other fleets over the same store
	changed      chan struct{}
	ticked       time.Duration
	disputePause time.Duration // before the next list because of a disagreement; 0: there is none
	disputeAt    time.Duration // when to list again
}

// Over returns the membership of the cluster's pods, with the lease rows as its second source. The rows are
// those of a fleet.Membership with Config.Host Pod() and Config.Group Group(), which has to run beside this
// one.
func (c *Cluster) Over(rows Rows) *Membership {
	now := clock.Mono(c.config.Clock)
	m := &Membership{
		Cluster: c, rows: rows, feeds: c.feeds(), changed: make(chan struct{}), started: now, ticked: now,
		seen: inventory{pods: map[string]seenPod{}, sets: map[uid]seenSet{}},
	}
	for _, f := range m.feeds {
		f.update = m.update
	}
	return m
}

// Self returns the name of this process's pod.
func (m *Membership) Self() string { return m.config.Pod }

// Members returns the pods of the fleet that are ready, and this one. It no longer changes once this process
// is leaving.
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

// Kept returns how many members the API server takes for gone.
func (m *Membership) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// ContactAge returns how long ago the API server last sent anything; it sends a bookmark every minute.
func (m *Membership) ContactAge() time.Duration {
	_, _, age := m.contact()
	return age
}

// Stalled returns how long ago Run last made progress, which it does every second.
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
	for _, f := range m.feeds {
		group.Go(func() error { return f.run(ctx) })
	}
	group.Go(func() error { return m.followRows(ctx) })
	return group.Wait()
}

// followRows updates the members whenever the rows change, and every tickEvery.
func (m *Membership) followRows(ctx context.Context) error {
	timer := m.config.Clock.NewTimer(tickEvery)
	defer timer.Stop()
	for {
		heard := m.rows.Heard()
		m.update(func(*inventory) bool { return true })
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

// update applies a change to the inventory, and computes the members if it reports that something changed.
func (m *Membership) update(change func(*inventory) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !change(&m.seen) || m.rows.Declared() == fleet.Leaving || !m.begun && len(m.rows.Members()) == 0 {
		return
	}
	good, _, _ := m.contact()
	now := clock.Mono(m.config.Clock)
	listed := m.seen.podsListed && (m.seen.setsListed || m.byMaker)
	if !listed && !m.begun && now-m.started < listsMax {
		return
	}
	s := sources{
		self: m.config.Pod, contact: good && listed, watch: m.seen.shown(m.Cluster), wanted: m.seen.wanted(m.Cluster), rows: m.rowStates(),
	}
	m.gatherSince = since(m.gatherSince, s.gathering(), now)
	if m.gatherSince != 0 && now-m.gatherSince < gatherMax {
		return
	}
	if !m.begun {
		m.begun, m.standing = true, firstStanding(&s)
	}
	m.settle(&s, now)
	m.noteDispute(&s, now)
	m.publish(merge(m.standing, s))
}

// firstStanding returns what a process that starts takes for the former members: those whose rows say ready.
func firstStanding(s *sources) (first standing) {
	for pod, row := range s.rows {
		if row == ready {
			first.base = append(first.base, pod)
		}
	}
	slices.Sort(first.base)
	return first
}

// settle makes our row leave it to the watch who is ready: when the watch has shown our pod as ready for long
// enough, or other pods for so long that it never will. The caller holds mu.
func (m *Membership) settle(s *sources, now time.Duration) {
	declared := m.rows.Declared() == fleet.Ready
	m.readySince = since(m.readySince, declared && s.watch[s.self], now)
	m.passedSince = since(m.passedSince, declared && s.contact && s.anyReady(), now)
	if m.readySince != 0 && now-m.readySince >= settleAfter || m.passedSince != 0 && now-m.passedSince >= fleet.FounderMax {
		m.rows.Settle()
	}
}

// since returns since when a condition holds: before, if it held already, else now; 0 if it does not hold.
func since(before time.Duration, holds bool, now time.Duration) time.Duration {
	switch {
	case !holds:
		return 0
	case before == 0:
		return now
	}
	return before
}

// publish makes the result of a merge known. The caller holds mu.
func (m *Membership) publish(now standing, kept int) {
	changed := !slices.Equal(now.members, m.standing.members)
	m.standing = now
	if kept != m.kept {
		m.kept = kept
		if kept > 0 {
			m.config.Log.Warn("most members are gone or not ready by the API server but renew their lease rows; keeping them until both agree",
				slog.Int("kept", kept), slog.Int("members", len(now.members)))
		}
	}
	if !changed {
		return
	}
	m.rows.Hurry()
	close(m.changed)
	m.changed = make(chan struct{})
}

// rowStates returns the state of each pod of our fleet by its rows: that of the furthest of its processes.
func (m *Membership) rowStates() map[string]rowState {
	peers, group, strangers := m.rows.Peers(), m.Group(), 0
	states := make(map[string]rowState, len(peers))
	for i := range peers {
		p := &peers[i]
		switch {
		case p.Group != group:
			if p.Alive {
				strangers++
			}
		case p.Host != m.config.Pod:
			states[p.Host] = max(states[p.Host], stateOf(p))
		}
	}
	if strangers > 0 && m.strangers == 0 {
		m.config.Log.Warn("processes outside this Deployment use the same store; both fleets assign all partitions",
			slog.Int("processes", strangers), slog.String("fleet", group))
	}
	m.strangers = strangers
	return states
}

func stateOf(p *fleet.Peer) rowState {
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

// contact combines the contact of all feeds.
func (m *Membership) contact() (good, spoilt bool, age time.Duration) {
	good = true
	for _, f := range m.feeds {
		g, s, a := f.contact()
		good, spoilt, age = good && g, spoilt || s, max(age, a)
	}
	return good, spoilt, age
}

// noteDispute notes since when the sources disagree about some pod. The caller holds mu.
func (m *Membership) noteDispute(s *sources, now time.Duration) {
	for pod, row := range s.rows {
		if watched := s.watch[pod]; watched && row == gone || !watched && row == ready {
			if m.disputePause == 0 {
				m.disputePause, m.disputeAt = disputeMin, now+disputeMin
			}
			return
		}
	}
	m.disputePause = 0
}

// tick lists again if the watch seems to hang.
func (m *Membership) tick() {
	_, spoilt, _ := m.contact()
	now := clock.Mono(m.config.Clock)
	m.mu.Lock()
	m.ticked = now
	disputed := m.disputePause > 0 && now >= m.disputeAt
	if disputed {
		m.disputePause = min(2*m.disputePause, disputeMax)
		m.disputeAt = now + m.disputePause
	}
	m.mu.Unlock()
	if !spoilt && !disputed {
		return
	}
	if m.config.Hooks.Relisted != nil {
		m.config.Hooks.Relisted()
	}
	for _, f := range m.feeds {
		f.listAgain()
	}
}

// Errors of Open wrap one of these. All but ErrUnreachable last until somebody changes something; see
// Lasting.
var (
	ErrNoIdentity   = errors.New("the pod does not know itself: set POD_NAME and POD_NAMESPACE from the downward API (fieldRef metadata.name and metadata.namespace)")
	ErrNoCluster    = errors.New("no way to the Kubernetes API server: run in a pod with a mounted service account token (automountServiceAccountToken: true), or set KUBECONFIG")
	ErrPodNotFound  = errors.New("no such pod: POD_NAME and POD_NAMESPACE must be those of this pod")
	ErrNoController = errors.New("the pod has no controller: run it by a Deployment, a ReplicaSet or a StatefulSet, or choose another membership")
	ErrForbidden    = errors.New("forbidden by the Kubernetes API server")
	ErrUnauthorized = errors.New("the Kubernetes API server does not know this service account: its token is invalid or has expired")
	ErrUnreachable  = errors.New("cannot reach the Kubernetes API server")
)

// Lasting reports whether a retry is useless until somebody changes something.
func Lasting(err error) bool {
	lasting := []error{ErrNoIdentity, ErrNoCluster, ErrPodNotFound, ErrNoController, ErrForbidden, ErrUnauthorized}
	return slices.ContainsFunc(lasting, func(one error) bool { return errors.Is(err, one) })
}

// request describes a request to the API server in errors.
type request struct {
	verb, resource, namespace, name string
}

// explain turns a lasting error of the API server into one of this package. It passes on those that may pass.
func (r request) explain(err error) error {
	what := fmt.Sprintf("%s %s in namespace %q", r.verb, r.resource, r.namespace)
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %s. Give the pod's service account a Role in this namespace with the verbs get, list and watch on pods "+
			"(apiGroup \"\") and replicasets (apiGroup apps), and check that POD_NAMESPACE is the pod's own: %w", ErrForbidden, what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %s: %w", ErrUnauthorized, what, err)
	case apierrors.IsNotFound(err) && r.resource == resourcePods:
		return fmt.Errorf("%w; there is no %q in namespace %q: %w", ErrPodNotFound, r.name, r.namespace, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
