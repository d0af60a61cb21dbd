package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// MetricsConfig says which series there are. Its zero value means the defaults.
type MetricsConfig struct {
	// LambdasMax is how many lambdas have series of their own; 0: MetricLambdasDefault.
	LambdasMax int
	// NoNative leaves native histograms out. They are beside the classic ones, for scrapes that ask for them.
	NoNative bool
	Version  string // of the program; empty: what the Go toolchain recorded
}

// Metrics are all series of a process. Labels come from the catalog and never from a request, so that no
// caller can add series.
type Metrics struct {
	registry  *prometheus.Registry
	config    MetricsConfig
	labels    *lambdaLabels
	all       []Series
	ofLambdas []func(prometheus.Labels) int // delete series, of those with the label lambda
	scrapes   scrapes
	rooms     []*room.Room // all are added before the first call

	lateness, storeTime                                            *prometheus.HistogramVec
	accepted, matched, finished, expired, dead, undelivered, grown *prometheus.CounterVec // of lambdas
	refused, wakeups, claims, calls, objective, targetCalls        *prometheus.CounterVec
	hscFailures, storeErrors, clockSteps, roomRefused              *prometheus.CounterVec
	ways, rejected, left, moved, registrations                     *prometheus.CounterVec
	registrationStates                                             *prometheus.GaugeVec
	lost, unsent, failures, internal, auditLost, consumed, pauses  prometheus.Counter
	clockStep, members, owned, unowned, targetsOpen                prometheus.Gauge
	fsync, clockAhead, age, warmed                                 prometheus.Observer

	// A look-up of a series by its labels costs more than counting, so the series that change with every task
	// are cached.
	classes  atomic.Pointer[map[class]*classSeries] // replaced under growing
	growing  sync.Mutex
	byEvent  [task.Drop + 1]prometheus.Counter
	existing func(ref uint32) bool // whether a lambda exists
}

// Outcomes of a Schedule call.
const (
	callAccepted, callRefused, callFailed = "accepted", "refused", "failed"
)

// Values of the label direction.
const (
	stepForward = "forward"
	stepBack    = "back"
)

// NewMetrics returns all series at zero.
func NewMetrics(c MetricsConfig) *Metrics {
	c.LambdasMax = cmp.Or(c.LambdasMax, MetricLambdasDefault)
	m := &Metrics{registry: prometheus.NewRegistry(), config: c, labels: newLambdaLabels(c.LambdasMax), existing: func(uint32) bool { return true }}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), &m.scrapes)
	m.classes.Store(&map[class]*classSeries{})
	m.addTasks()
	m.addCalls()
	m.addStores()
	m.addFleet()
	m.addRooms()
	m.Gauges("kinesin_build_info", "Always 1; the labels say what is running.", "version", "goversion").
		WithLabelValues(m.version(), runtime.Version()).Set(1)
	return m
}

