package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/partition/partitiontest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
)

var _ partition.Membership = (*Membership)(nil)

// world is an API server, a store, and the process of the pod `own` among other pods, each with a process
// that has its row there. Time is that of a bubble.
type world struct {
	*api

	store    *store.Store
	cluster  *Cluster
	m        *Membership // of our pod
	self     *process
	others   map[string]*process
	relisted atomic.Int64
	broke    atomic.Int64
	log      runtest.Text
}

// process is the one in a pod, as far as its row goes.
type process struct {
	*fleet.Membership

	dead atomic.Bool // its writes do not get through any more
	end  func()
}

// mortal is the store as a process reaches it that may be killed.
type mortal struct {
	*store.Store
	p *process
}

var errDead = errors.New("killed")

func (m mortal) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	if m.p.dead.Load() {
		return nil, errDead
	}
	return m.Store.Controls(ctx, kind)
}

func (m mortal) PutControl(ctx context.Context, c store.Control) error {
	if m.p.dead.Load() {
		return errDead
	}
	return m.Store.PutControl(ctx, c)
}

func (m mortal) DeleteControl(ctx context.Context, c store.Control) error {
	if m.p.dead.Load() {
		return errDead
	}
	return m.Store.DeleteControl(ctx, c)
}

// inWorld starts our process among others, all of whose pods are ready; the first lists and looks are done.
func inWorld(t *testing.T, others []string, f func(w *world)) {
	t.Helper()
	inCluster(t, func(a *api) {
		w := newWorld(a)
		for _, name := range others {
			w.add(name)
		}
		w.begin()
		f(w)
	})
}

func newWorld(a *api) *world {
	t := a.t
	t.Helper()
	w := &world{api: a, others: map[string]*process{}, store: store.New(mem.New(), store.Config{Clock: clock.Real()})}
	cluster, err := Open(t.Context(), Config{
		Pod: own, Namespace: namespace, Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(&w.log, nil)), rest: a.config(),
		Hooks: Hooks{Relisted: func() { w.relisted.Add(1) }, Broke: func() { w.broke.Add(1) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.cluster = cluster
	return w
}

// begin starts our process; its pod is ready.
func (w *world) begin() {
	w.pod(own, true)
	w.start(fleet.Ready)
	w.pass(3 * time.Second)
}

// start starts our process in a state.
func (w *world) start(s fleet.State) {
	w.self = w.process(own, s)
	w.m = w.cluster.Over(w.self)
	runtest.Start(w.t, w.m.Run)
}

// process starts the process of a pod.
func (w *world) process(pod string, s fleet.State) *process {
	p := &process{}
	p.Membership = fleet.New(fleet.Config{
		Rows: mortal{w.store, p}, Self: fleet.NewName(pod, clock.Real().Uint64()), Host: pod, Group: w.cluster.Group(), Clock: clock.Real(), Log: silent(),
	})
	p.Declare(s)
	p.end = p.started(w.t)
	return p
}

// started runs the process until end, or until the test is over. It may be one that cannot write any more.
func (p *process) started(tb testing.TB) (end func()) {
	tb.Helper()
	return runtest.Start(tb, func(ctx context.Context) error {
		_ = p.Run(ctx)
		return nil
	})
}

// kill ends a process as kill -9 does: its row stays.
func (w *world) kill(pod string) {
	w.others[pod].dead.Store(true)
	w.others[pod].end()
}

// listEmpty makes the next list, which follows a 410, an empty one.
func (w *world) listEmpty() {
	for _, pod := range w.names() {
		w.removeUntold(pod)
	}
	w.breakWatches(true)
}

// add starts a pod with a process, and both are ready.
func (w *world) add(pod string) {
	w.pod(pod, true)
	w.others[pod] = w.process(pod, fleet.Ready)
}

// drop ends a pod with its process, as one that is scaled down.
func (w *world) drop(pod string) {
	w.others[pod].end()
	delete(w.others, pod)
	w.removePod(pod)
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) want(names ...string) {
	w.t.Helper()
	synctest.Wait()
	want := slices.Sorted(slices.Values(append(slices.Clip(names), own)))
	if got := w.m.Members(); !slices.Equal(got, slices.Compact(want)) {
		w.t.Errorf("members are %q, want %q", got, want)
	}
}

// until lets time go by until these are the members.
func (w *world) until(atMost time.Duration, names ...string) (took time.Duration) {
	w.t.Helper()
	want := slices.Compact(slices.Sorted(slices.Values(append(slices.Clip(names), own))))
	for began := time.Now(); ; w.pass(10 * time.Millisecond) {
		synctest.Wait()
		if took = time.Since(began); slices.Equal(w.m.Members(), want) {
			return took
		}
		if took > atMost {
			w.t.Fatalf("after %v members are %q, want %q", took, w.m.Members(), want)
		}
	}
}

var four = []string{"kinesin-old-a", "kinesin-old-b", "kinesin-new-a", "kinesin-new-c"}

func TestBothSetsOfARolloutAreOneFleet(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.want(four...)
		w.pod("stranger-a", true) // of another Deployment with the same labels
		w.want(four...)
		w.add("kinesin-new-d")
		w.until(0, append(four, "kinesin-new-d")...)
		if got := w.m.Self(); got != own {
			t.Errorf("self is %q", got)
		}
	})
}

func TestAPodThatIsNotReadyIsNoMember(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.pod("kinesin-new-d", false)
		w.others["kinesin-new-d"] = w.process("kinesin-new-d", fleet.Ready)
		w.pass(time.Hour) // it never is
		w.want(four...)
		if n := w.relisted.Load(); n < 2 || n > 12 {
			t.Errorf("%d lists because of one pod that is not ready in an hour", n)
		}
		w.pod("kinesin-new-d", true)
		w.until(0, append(four, "kinesin-new-d")...)
		w.pod("kinesin-old-a", false)
		w.until(0, "kinesin-old-b", "kinesin-new-a", "kinesin-new-c", "kinesin-new-d")
	})
}

