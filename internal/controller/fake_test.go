package controller_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

// epoch is when virtual time begins.
var epoch = task.FromMillis(1_800_000_000_000)

// hsc is a fake server of one worker.
type hsc struct {
	clock clock.Clock

	mu        sync.Mutex
	registers int
	previous  *kinesinv1.PreviousLease // of the newest registration
	acks      []*kinesinv1.ResultAck   // with which the next one is answered
	unproven  bool                     // it is a server that knows of no proofs
	beats     []*kinesinv1.HeartbeatRequest
	beatErr   error
	beatDelay chan struct{} // when not nil, a heartbeat is answered when it is closed
	answer    *kinesinv1.HeartbeatResponse
	lease     time.Duration // 0: 15 s
	down      bool
	mute      bool // new streams are accepted and never answered
	hangs     bool // calls of Work do not return
	deaf      bool // new streams take nothing
	streams   []*stream
	left      int
}

func (h *hsc) Register(_ context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return nil, api.ErrUnavailable
	}
	h.registers++
	h.previous = r.Previous
	response := &kinesinv1.RegisterResponse{
		Worker: "w" + string(rune('0'+h.registers)), Lease: cmp.Or(h.lease, 15*time.Second).Microseconds(), Heartbeat: (cmp.Or(h.lease, 15*time.Second) / 4).Microseconds(), Acks: h.acks,
	}
	if !h.unproven {
		response.Proof = []byte("proof of " + response.Worker)
	}
	return response, nil
}

func (h *hsc) Heartbeat(ctx context.Context, r *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error) {
	h.mu.Lock()
	h.beats = append(h.beats, r)
	delay, err, answer := h.beatDelay, h.beatErr, h.answer
	h.mu.Unlock()
	if delay != nil {
		select {
		case <-delay:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	if answer == nil {
		answer = &kinesinv1.HeartbeatResponse{}
	}
	return answer, nil
}

func (h *hsc) Leave(context.Context, *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left++
	return &kinesinv1.LeaveResponse{}, nil
}

func (h *hsc) Work(ctx context.Context) (controller.Stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return nil, api.ErrUnavailable
	}
	s := &stream{ctx: ctx, clock: h.clock, deaf: h.deaf, inbox: make(chan *kinesinv1.WorkResponse, 100), broken: make(chan error, 1)}
	h.streams = append(h.streams, s)
	if h.hangs {
		h.mu.Unlock()
		<-ctx.Done()
		h.mu.Lock()
		return nil, ctx.Err()
	}
	if !h.mute {
		s.inbox <- &kinesinv1.WorkResponse{}
	}
	return s, nil
}

func (h *hsc) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// stream is the fake server's side of a Work call.
type stream struct {
	ctx    context.Context //nolint:containedctx // what Close of the real one looks at
	clock  clock.Clock
	deaf   bool
	inbox  chan *kinesinv1.WorkResponse
	broken chan error

	mu   sync.Mutex
	sent []*kinesinv1.WorkRequest
	at   []task.Instant
}

func (s *stream) Send(r *kinesinv1.WorkRequest) error {
	if s.deaf {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return io.EOF
	}
	s.sent = append(s.sent, r)
	s.at = append(s.at, s.clock.Now())
	return nil
}

func (s *stream) Receive() (*kinesinv1.WorkResponse, error) {
	select {
	case r := <-s.inbox:
		return r, nil
	case err := <-s.broken:
		return nil, err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *stream) Close() error { return nil }

func (s *stream) results() (all []*kinesinv1.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.sent {
		all = append(all, r.Results...)
	}
	return all
}

func (s *stream) started() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.sent {
		n += len(r.Started)
	}
	return n
}

func (s *stream) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.sent, func(r *kinesinv1.WorkRequest) bool { return r.Drain })
}

// rig is a controller in virtual time with a fake server. It lives in a synctest bubble.
type rig struct {
	*testing.T

	time   *clock.Virtual
	sleepy *clocktest.Settable
	hsc    *hsc
	stop   context.CancelFunc
	ended  chan error
	runs   chan *run
	over   chan struct{} // closed when the test has ended: handlers return
	hooks  struct{ fenced, lost, exited atomic.Int64 }
}

// run is a running handler: it returns what the test sends to done.
type run struct {
	ctx  context.Context //nolint:containedctx // the handler's, for the test to look at
	work *kinesinv1.Claimed
	at   task.Instant
	done chan controller.Outcome
}

