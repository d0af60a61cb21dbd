package awsfaults_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// up is how long a server lives between two kills, on average.
const up = 1500 * time.Millisecond

// Each role has a process of its own, and each of them is killed in turn, workers included.
func TestEachRoleKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{roles: []string{"inbound", "scheduler,dispatcher", "hsc"}})
	for range 2 {
		harness.Supervise(t, r.worker(r.servers[2], harness.LeaseMin))
	}
	victim := harness.Supervise(t, r.worker(r.servers[2], harness.LeaseMin))
	l := r.load(r.Client)
	time.Sleep(up)
	kills := either(10, 1)
	for range kills {
		for i, name := range []string{"inbound", "scheduler", "hsc"} {
			r.killed("roles_"+name, r.servers[i])
		}
		victim.Kill()
		time.Sleep(up)
	}
	r.finish("roles", l.Stop())
	if s := checker.Summarize(r.history.Events()); s.ServerKills != 3*kills || s.Deaths < kills || s.Acked < 50*kills {
		t.Errorf("the run tested too little: %+v", s)
	}
}

// killed kills a server, lets it be gone for a moment, and waits for work to go on.
func (r *rig) killed(name string, s *harness.Server) {
	r.t.Helper()
	s.Crash()
	time.Sleep(rand.N(up / 2))
	began := time.Now()
	s.Start()
	harness.Figure(r.t, name+"_ready_after", time.Since(began))
	harness.Figure(r.t, name+"_next_start_after", r.nextStart(began))
	time.Sleep(up/2 + rand.N(up))
}

// Two servers with all roles share the partitions. One is killed and stays away for longer than its lease as
// a member: the other fires all of them. Then it comes back, and the other one is killed.
func TestServersOfAFleetKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, plan{roles: []string{"", ""}})
	var loads []*harness.Load
	for _, s := range r.servers {
		harness.StartWorker(t, r.worker(s, 30*time.Second))
		c := r.At(s)
		loads = append(loads, r.load(c))
	}
	time.Sleep(up)
	for range either(5, 1) {
		for _, s := range r.servers {
			s.Crash()
			time.Sleep(either(12*time.Second, 8*time.Second))
			s.Start()
			time.Sleep(up)
		}
	}
	r.finish("fleet", slices.Concat(loads[0].Stop(), loads[1].Stop()))
}
