package node

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// workersShownMax bounds the workers that a Fleet lists.
const workersShownMax = 500

// Fleet returns the workers, the servers and their partitions, and the store, as this process sees them.
func (n *Node) Fleet(ctx context.Context) (f overview.Fleet, err error) {
	leases, err := n.leases.List(ctx)
	if err != nil {
		return f, err
	}
	wall := n.clock.Now()
	leases = slices.DeleteFunc(leases, func(l lease.Lease) bool { return l.Over(wall, 0) })
	slices.SortFunc(leases, func(a, b lease.Lease) int {
		return strings.Compare(a.Name+"\x00"+a.Worker, b.Name+"\x00"+b.Worker)
	})
	if f.WorkersMax = len(leases) > workersShownMax; f.WorkersMax {
		leases = leases[:workersShownMax]
	}
	for i := range leases {
		f.Workers = append(f.Workers, workerOf(&leases[i]))
	}
	if n.hsc != nil {
		slots := n.hsc.Slots()
		for i := range f.Workers {
			w := &f.Workers[i]
			of, here := slots[w.ID]
			w.Here, w.Slots, w.Used = here, of.Slots, of.Used
		}
	}
	f.NotReady = n.NotReady()
	health, _ := n.store.Health()
	f.Store = overview.Store{Full: n.store.Full(), Damaged: health.Damaged, Metered: n.store.EndedExpire()}
	n.addServers(&f)
	return f, nil
}

func workerOf(l *lease.Lease) overview.Worker {
	w := overview.Worker{ID: l.Worker, Name: l.Name, Version: task.WorkerVersion(l.Worker), Owner: l.Owner, Lease: l.Length, Heard: l.Receipt.Time(), Lost: l.Lost}
	if l.Lambdas != "" {
		w.Lambdas = strings.Split(l.Lambdas, ",")
	}
	return w
}

// addServers adds the processes that own partitions, as the scheduler of this process sees them.
func (n *Node) addServers(f *overview.Fleet) {
	if n.scheduler == nil {
		return
	}
	share := n.scheduler.Assignment()
	follows := n.members.follows(&share)
	peers := map[string]fleet.Peer{}
	if n.members.rows != nil {
		for _, p := range n.members.rows.Peers() {
			peers[p.Process] = p
			if p.Host != "" {
				peers[p.Host] = p
			}
		}
	}
	f.Moves = n.moves.newestFirst()
	owned := n.owned(f)
	for _, member := range share.Members {
		s := overview.Server{Name: member, State: "ready", Alive: true, Self: member == n.members.Self(), Partitions: share.Load[member], Owns: owned[member]}
		if s.Self {
			s.Version = n.metrics.version()
		}
		if p, known := peers[member]; known && !s.Self {
			s.State, s.Alive, s.Version = stateNames[p.State], p.Alive, p.Version
		}
		f.Partitions += s.Partitions
		if s.Partitions > 0 && !follows(member) {
			s.State = "not handling its partitions yet"
			f.Unowned += s.Partitions
		}
		f.Servers = append(f.Servers, s)
	}
}

// ownedShownMax bounds the partitions that a Fleet lists with their owners.
const ownedShownMax = 5000

// owned returns the partitions by their owners, as they are now.
func (n *Node) owned(f *overview.Fleet) map[string][]overview.Owned {
	byOwner := map[string][]overview.Owned{}
	count := 0
	ownership := partition.Ownership{Membership: n.members, Group: n.quotas.groupOf}
	for _, l := range n.catalog.All() {
		all := l.Partitions()
		if count += len(all); count > ownedShownMax {
			f.OwnedMax = true
			return byOwner
		}
		owners, _ := ownership.Owners(all)
		for i, p := range all {
			of, name := byOwner[owners[i]], l.Priorities[p.Priority]
			if last := len(of) - 1; last < 0 || of[last].Lambda != l.Name || of[last].Priority != name {
				of = append(of, overview.Owned{Lambda: l.Name, Priority: name})
			}
			last := &of[len(of)-1]
			last.Shards = append(last.Shards, int(p.Shard))
			byOwner[owners[i]] = of
		}
	}
	return byOwner
}