func TestWhoLeavesIsOutAtOnce(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.terminate("kinesin-old-a") // the API server tells before the process knows
		w.until(0, four[1:]...)
		w.others["kinesin-old-b"].Declare(fleet.Leaving) // the row tells before the API server does
		w.until(500*time.Millisecond, four[2:]...)
	})
}

func TestAKilledProcessIsOutThoughItsPodSeemsReady(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.kill("kinesin-old-a")
		if took := w.until(8*time.Second, four[1:]...); took < 3*time.Second {
			t.Errorf("given up after %v", took)
		}
		w.others["kinesin-old-a"] = w.process("kinesin-old-a", fleet.Joining) // its container is started again
		w.pass(2 * time.Second)
		w.want(four[1:]...)
		w.others["kinesin-old-a"].Declare(fleet.Ready)
		w.until(500*time.Millisecond, four...)
	})
}

// Cut watches are noticed though contact is never lost for long; that they end every few minutes is nothing.
func TestWatchesThatBreakAreCounted(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.pass(time.Hour)
		if n := w.broke.Load(); n != 0 {
			w.t.Errorf("%d broke within an hour in which nothing happened", n)
		}
		for range 5 {
			w.breakWatches(false)
			w.pass(10 * time.Second)
		}
		if n := w.broke.Load(); n < 5 || n > 10 { // of pods, and of sets
			w.t.Errorf("%d broke of 5 for pods and 5 for sets", n)
		}
		w.goAway()
		before := w.broke.Load()
		w.pass(30 * time.Second)
		if n := w.broke.Load() - before; n < 5 {
			w.t.Errorf("%d broke in 30 s without an API server", n)
		}
	})
}

func TestGoneIsFollowedByAList(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.goAway()
		w.pass(500 * time.Millisecond)
		w.others["kinesin-new-d"] = w.process("kinesin-new-d", fleet.Joining)
		w.pod("kinesin-new-d", true)
		w.breakWatches(true)
		w.goBack()
		w.others["kinesin-new-d"].Declare(fleet.Ready)
		w.until(15*time.Second, append(four, "kinesin-new-d")...)
	})
}

