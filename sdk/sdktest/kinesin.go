package sdktest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/inproc"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/partition"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// Defaults of the options, in real time.
const (
	PatienceDefault = time.Second
	StallDefault    = 10 * time.Second
)

// seed makes the jitter of retries the same in every run of a test.
const seed = 1

// Kinesin is a server in memory and in virtual time. Its methods may be called from any goroutine, except
// that those which can fail the test have to be called from the goroutine of the test, and that handlers may
// call only Now, Client, Admin and Sleep.
type Kinesin struct {
	tb    reporter
	cfg   config
	time  *clock.Virtual
	clock clock.Clock

	tracker   *tracker
	outbox    *outbox
	store     *storemem.Driver
	node      *node.Node
	transport *inproc.Transport
	client    *sdk.Client
	admin     *admin.Client
	log       *output

	base     context.Context //nolint:containedctx // ended by Close
	end      context.CancelFunc
	nodeOver chan struct{} // closed when the server has ended
	nodeErr  error         // its error, once nodeOver is closed
	closing  sync.Once

	advancing sync.Mutex // held while time moves

	mu    sync.Mutex // guards stops
	stops []func()   // of the workers
}

// reporter reports failures.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// panics is the reporter where there is no test.
type panics struct{}

func (panics) Helper()                           {}
func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

type config struct {
	start    time.Time
	patience time.Duration
	stall    time.Duration
	log      *slog.Logger
	codec    sdk.PayloadCodec
	blobs    sdk.BlobStore
	limit    int
}

// Option changes a Kinesin.
type Option func(*config)

// StartAt sets when virtual time begins, in whole seconds. The default is the present.
func StartAt(t time.Time) Option { return func(c *config) { c.start = t } }

// Patience sets after how long without any event, in real time, a handler that has used its context is
// assumed to wait on it for virtual time. The default is PatienceDefault. Handlers that are really slow need
// more; Sleep needs none.
func Patience(d time.Duration) Option { return func(c *config) { c.patience = d } }

// Stall sets how long, in real time, a handler may block before the test fails. The default is StallDefault.
func Stall(d time.Duration) Option { return func(c *config) { c.stall = d } }

// Logger sets where server and workers log. By default warnings and errors go to the test's output.
func Logger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// PayloadCodec gives the client, and so the workers, a payload codec (sdk.WithPayloadCodec).
func PayloadCodec(codec sdk.PayloadCodec) Option { return func(c *config) { c.codec = codec } }

// Blobs gives the client, and so the workers, a place for payloads of more than limit bytes (sdk.WithBlobs).
func Blobs(store sdk.BlobStore, limit int) Option {
	return func(c *config) { c.blobs, c.limit = store, limit }
}

// New starts a Kinesin that ends with the test.
func New(tb testing.TB, opts ...Option) *Kinesin {
	tb.Helper()
	k := open(tb, tb.Output(), opts)
	tb.Cleanup(k.Close)
	return k
}

// Open starts a Kinesin without a test, as in an example. The caller has to Close it. It panics where New
// would fail the test.
func Open(opts ...Option) *Kinesin { return open(panics{}, io.Discard, opts) }

func open(tb reporter, logs io.Writer, opts []Option) *Kinesin {
	tb.Helper()
	k := &Kinesin{tb: tb, log: &output{w: logs}, nodeOver: make(chan struct{})}
	for _, o := range opts {
		o(&k.cfg)
	}
	if k.cfg.start.IsZero() {
		k.cfg.start = clock.Real().Now().Time()
	}
	k.cfg.patience = cmp.Or(max(k.cfg.patience, 0), PatienceDefault)
	k.cfg.stall = cmp.Or(max(k.cfg.stall, 0), StallDefault)
	if k.cfg.log == nil {
		k.cfg.log = slog.New(slog.NewTextHandler(k.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	k.time = clock.NewVirtual(task.InstantOf(k.cfg.start.Truncate(time.Second)), seed)
	k.clock = k.time.Process(0)
	k.base, k.end = context.WithCancel(context.Background())
	k.compose()
	return k
}

func (k *Kinesin) compose() {
	k.tracker, k.store = newTracker(), storemem.New()
	k.outbox = &outbox{Driver: queuemem.New(k.time.Process(0), queuemem.Config{DepthMax: math.MaxInt32}), now: k.clock.Now}
	n, err := node.New(k.base, node.Config{
		Store: k.tracker.Store(k.store), Queue: k.outbox,
		Membership: partition.Static("sdktest"), Clock: k.time.Process(0), Log: k.cfg.log,
		QueueDepthMax: math.MaxInt32, DeliverDirect: -1, Stepped: true, Rests: k.tracker.Signal,
	})
	if err != nil {
		k.tb.Fatalf("sdktest: start the server: %v", err)
	}
	k.tracker.Server = n
	k.node, k.transport = n, inproc.New(node.Trusting(n.Handler()))
	go func() {
		defer close(k.nodeOver)
		k.nodeErr = n.Run(k.base)
	}()
	k.client, err = sdk.NewClient("http://sdktest",
		sdk.WithHTTPClient(&http.Client{Transport: k.transport}), sdkconfig.WithClock(k.clock), sdk.WithLogger(k.cfg.log),
		sdk.WithCallTimeout(forever), sdk.WithTries(1), // a pause would never end while time stands still
		sdkconfig.WithControllers(k.follow), sdk.WithPayloadCodec(k.cfg.codec), sdk.WithBlobs(k.cfg.blobs, k.cfg.limit))
	if err != nil {
		k.tb.Fatalf("sdktest: make the client: %v", err)
	}
	k.admin = admin.New(k.client)
}

// forever is longer than any test.
const forever = 100 * 365 * 24 * time.Hour

// Client returns a client of this server.
func (k *Kinesin) Client() *sdk.Client { return k.client }

// Admin returns a client of this server for what operators do.
func (k *Kinesin) Admin() *admin.Client { return k.admin }

// Now returns the virtual time. Give it to code under test instead of time.Now.
func (k *Kinesin) Now() time.Time { return k.time.Now().Time() }

// Lambda creates a lambda, with one settings value or the server's defaults. It fails the test if the lambda
// exists with other settings.
func (k *Kinesin) Lambda(name string, settings ...admin.Lambda) admin.Lambda {
	k.tb.Helper()
	var want admin.Lambda
	switch len(settings) {
	case 0:
	case 1:
		want = settings[0]
	default:
		k.tb.Fatalf("sdktest: lambda %s: %d settings, want one at most", name, len(settings))
	}
	want.Name = name
	have, _, err := k.admin.Lambdas.Create(k.base, want)
	if err != nil {
		k.tb.Fatalf("sdktest: create lambda %s: %v", name, err)
	}
	return have
}

// Close stops the workers, ends the contexts of their handlers at once, and stops the server. A Kinesin of
// New closes itself at the end of the test.
func (k *Kinesin) Close() { k.closing.Do(k.shut) }

func (k *Kinesin) shut() {
	k.tb.Helper()
	k.mu.Lock()
	stops := k.stops
	k.stops = nil
	k.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	k.end()
	<-k.nodeOver
	if k.nodeErr != nil {
		k.tb.Errorf("sdktest: the server ended: %v", k.nodeErr)
	}
	k.client.Close()
	k.transport.Close()
	if err := k.node.Close(); err != nil {
		k.tb.Errorf("sdktest: close the server: %v", err)
	}
	k.log.close()
}

// output is the log of a test. It discards what is written after the end of the test.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(line)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