// stateNames are the states of a server for people.
var stateNames = map[fleet.State]string{fleet.Ready: "ready", fleet.Joining: "joining", fleet.Leaving: "leaving"} //nolint:gochecknoglobals // a table

// Window sums up what this process saw of all lambdas, over at most a day.
func (n *Node) Window(length time.Duration) overview.Window { return n.history.window(length) }

// Minutes returns what this process saw in each of the last minutes, at most an hour: of a lambda, or of all together if
// its name is empty.
func (n *Node) Minutes(lambda string, count int) []overview.Minute {
	if lambda == "" {
		return n.history.since(count)
	}
	l, err := n.catalog.Lambda(lambda)
	if err != nil {
		return nil
	}
	return n.recent.since(l.Ref, count)
}

// Failed returns how many attempts of a lambda this process saw fail in the last hour and the last day.
func (n *Node) Failed(lambda string) (hour, day uint64) {
	l, err := n.catalog.Lambda(lambda)
	if err != nil {
		return 0, 0
	}
	return n.recent.failedIn(l.Ref)
}

// Forecast counts what will be due; see inbound.Forecast.
func (n *Node) Forecast(ctx context.Context, edges []time.Time, rowsMax int) (overview.Forecast, error) {
	return n.inbound.Forecast(ctx, edges, rowsMax)
}

// NewestGroups returns the newest groups that the caller may read; see group.Service.Newest.
func (n *Node) NewestGroups(ctx context.Context, limit int) (newest []*kinesinv1.Group, more bool, err error) {
	return n.grouping.Newest(ctx, limit)
}

// HasInbound reports whether this node has the role that serves users.
func (n *Node) HasInbound() bool { return n.inbound != nil }

// movesMax bounds the hand-overs that are remembered.
const movesMax = 20

// moves are the newest changes of which partitions this process owns, the newest last.
type moves struct {
	mu  sync.Mutex
	all []overview.Moved
}

func (m *moves) add(now task.Instant, s *scheduler.Assignment) {
	if s.Gained+s.Lost == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all[max(0, len(m.all)-movesMax+1):], overview.Moved{At: now.Time(), Gained: s.Gained, Lost: s.Lost})
}

// warm notes that all partitions have been read ahead since the newest change.
func (m *moves) warm(s *scheduler.Assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.all) - 1; last >= 0 && s.Gained > 0 {
		m.all[last].Warm = s.Warm
	}
}

// newestFirst returns them.
func (m *moves) newestFirst() []overview.Moved {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.all)
	slices.Reverse(all)
	return all
}

// The forecast of an overview is counted for all who ask together, and while somebody asks.
const (
	glanceEvery        = 2 * time.Second
	glanceEveryMetered = 10 * time.Minute // of a store whose reads cost money
	glanceRows         = 50_000           // that one count reads, about
	glanceRowsMetered  = 2_000
	glanceWithin       = 10 * time.Second
	// glanceShare bounds what counting takes of the time, as 1 in so many.
	glanceShare = 20
)

// glance makes the overview that statistics have on request, of what the console shows on its first page.
type glance struct {
	source *Node
	clock  clock.Clock

	forecast overview.Shared[*overview.Forecast] // nil: it could not be counted
}

// glanceWindows and glanceAhead are the times of which an overview tells.
var (
	glanceWindows = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}                       //nolint:gochecknoglobals // a table
	glanceAhead   = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour} //nolint:gochecknoglobals // a table
)