func (m *Metrics) addTasks() {
	m.lateness = m.Histograms("kinesin_task_lateness_seconds",
		"Time from a task's due time until it was first enqueued, claimed, started, or delivered to its queue.", latenessBuckets, "lambda", "priority", "stage")
	m.accepted = m.Counters("kinesin_tasks_accepted_total", "Accepted tasks.", "lambda", "priority")
	m.matched = m.Counters("kinesin_tasks_matched_total", "Attempts handed directly to a waiting worker, without a queue message.", "lambda", "priority")
	m.refused = m.Counters("kinesin_tasks_refused_total", "Refused tasks.", "reason")
	m.finished = m.Counters("kinesin_attempts_total", "Ended attempts.", "lambda", "priority", "outcome")
	m.dead = m.Counters("kinesin_tasks_dead_total",
		"Tasks that ended for good without success: a handler said so, their attempts were used up, or they killed their workers.", "lambda", "priority")
	m.expired = m.Counters("kinesin_tasks_expired_total", "Tasks that ended because they did not start in time.", "lambda", "priority")
	m.objective = m.Counters("kinesin_objective_starts_total",
		"Starts of tasks of lambdas that have an objective, and ends without a start, by whether they were in time.", "lambda", "in_time")
	m.undelivered = m.Counters("kinesin_deliveries_failed_total", "Failed sends to the queue of a deliver lambda; each is retried.", "lambda", "priority")
	m.targetCalls = m.Counters("kinesin_target_calls_total",
		"Calls of the targets of lambdas, by the class of the answer's HTTP status: 2xx, 3xx, 4xx, 5xx, or none, if there was no answer. A function of AWS Lambda that fails was invoked: 2xx.", "lambda", "class")
	m.targetsOpen = m.Gauge("kinesin_target_attempts_open", "Attempts of tasks with a target that this process runs now: calls under way, and those that wait for their host.")
	m.grown = m.Counters("kinesin_shards_grown_total", "Times this process added shards to a lambda because one shard neared the write limit of a key.", "lambda")
	m.wakeups = m.Counters("kinesin_wakeups_total", "Wake-ups by the event they led to.", "event")
	for kind := range m.byEvent {
		m.byEvent[kind] = m.wakeups.WithLabelValues(task.EventKind(kind).String())
	}
	m.claims = m.Counters("kinesin_claims_refused_total", "Messages whose claim was refused.", "reason")
	m.lost = m.Counter("kinesin_workers_lost_total", "Expired worker leases.")
	m.unsent = m.Counter("kinesin_messages_unsent_total", "Enqueued tasks whose message could not be sent; they are enqueued again later.")
	m.failures = m.Counter("kinesin_partition_failures_total", "Failed reads and dispatches of a partition; each is retried.")
	m.hscFailures = m.Counters("kinesin_hsc_failures_total", "Claims, heartbeats, results and messages that failed because of the store or the queue.", "what")
}

func (m *Metrics) addCalls() {
	m.calls = fromZero(m.Counters("kinesin_schedule_calls_total",
		"Schedule calls: accepted; refused, for a reason of the caller's; failed, because the server, its store or its queue could not take a task. "+
			"Availability is 1 - failed / all.", "outcome"), callAccepted, callRefused, callFailed)
	m.internal = m.Counter("kinesin_internal_errors_total", "Calls that failed for an internal reason; see the log.")
	m.auditLost = m.Counter("kinesin_audit_lost_total", "Acts whose audit record could not be stored; the log has it, if there was room.")
	m.ways = fromZero(m.Counters("kinesin_inbound_accepted_total", "Accepted tasks by where they were stored first: the inbound buffer, the store, the store "+
		"because the buffer failed or was slow (fallback), the buffer by a client that sends to it directly (direct), or the queue of a deliver lambda.", "way"), intake.Ways()...)
	m.rejected = fromZero(m.Counters("kinesin_inbound_rejected_total",
		"Messages and tasks of the inbound buffer, and tasks that may have run, that were set aside.", "reason"), ingest.Reasons()...)
	m.left = fromZero(m.Counters("kinesin_inbound_left_total", "Messages left in the inbound buffer for a later receive.", "why"), ingest.Lefts()...)
	m.consumed = m.Counter("kinesin_inbound_consumed_total", "Tasks moved from the inbound buffer to the store.")
	m.age = m.Histogram("kinesin_inbound_age_seconds", "Time since the oldest task of a batch from the inbound buffer was accepted.", latenessBuckets)
	m.pauses = m.Counter("kinesin_inbound_pauses_total", "Pauses in consuming the inbound buffer because it or the store failed.")
	m.registrations = fromZero(m.Counters("kinesin_registrations_total", "Changes of the state of a registration.", "outcome"), lambdas.Registrations()...)
	m.registrationStates = m.Gauges("kinesin_registrations",
		"Registrations of lambdas by their state in this process; refused includes those that cannot be read; unread is 1 while none can be read.", "outcome")
	m.setRegistrations(nil)
}

