package web

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// Live figures are read for all viewers together and only while somebody looks: a thousand open pages cost
// the reads of one, and their rendering.
const (
	liveEvery        = time.Second
	liveEveryMetered = 30 * time.Second // of a store whose reads cost money
	liveWithin       = 10 * time.Second
	// liveShare bounds what reading takes of the time, as 1 in so many.
	liveShare = 10

	// objectivesEvery is longer, since a read of objectives first stores what this server has counted.
	objectivesEvery        = 5 * time.Second
	objectivesEveryMetered = 5 * time.Minute

	forecastEvery        = 15 * time.Second
	forecastEveryMetered = 10 * time.Minute
	forecastWithin       = 30 * time.Second
	forecastShare        = 20
	forecastRowsDefault  = 1_000_000
	forecastRowsMetered  = 2_000
	forecastRowsAtFirst  = 10_000 // for the first page, which is not to wait for more
	forecastStep         = 30 * time.Minute
	forecastAhead        = 24 * time.Hour

	renderingsMax  = 64 // of one snapshot that are kept, each for other grants
	minutesPlotted = 60
)

// snapshot is what was read at one time. It is not changed, but for what was rendered of it.
type snapshot struct {
	at             time.Time
	stats          []*kinesinv1.LambdaStats     // of all lambdas
	failing        []failing                    // those with failures in the last day, the most in the last hour first
	objectives     []*kinesinv1.ObjectiveStatus // of all lambdas
	fleet          overview.Fleet
	now, hour, day overview.Window
	err            error

	mu       sync.Mutex
	rendered map[string][]byte // by the grants of who looks
}

// live keeps the newest snapshot and forecast.
type live struct {
	config  *Config
	metered atomic.Bool // reads of the store cost money, as far as is known

	now        overview.Shared[*snapshot]
	objectives overview.Shared[[]*kinesinv1.ObjectiveStatus]
	forecast   overview.Shared[*overview.Forecast]
	gatesRead  overview.Shared[[]*kinesinv1.Gate]
	auditRead  overview.Shared[[]*kinesinv1.AuditRecord]
}

func newLive(c *Config) *live { return &live{config: c} }

func (l *live) every(usual, metered time.Duration) time.Duration {
	if l.metered.Load() {
		return metered
	}
	return usual
}

// snapshot returns what is live. The server decides for whom it is when it is shown.
func (l *live) snapshot() *snapshot {
	return l.now.Get(l.config.Clock, liveShare, func() (*snapshot, time.Duration) { return l.read(), l.every(liveEvery, liveEveryMetered) })
}

// asServer is the context of reads for all viewers together.
func (l *live) asServer(within time.Duration) (context.Context, context.CancelFunc) {
	ctx := access.With(context.Background(), access.Caller{Identity: access.Identity{Name: access.ServerName, Grants: access.All()}, From: "local"})
	return clock.Within(ctx, l.config.Clock, within)
}

func (l *live) read() *snapshot {
	ctx, cancel := l.asServer(liveWithin)
	defer cancel()
	s := &snapshot{at: l.config.Clock.Now().Time(), rendered: map[string][]byte{}}
	stats, err := l.config.Tasks.Stats(ctx, &kinesinv1.StatsRequest{})
	if err == nil {
		s.stats = stats.GetLambdas()
		s.fleet, err = l.config.Source.Fleet(ctx)
	}
	if err == nil {
		l.metered.Store(s.fleet.Store.Metered)
	}
	if err == nil && l.config.Objectives != nil {
		s.objectives = l.objectives.Get(l.config.Clock, liveShare, func() ([]*kinesinv1.ObjectiveStatus, time.Duration) {
			return l.readObjectives(), l.every(objectivesEvery, objectivesEveryMetered)
		})
	}
	if s.err = err; err != nil {
		l.config.Log.WarnContext(ctx, "console cannot read the state of the installation", slog.Any("error", err))
	}
	s.failing = l.failing(s.stats)
	s.now, s.hour, s.day = l.config.Source.Window(time.Minute), l.config.Source.Window(time.Hour), l.config.Source.Window(forecastAhead)
	return s
}

// readObjectives returns the objectives of all lambdas; none while they cannot be read: the rest is shown all
// the same.
func (l *live) readObjectives() []*kinesinv1.ObjectiveStatus {
	ctx, cancel := l.asServer(liveWithin)
	defer cancel()
	response, err := l.config.Objectives.GetObjectives(ctx, &kinesinv1.GetObjectivesRequest{})
	l.note(ctx, "the objectives", err)
	return response.GetObjectives()
}

// note logs that something could not be read.
func (l *live) note(ctx context.Context, what string, err error) {
	if err != nil {
		l.config.Log.WarnContext(ctx, "console cannot read what it shows", slog.String("what", what), slog.Any("error", err))
	}
}

// due returns the forecast; nil while it cannot be read. For the first page, which is not to wait, it is one
// of few rows if the last one is old, to be read again soon.
func (l *live) due(first bool) *overview.Forecast {
	l.snapshot()
	rows := l.config.ForecastRowsMax
	if rows == 0 {
		if rows = forecastRowsDefault; l.metered.Load() {
			rows = forecastRowsMetered
		}
	}
	every, share := l.every(forecastEvery, forecastEveryMetered), forecastShare
	if first && rows > forecastRowsAtFirst {
		rows, every, share = forecastRowsAtFirst, 0, 0
	}
	return l.forecast.Get(l.config.Clock, share, func() (*overview.Forecast, time.Duration) { return l.readDue(rows), every })
}

func (l *live) readDue(rows int) *overview.Forecast {
	ctx, cancel := l.asServer(forecastWithin)
	defer cancel()
	f, err := l.config.Source.Forecast(ctx, forecastEdges(l.config.Clock.Now().Time()), rows)
	if err != nil {
		l.config.Log.WarnContext(ctx, "console cannot count what will be due", slog.Any("error", err))
		return nil
	}
	return &f
}

// soonAhead are the times from now of which the first page says how much they bring.
var soonAhead = []struct { //nolint:gochecknoglobals // a table
	name  string
	ahead time.Duration
}{{"5 minutes", 5 * time.Minute}, {"15 minutes", 15 * time.Minute}, {"an hour", time.Hour}, {"24 hours", forecastAhead}}

// forecastEdges returns the ends of the buckets: now, those of soonAhead, and the half hours of clocks, so
// that what is due at midnight begins one.
func forecastEdges(now time.Time) []time.Time {
	edges := []time.Time{now}
	for _, s := range soonAhead {
		edges = append(edges, now.Add(s.ahead))
	}
	for at := now.Truncate(forecastStep).Add(forecastStep); at.Before(now.Add(forecastAhead)); at = at.Add(forecastStep) {
		edges = append(edges, at)
	}
	slices.SortFunc(edges, time.Time.Compare)
	return slices.CompactFunc(edges, time.Time.Equal)
}