func (g *glance) overview(ctx context.Context) (*kinesinv1.Overview, error) {
	o, grants := &kinesinv1.Overview{}, access.From(ctx).Grants
	fleet, err := g.source.Fleet(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	if grants.AllowAll(access.Metrics) {
		for _, length := range glanceWindows {
			o.Windows = append(o.Windows, windowOf(length, g.source.Window(length)))
		}
		o.Installation = installationOf(&fleet)
	}
	if f := g.due(ctx, fleet.Store.Metered); f != nil {
		o.DueAt = f.At.UnixMicro()
		o.Due = dueSoon(f, func(lambda string) bool { return grants.Allow(access.Read, lambda) })
	}
	return o, nil
}

func windowOf(asked time.Duration, w overview.Window) *kinesinv1.OverviewWindow {
	return &kinesinv1.OverviewWindow{
		Asked: asked.Microseconds(), Covered: w.Length.Microseconds(), StartedPerSecond: w.Started, FailedPerSecond: w.Failed, EndedPerSecond: w.Ended,
		LatenessP50: w.Late50.Microseconds(), LatenessP95: w.Late95.Microseconds(), LatenessP99: w.Late99.Microseconds(),
	}
}

func installationOf(f *overview.Fleet) *kinesinv1.Installation {
	return &kinesinv1.Installation{
		Workers: int64(len(f.Workers)), Servers: int64(len(f.Servers)), Partitions: int64(f.Partitions), UnownedPartitions: int64(f.Unowned),
		StoreFull: f.Store.Full, StoreDamaged: len(f.Store.Damaged) > 0, NotReady: f.NotReady,
	}
}

// due returns the forecast, and counts it if it is old.
func (g *glance) due(ctx context.Context, metered bool) *overview.Forecast {
	return g.forecast.Get(g.clock, glanceShare, func() (*overview.Forecast, time.Duration) {
		every, rows := glanceEvery, glanceRows
		if metered {
			every, rows = glanceEveryMetered, glanceRowsMetered
		}
		f, err := g.count(ctx, rows)
		if err != nil {
			g.source.log.WarnContext(ctx, "cannot count what will be due", slog.Any("error", err))
			return nil, glanceEvery
		}
		return &f, every
	})
}

func (g *glance) count(ctx context.Context, rows int) (overview.Forecast, error) {
	// The caller may leave; the others that wait want the answer all the same.
	ctx, cancel := clock.Within(context.WithoutCancel(ctx), g.clock, glanceWithin)
	defer cancel()
	now := g.clock.Now().Time()
	edges := []time.Time{now}
	for _, ahead := range glanceAhead {
		edges = append(edges, now.Add(ahead))
	}
	return g.source.Forecast(ctx, edges, rows)
}

// dueSoon adds up a forecast for the lambdas that may be seen. Overdue tasks are not in it.
func dueSoon(f *overview.Forecast, may func(lambda string) bool) (all []*kinesinv1.DueSoon) {
	sum := f.Sum(may)
	for i, edge := range f.Edges[1:] {
		tasks, off := sum.In(1, i+1)
		all = append(all, &kinesinv1.DueSoon{
			Within: edge.Sub(f.At).Round(time.Minute).Microseconds(), Tasks: tasks, AtLeast: sum.IsAtLeast(edge), Error: off,
		})
	}
	return all
}

// Deaths are read for all who ask together, and while somebody asks.
const (
	deathsEvery        = time.Second
	deathsEveryMetered = 30 * time.Second // of a store whose reads cost money
	deathsWithin       = 10 * time.Second
	deathsShare        = 20
)

// deaths tells how many tasks died lately.
type deaths struct {
	objectives *objective.Keeper
	clock      clock.Clock
	log        *slog.Logger
	metered    bool // reads cost money

	known overview.Shared[map[uint32]objective.Deaths]
}

// of returns the deaths of a lambda in the last hour and day; none while they cannot be read.
func (d *deaths) of(ctx context.Context, lambda uint32) (hour, day int64) {
	all := d.known.Get(d.clock, deathsShare, func() (map[uint32]objective.Deaths, time.Duration) {
		// The caller may leave; the others that wait want the answer all the same.
		ctx, cancel := clock.Within(context.WithoutCancel(ctx), d.clock, deathsWithin)
		defer cancel()
		all, err := d.objectives.Deaths(ctx)
		if err != nil {
			d.log.WarnContext(ctx, "cannot tell how many tasks died lately", slog.Any("error", err))
		}
		if d.metered {
			return all, deathsEveryMetered
		}
		return all, deathsEvery
	})
	return all[lambda].Hour, all[lambda].Day
}