func (m *Metrics) addStores() {
	buckets := prometheus.ExponentialBuckets(20e-6, 2.5, 14)
	m.storeErrors = m.Counters("kinesin_store_errors_total", "Failed store operations; settle: writes whose outcome stayed unknown.", "op")
	m.storeTime = m.Histograms("kinesin_store_seconds", "Duration of store operations, until durable.", buckets, "op")
	m.fsync = m.Histogram("kinesin_store_fsync_seconds", "Time until a batch of writes of the embedded store was durable.", buckets)
	m.clockSteps = fromZero(m.Counters("kinesin_clock_steps_total", "Steps of this process's wall clock: forward or back.", "direction"), stepForward, stepBack)
	m.clockStep = m.Gauge("kinesin_clock_step_seconds", "Size of the last step of this process's wall clock; negative: back; 0: there was none.")
}

func (m *Metrics) addFleet() {
	m.clockAhead = m.Histogram("kinesin_fleet_clock_ahead_seconds",
		"How far the clock of another process was ahead, if by more than 100 ms.", []float64{.25, .5, 1, 2, 5, 10, 60})
	m.members = m.Gauge("kinesin_fleet_members", "Processes that share the partitions, as this process sees it; 0 if it is alone.")
	m.owned = m.Gauge("kinesin_partitions_owned", "Partitions owned by this process.")
	m.unowned = m.Gauge("kinesin_partitions_unowned",
		"Partitions whose owner, as this process sees it, has not shown for more than 10 s that it has read them and handles them.")
	m.moved = fromZero(m.Counters("kinesin_partitions_moved_total", "Partitions gained or lost by this process.", "direction"), "gained", "lost")
	m.warmed = m.Histogram("kinesin_partitions_warm_seconds",
		"Time from a change of the members or the lambdas until this process had read all its partitions.", latenessBuckets)
}

func (m *Metrics) addRooms() {
	used := m.scraped("kinesin_room_used",
		"How much callers have of what they share on this server, or of what the installation stores: bytes, calls or rows.", "room")
	most := m.scraped("kinesin_room_max", "Limit of kinesin_room_used.", "room")
	m.roomRefused = m.Counters("kinesin_room_refused_total",
		"Calls refused because their caller had its share of what callers share, or because all was taken.", "room")
	m.scrapes = append(m.scrapes, func(out *gauges) {
		for _, r := range m.rooms {
			out.add(used, float64(r.Used()), r.Name)
			out.add(most, float64(r.Most()), r.Name)
		}
	})
}

// WatchRooms shows rooms in the metrics, and logs whom they refuse. Call it before their first use.
func (m *Metrics) WatchRooms(log *slog.Logger, rooms ...*room.Room) {
	m.rooms = append(m.rooms, rooms...)
	for _, r := range rooms {
		refused := m.roomRefused.WithLabelValues(r.Name)
		r.Refused = func(who string) {
			refused.Inc()
			log.WarnContext(context.Background(), "a call is refused because its caller has its share, or because all is taken",
				slog.String("room", r.Name), slog.String("caller", who), slog.Int64("max", r.Most()))
		}
	}
}

func (m *Metrics) setRegistrations(states map[string]int) {
	for _, state := range lambdas.RegistrationStates() {
		m.registrationStates.WithLabelValues(state).Set(float64(states[state]))
	}
}

// version returns that of the program: by default what the Go toolchain recorded.
func (m *Metrics) version() string {
	recorded := "unknown"
	if info, found := debug.ReadBuildInfo(); found {
		recorded = cmp.Or(info.Main.Version, recorded)
	}
	return cmp.Or(m.config.Version, recorded)
}

// storeOp observes one store operation. A missing row and a cancelled call are no errors.
func (m *Metrics) storeOp(kind string, took time.Duration, err error) {
	m.storeTime.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
		m.storeErrors.WithLabelValues(kind).Inc()
	}
}

// Synced observes one batch of writes that an embedded store made durable.
func (m *Metrics) Synced(took time.Duration, _ int) { m.fsync.Observe(took.Seconds()) }

// Gatherer returns what collects all series.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// stage is the event at which a task's lateness is measured.
type stage uint8

const (
	stageEnqueued stage = iota
	stageClaimed
	stageStarted
	stageDelivered

	stageEnd
)