func TestTheServerIsAwayForAWhile(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.goAway()
		w.pass(10 * time.Second)
		w.want(four...) // the last set
		w.kill("kinesin-old-a")
		w.until(8*time.Second, four[1:]...) // the rows tell who is gone
		w.others["kinesin-new-d"] = w.process("kinesin-new-d", fleet.Ready)
		w.until(2*time.Second, append(four[1:], "kinesin-new-d")...) // and who comes
		if age := w.m.ContactAge(); age < 15*time.Second {
			t.Errorf("contact %v ago", age)
		}
		w.pod("kinesin-new-d", true)
		w.goBack()
		took := time.Now()
		for good := false; !good; good, _, _ = w.m.contact() {
			w.pass(100 * time.Millisecond)
		}
		if time.Since(took) > 10*time.Second {
			t.Errorf("in contact again after %v", time.Since(took))
		}
		w.want(append(four[1:], "kinesin-new-d")...)
		w.pod("kinesin-old-b", false)
		w.until(0, append(four[2:], "kinesin-new-d")...) // followed as before
	})
}

func TestAWatchThatStandsStill(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.frozen.Store(true)
		w.add("kinesin-new-d")
		w.until(15*time.Second, append(four, "kinesin-new-d")...) // the row tells of a pod that is not known: list
		if w.relisted.Load() == 0 {
			t.Error("found without a list")
		}
		w.drop("kinesin-new-d")
		w.until(2*time.Second, four...)
		lists := w.lists.Load()
		w.pass(10 * time.Minute) // no bookmarks either
		if n := w.lists.Load() - lists; n < 2 || n > 16 {
			t.Errorf("%d lists in ten minutes of silence", n)
		}
		w.want(four...)
	})
}

func TestAServerThatIsBehindIsNotBelieved(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.travel()
		w.drop("kinesin-old-a")
		w.until(time.Second, four[1:]...)
		w.breakWatches(true)
		w.pass(30 * time.Second) // lists show the pod that is gone, as of then
		w.want(four[1:]...)
		if strings.Count(w.log.String(), "is behind") == 0 {
			t.Error("not told")
		}
		w.forward()
		w.add("kinesin-new-d")
		w.until(15*time.Second, append(four[1:], "kinesin-new-d")...)
	})
}

func TestAClusterThatWasRestored(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.mu.Lock()
		w.version = 5 // counts from the backup's on
		w.api.log, w.compacted = nil, 0
		w.mu.Unlock()
		w.breakWatches(false)
		w.pod("kinesin-old-a", true)
		w.pass(2 * behindMax)
		w.want(four...)
		w.pod("kinesin-old-a", false)
		w.until(20*time.Second, four[1:]...)
	})
}

func TestRightsThatAreTakenAway(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.refuseBy(http.StatusForbidden, "Forbidden", func(string, string) bool { return true })
		w.breakWatches(true)
		w.pass(time.Minute)
		w.want(four...)
		w.kill("kinesin-old-a")
		w.until(8*time.Second, four[1:]...)
		if strings.Count(w.log.String(), "forbidden by the Kubernetes API server") == 0 {
			t.Error("not told")
		}
		w.refuseNone()
		w.pass(10 * time.Second)
		w.pod("kinesin-old-b", false)
		w.until(0, four[2:]...)
	})
}

func TestOddObjects(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.odd.Store(true)
		w.pod("kinesin-old-a", false)
		w.until(10*time.Second, four[1:]...)
		w.pod("kinesin-old-a", true)
		w.until(10*time.Second, four...)
	})
}

func TestAProcessThatLeavesKeepsItsView(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.self.Declare(fleet.Leaving)
		w.terminate(own)
		w.drop("kinesin-old-a")
		w.add("kinesin-new-d")
		w.pass(5 * time.Second)
		w.want(four...)
	})
}

// A pod that was deleted by force, on a node that is cut off: another one has its share.
func TestAPodThatIsDeletedUnderItsProcess(t *testing.T) {
	inWorld(t, four, func(w *world) {
		w.removePod(own)
		synctest.Wait()
		if slices.Contains(w.m.Members(), own) || len(w.m.Members()) != 4 {
			t.Errorf("members are %q", w.m.Members())
		}
		w.put(resourcePods, podObject(own, true, object{"uid": "another"})) // a StatefulSet's next one
		synctest.Wait()
		if slices.Contains(w.m.Members(), own) {
			t.Error("the pod that has our name is taken for ours")
		}
	})
}

