package kube

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/partition/fleet"
)

// come makes a pod that is not ready, with a process that joins.
func (w *world) come(pod string) {
	w.pod(pod, false)
	w.others[pod] = w.process(pod, fleet.Joining)
}

// getReady is what happens to a pod whose process is warm: it says so, and a probe finds it a while later.
func (w *world) getReady(pod string) {
	p := w.others[pod]
	if pod == own {
		p = w.self
	}
	p.Declare(fleet.Ready)
	w.pass(2 * time.Second)
	w.pod(pod, true)
	w.pass(time.Second)
}

// seen is what others see of our process in the rows.
func (w *world) seen(by string) fleet.Peer {
	for _, p := range w.others[by].Peers() {
		if p.Host == own && p.Alive {
			return p
		}
	}
	return fleet.Peer{}
}

func TestAFleetThatStartsAtOnceSharesFromTheStart(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		w := newWorld(a)
		for _, pod := range four {
			w.pod(pod, false)
		}
		w.start(fleet.Joining)
		for _, pod := range four {
			w.pass(300 * time.Millisecond)
			w.come(pod)
		}
		for w.m.Members() == nil {
			w.pass(10 * time.Millisecond)
		}
		w.want(four...) // we never took ourselves for the only one
		changed := w.m.Changed()
		for _, pod := range []string{four[0], four[2], four[1], own} {
			w.getReady(pod)
		}
		if p := w.seen(four[0]); p.State != fleet.Ready || !p.Founder {
			t.Errorf("%+v before other watches surely show our pod: want a founder still", p)
		}
		w.pass(settleAfter + tickEvery + fleet.RenewEvery)
		if p := w.seen(four[0]); p.State != fleet.Ready || p.Founder {
			t.Errorf("%+v when its pod has been ready for %v", p, settleAfter)
		}
		w.getReady(four[3])
		for _, pod := range four {
			w.others[pod].Settle()
		}
		w.pass(time.Minute)
		select {
		case <-changed:
			t.Errorf("the members changed while the fleet got ready; they are %q", w.m.Members())
		default:
		}
		if w.m.Kept() != 0 || w.relisted.Load() != 0 {
			t.Errorf("%d kept, %d lists: the sources agree", w.m.Kept(), w.relisted.Load())
		}
		w.pod(four[0], false)
		w.until(0, four[1:]...) // the watch is what tells first, from here on
		w.come("kinesin-new-d")
		w.pass(5 * time.Second)
		w.want(four[1:]...) // others are ready
	})
}

// The pods of a fleet are made one after the other: who is warm before the last of them is there waits for
// it.
func TestAFleetWhosePodsAreMadeOneByOne(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		w := newWorld(a)
		a.replicaSet("kinesin-new", "new", fleetUID, len(four)+1)
		w.pod(own, false)
		w.start(fleet.Joining)
		for _, pod := range four {
			w.pass(300 * time.Millisecond)
			if got := w.m.Members(); got != nil {
				t.Fatalf("members are %q before %s is there", got, pod)
			}
			w.come(pod)
		}
		for w.m.Members() == nil {
			w.pass(10 * time.Millisecond)
		}
		w.want(four...)
	})
}

// A pod that is wanted and never comes, because there is no room for it, holds the others up once.
func TestAPodThatIsWantedAndNeverComes(t *testing.T) {
	inCluster(t, func(a *api) {
		w := newWorld(a)
		a.replicaSet("kinesin-new", "new", fleetUID, 2)
		w.pod(own, false)
		w.start(fleet.Joining)
		w.pass(gatherMax - tickEvery)
		if got := w.m.Members(); got != nil {
			w.t.Errorf("members are %q before both are there", got)
		}
		w.until(2 * tickEvery)
	})
}

func TestPodsThatStartLaterThanTheFirst(t *testing.T) {
	inCluster(t, func(a *api) {
		w := newWorld(a)
		w.pod(four[0], false)
		w.start(fleet.Joining)
		w.pass(gatherMax + tickEvery)
		w.want() // it does not wait for longer
		w.come(four[0])
		w.until(500*time.Millisecond, four[0]) // nobody is warm yet
		w.getReady(own)
		w.want(four[0])
		w.come(four[1])
		w.pass(time.Minute)
		w.want(four[0]) // the second found us ready
	})
}

// A process that is warm and whose pod is not found ready is no member for longer either, once others are.
func TestAFounderWhosePodIsNeverReady(t *testing.T) {
	inCluster(t, func(a *api) {
		w := newWorld(a)
		for _, pod := range four {
			w.come(pod)
		}
		w.start(fleet.Joining)
		w.until(gatherMax+tickEvery, four...)
		w.self.Declare(fleet.Ready)
		w.pass(2 * fleet.FounderMax)
		if p := w.seen(four[0]); p.State != fleet.Ready || !p.Founder {
			w.t.Errorf("%+v while no pod is ready: want a founder still", p)
		}
		w.getReady(four[0])
		w.pass(fleet.FounderMax + tickEvery + fleet.RenewEvery)
		if p := w.seen(four[0]); p.State != fleet.Ready || p.Founder {
			w.t.Errorf("%+v when another pod has been ready for %v", p, fleet.FounderMax)
		}
	})
}

// A pod that joins and never gets ready is no member for longer than its row or its pod is there, nor for
// longer than FounderMax when most are ready.
func TestFoundersThatNeverGetReady(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(w *world, pod string)
		within time.Duration
	}{
		"killed":  {func(w *world, pod string) { w.kill(pod) }, 8 * time.Second},
		"ends":    {func(w *world, pod string) { w.terminate(pod) }, 0},
		"deleted": {func(w *world, pod string) { w.removePod(pod) }, 0},
		"stuck": {func(w *world, _ string) {
			for _, pod := range []string{own, four[1], four[2]} {
				w.getReady(pod)
			}
		}, fleet.FounderMax + 4*fleet.RenewEvery},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(a *api) {
				w := newWorld(a)
				for _, pod := range four {
					w.come(pod)
				}
				w.start(fleet.Joining)
				w.until(gatherMax+tickEvery, four...)
				w.getReady(four[3])
				w.want(four...)
				c.end(w, four[0])
				w.until(c.within, four[1:]...)
			})
		})
	}
}

// A fleet all of whose processes are killed leaves rows that seem alive to those who start.
func TestAFleetThatWasKilledAsAWhole(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		w := newWorld(a)
		for _, pod := range four[:2] {
			w.add(pod)
		}
		w.pass(5 * time.Second)
		for _, pod := range four[:2] {
			w.kill(pod)
			w.removePod(pod)
		}
		w.pod(four[3], false)
		w.come(four[2])
		w.start(fleet.Joining)
		w.pass(700 * time.Millisecond)
		w.come(four[3])
		want := []string{four[2], own, four[3]}
		slices.Sort(want)
		for ; !slices.Equal(w.m.Members(), want); w.pass(10 * time.Millisecond) {
			if got := w.m.Members(); len(got) == 1 || len(got) == 2 {
				t.Fatalf("members are %q", got)
			}
		}
		for _, pod := range []string{own, four[2], four[3]} {
			w.getReady(pod)
			w.want(four[2:]...)
		}
	})
}

// Everybody is not ready by the API server alone: who joins then is no member for it.
func TestWhoJoinsWhileAllSeemNotReady(t *testing.T) {
	inWorld(t, four[:2], func(w *world) {
		for _, pod := range append(slices.Clip(four[:2]), own) {
			w.pod(pod, false)
		}
		w.come(four[2])
		w.pass(time.Minute)
		w.want(four[:2]...)
	})
}