func inBubble(t *testing.T, test func(r *rig), change ...func(*controller.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(epoch, 1)
		v.Settle(synctest.Wait)
		r := &rig{T: t, time: v, sleepy: &clocktest.Settable{Clock: v.Process(0), Since: epoch}, ended: make(chan error, 1), runs: make(chan *run, 100), over: make(chan struct{})}
		r.hsc = &hsc{clock: r.sleepy}
		cfg := controller.Config{
			Backend: r.hsc, Execute: r.execute, Groups: []controller.Group{{Lambdas: []string{"mail"}, Slots: 4}},
			Clock: r.sleepy, Grace: 10 * time.Second, KillAfter: 2 * time.Second,
			Exit: func(int) { r.hooks.exited.Add(1) },
			Hooks: controller.Hooks{
				Fenced:    func(*kinesinv1.Claimed) { r.hooks.fenced.Add(1) },
				LeaseLost: func(int) { r.hooks.lost.Add(1) },
			},
		}
		for _, c := range change {
			c(&cfg)
		}
		c, err := controller.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		r.stop = stop
		go func() { r.ended <- c.Run(ctx) }()
		synctest.Wait()
		defer func() {
			stop()
			close(r.over)
			r.pass(time.Minute)
		}()
		test(r)
	})
}

func (r *rig) execute(ctx context.Context, w *kinesinv1.Claimed) controller.Outcome {
	run := &run{ctx: ctx, work: w, at: r.sleepy.Now(), done: make(chan controller.Outcome)}
	r.runs <- run
	select {
	case o := <-run.done:
		return o
	case <-r.over:
		return controller.Outcome{Kind: task.OutcomeSuccess}
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	synctest.Wait()
	r.time.Advance(d)
	synctest.Wait()
}

// suspend lets time pass that the monotonic clock does not see.
func (r *rig) suspend(d time.Duration) { r.sleepy.Suspend(d) }

// step sets the wall clock.
func (r *rig) step(by time.Duration) { r.sleepy.Step(by) }

func (r *rig) stream() *stream {
	r.Helper()
	synctest.Wait()
	r.hsc.mu.Lock()
	defer r.hsc.mu.Unlock()
	if len(r.hsc.streams) == 0 {
		r.Fatal("no stream is open")
	}
	return r.hsc.streams[len(r.hsc.streams)-1]
}

func (r *rig) streams() int {
	synctest.Wait()
	r.hsc.mu.Lock()
	defer r.hsc.mu.Unlock()
	return len(r.hsc.streams)
}

// push sends tasks to the worker.
func (r *rig) push(tasks ...*kinesinv1.Claimed) {
	r.Helper()
	r.stream().inbox <- &kinesinv1.WorkResponse{Tasks: tasks}
	synctest.Wait()
}

// acknowledge answers all results of the newest stream with the same problem.
func (r *rig) acknowledge(p *kinesinv1.Problem) {
	r.Helper()
	s := r.stream()
	response := &kinesinv1.WorkResponse{}
	for _, result := range s.results() {
		response.Acks = append(response.Acks, &kinesinv1.ResultAck{Task: result.Task, Attempt: result.Attempt, Problem: p})
	}
	s.inbox <- response
	synctest.Wait()
}

// started returns the handler that started next.
func (r *rig) started() *run {
	r.Helper()
	synctest.Wait()
	select {
	case run := <-r.runs:
		return run
	default:
		r.Fatal("no handler started")
		return nil
	}
}

func (r *rig) wantNoStart() {
	r.Helper()
	synctest.Wait()
	select {
	case <-r.runs:
		r.Fatal("a handler started")
	default:
	}
}

// ends lets a handler return.
func (r *rig) ends(run *run, o task.Outcome) {
	run.done <- controller.Outcome{Kind: o}
	synctest.Wait()
}

func (r *rig) wantResults(want ...string) {
	r.Helper()
	var have []string
	for _, result := range r.stream().results() {
		have = append(have, result.Outcome)
	}
	if !slices.Equal(have, want) {
		r.Fatalf("results on the stream are %q, want %q", have, want)
	}
}

func (r *rig) wantCause(run *run, want error) {
	r.Helper()
	synctest.Wait()
	if have := context.Cause(run.ctx); !errors.Is(have, want) {
		r.Fatalf("the handler's context ended with %v, want %v", have, want)
	}
}

func (r *rig) wantEnd(want error) {
	r.Helper()
	synctest.Wait()
	select {
	case err := <-r.ended:
		if !errors.Is(err, want) {
			r.Fatalf("Run returned %v, want %v", err, want)
		}
	default:
		r.Fatal("Run goes on")
	}
}

func (r *rig) wantRunning() {
	r.Helper()
	synctest.Wait()
	select {
	case err := <-r.ended:
		r.Fatalf("Run returned %v", err)
	default:
	}
}

func (r *rig) beats() int {
	synctest.Wait()
	r.hsc.mu.Lock()
	defer r.hsc.mu.Unlock()
	return len(r.hsc.beats)
}

func taskID(n int) []byte { return binary.BigEndian.AppendUint64(make([]byte, 8), uint64(n)) }

// claimed returns the nth task, due now.
func claimed(n int) *kinesinv1.Claimed {
	return &kinesinv1.Claimed{
		Task: taskID(n), Id: "k1-task", Lambda: "mail", Attempt: 1, MaxAttempts: 10, Due: int64(epoch), Payload: []byte("{}"),
	}
}