var stageTexts = [stageEnd]string{"enqueued", "claimed", "started", "delivered"}

// class is one priority of one lambda.
type class struct {
	lambda   uint32
	priority uint8
}

// classSeries are the cached series of a class.
type classSeries struct {
	name                             string // the value of the label lambda
	use                              *usage
	accepted, matched, expired, dead prometheus.Counter
	lateness                         [stageEnd]prometheus.Observer
	finished                         [task.OutcomeUnstarted + 1]prometheus.Counter
}

// of returns the series of a class, to count one use of it.
func (m *Metrics) of(l *catalog.Entry, priority uint8) *classSeries {
	s := m.made(l, priority)
	s.use.events.Add(1)
	return s
}

// made returns the series of a class. A scrape makes those of every class before their first use: Prometheus
// sees no increase in a series that begins at 1, so an alert would miss the first dead letter.
func (m *Metrics) made(l *catalog.Entry, priority uint8) *classSeries {
	if s := (*m.classes.Load())[class{l.Ref, priority}]; s != nil {
		return s
	}
	m.growing.Lock()
	defer m.growing.Unlock()
	all := m.withoutGone()
	if all[class{l.Ref, priority}] == nil {
		all[class{l.Ref, priority}] = m.newClass(l, priority)
	}
	m.classes.Store(&all)
	return all[class{l.Ref, priority}]
}

func (m *Metrics) newClass(l *catalog.Entry, priority uint8) *classSeries {
	lambda, name := m.labels.of(l, priority)
	s := &classSeries{
		name: lambda, use: m.labels.use(l.Ref), accepted: m.accepted.WithLabelValues(lambda, name), matched: m.matched.WithLabelValues(lambda, name),
		expired: m.expired.WithLabelValues(lambda, name), dead: m.dead.WithLabelValues(lambda, name),
	}
	for i, text := range stageTexts {
		s.lateness[i] = m.lateness.WithLabelValues(lambda, name, text)
	}
	if l.Mode == task.Deliver {
		m.undelivered.WithLabelValues(lambda, name) // from zero on
	}
	for o := task.OutcomeSuccess; int(o) < len(s.finished); o++ {
		s.finished[o] = m.finished.WithLabelValues(lambda, name, o.String())
	}
	return s
}

// rank gives series of their own to the lambdas that are used most; see lambdaLabels.
func (m *Metrics) rank() {
	m.growing.Lock()
	defer m.growing.Unlock()
	changed := m.labels.rank()
	if len(changed) == 0 {
		return
	}
	all := m.withoutGone()
	for c, s := range all {
		if slices.Contains(changed, c.lambda) {
			m.deleteSeries(s.name)
			delete(all, c)
		}
	}
	m.classes.Store(&all)
}

// withoutGone returns a copy of the classes of existing lambdas, and deletes the series of all other names.
func (m *Metrics) withoutGone() map[class]*classSeries {
	all := maps.Clone(*m.classes.Load())
	maps.DeleteFunc(all, func(c class, _ *classSeries) bool { return !m.existing(c.lambda) })
	m.labels.forget(m.existing)
	names := map[string]bool{}
	for _, s := range all {
		names[s.name] = true
	}
	for _, s := range *m.classes.Load() {
		if !names[s.name] {
			m.deleteSeries(s.name)
		}
	}
	return all
}

// deleteSeries deletes all series of a lambda that has some of its own.
func (m *Metrics) deleteSeries(lambda string) {
	if lambda == otherLabel {
		return
	}
	for _, matching := range m.ofLambdas {
		matching(prometheus.Labels{"lambda": lambda})
	}
}

// grew counts that shards were added to a lambda.
func (m *Metrics) grew(l *catalog.Entry) { m.grown.WithLabelValues(m.labels.lambda(l)).Inc() }

// waked counts a wake-up by the event that it led to.
func (m *Metrics) waked(kind task.EventKind) {
	if int(kind) < len(m.byEvent) {
		m.byEvent[kind].Inc()
	}
}