func TestStartWhileTheServerIsAway(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		w := newWorld(a)
		w.add("kinesin-old-a")
		w.goAway()
		w.begin()
		if got := w.m.Members(); got != nil {
			t.Errorf("members are %q before anything was listed", got)
		}
		w.until(listsMax, "kinesin-old-a")
	})
}

// A process that starts amid an implausible list takes those for members that say so, as the others do.
func TestStartAmidAnImplausibleList(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		w := newWorld(a)
		for _, pod := range four {
			w.add(pod)
			w.removePod(pod)
		}
		w.pass(time.Second)
		w.begin()
		w.want(four...)
		if w.m.Kept() != 4 {
			t.Errorf("%d kept", w.m.Kept())
		}
	})
}

func TestAnotherFleetInTheSameStoreIsTold(t *testing.T) {
	inWorld(t, four, func(w *world) {
		p := &process{}
		p.Membership = fleet.New(fleet.Config{Rows: mortal{w.store, p}, Self: "elsewhere-1", Clock: clock.Real(), Log: silent()})
		end := p.started(t)
		w.pass(time.Minute)
		end()
		w.want(four...)
		if n := strings.Count(w.log.String(), "processes outside this Deployment"); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
	})
}

func TestStalled(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.pass(time.Hour)
		if s := w.m.Stalled(); s > tickEvery {
			t.Errorf("stalled for %v", s)
		}
	})
}

// The membership of the suite is our pod's, among pods whose processes renew their rows.
func TestKubeConforms(t *testing.T) {
	partitiontest.Run(t, func(t *testing.T) partitiontest.Harness {
		t.Helper()
		a := newAPI(t)
		a.deployment()
		a.pod(own, false)
		t.Cleanup(a.Close)
		w := newWorld(a)
		w.begin()
		w.change("kinesin-old-a", own, "kinesin-old-b")
		return partitiontest.Harness{
			Membership: w.m, Change: w.change,
			Name:  func(i int) string { return fmt.Sprintf("kinesin-new-z%d", i) },
			Leave: func() { w.self.Declare(fleet.Leaving) },
			Lose: func() {
				w.goAway()
				w.self.dead.Store(true)
				w.pass(time.Minute)
			},
		}
	})
}

// change makes these the pods, with processes that are ready. None at all is what the API server claims
// alone.
func (w *world) change(members ...string) {
	if len(members) == 0 {
		w.listEmpty()
		w.pass(time.Minute)
		return
	}
	for pod := range w.others {
		if !slices.Contains(members, pod) {
			w.drop(pod)
		}
	}
	for _, pod := range members {
		switch {
		case pod == own:
			w.pod(own, true)
		case w.others[pod] == nil:
			w.add(pod)
		default:
			w.pod(pod, true)
		}
	}
	if !slices.Contains(members, own) {
		w.removePod(own)
	}
	w.pass(2 * time.Second)
}

func TestMostPodsAtOnceNeedBothSources(t *testing.T) {
	for name, lose := range map[string]func(w *world, pod string){
		"deleted":   func(w *world, pod string) { w.removePod(pod) },
		"not ready": func(w *world, pod string) { w.pod(pod, false) },
		"a minute apart": func(w *world, pod string) {
			w.pod(pod, false)
			w.pass(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, four, func(w *world) {
				for _, pod := range four[:3] {
					lose(w, pod)
				}
				w.want(four...)
				if w.m.Kept() != 3 || strings.Count(w.log.String(), "keeping them until both agree") == 0 {
					t.Errorf("%d kept", w.m.Kept())
				}
				for _, pod := range four[:3] {
					w.others[pod].end()
				}
				w.until(2*time.Second, four[3])
				if w.m.Kept() != 0 {
					t.Errorf("%d kept though both agree", w.m.Kept())
				}
			})
		})
	}
}
