package kube

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/partition/partitiontest"
	"github.com/kinesin-io/kinesin/task"
)

// settled is rows that do not change: every pod's process says that it is ready.
type settled struct {
	peers []fleet.Peer
	heard chan struct{}
}

func (s *settled) Members() []string      { return []string{own} }
func (s *settled) Peers() []fleet.Peer    { return slices.Clone(s.peers) }
func (s *settled) Heard() <-chan struct{} { return s.heard }
func (s *settled) Declared() fleet.State  { return fleet.Ready }
func (s *settled) Hurry()                 {}
func (s *settled) Settle()                {}

// bigPod is as long as the pods of a cluster with a mesh and probes are: about 7 KB.
func bigPod(name string, ready bool) object {
	return with(podObject(name, ready, nil), object{
		"managedFields": []any{object{"manager": "kubelet", "fieldsV1": object{"f:status": strings.Repeat("f:condition ", 250)}}},
		"annotations":   object{"checksum/config": strings.Repeat("0123456789abcdef", 200)},
	})
}

// crowd is a membership of so many pods, over an API server in this process without sockets.
func crowd(b *testing.B, pods int) (*api, *Membership, []string) {
	b.Helper()
	a := newAPI(b)
	a.deployment()
	rows := &settled{heard: make(chan struct{})}
	names := make([]string, 0, pods-1)
	for i := range pods - 1 {
		name := fmt.Sprintf("kinesin-new-%05d", i)
		names = append(names, name)
		a.put(resourcePods, bigPod(name, true))
		rows.peers = append(rows.peers, fleet.Peer{Process: name + "-0", Host: name, Group: "prod/Deployment/kinesin", Alive: true})
	}
	a.put(resourcePods, bigPod(own, true))
	cluster, err := a.open()
	if err != nil {
		b.Fatal(err)
	}
	m := cluster.Over(rows)
	changed := m.Changed()
	b.Cleanup(a.Close)
	runtest.Start(b, m.Run)
	<-changed
	return a, m, names
}

func partitionsOf(n int) []task.Partition {
	all := make([]task.Partition, n)
	for i := range all {
		all[i] = task.Partition{Lambda: uint32(i / 6), Priority: uint8(i % 3), Shard: uint16(i / 3 % 2)}
	}
	return all
}

// BenchmarkWatchEvent is the time from a change of a pod's readiness at the API server until the membership
// has told of it (told_*), and until the partitions are assigned anew (assigned_*).
func BenchmarkWatchEvent(b *testing.B) {
	for _, c := range []struct{ pods, partitions int }{{3, 600}, {50, 6000}, {500, 100_000}} {
		b.Run(fmt.Sprintf("pods=%d/partitions=%d", c.pods, c.partitions), func(b *testing.B) {
			a, m, names := crowd(b, c.pods)
			all := partitionsOf(c.partitions)
			var told, assigned []time.Duration
			ready := true
			for b.Loop() {
				ready = !ready
				changed := m.Changed()
				began := time.Now()
				a.put(resourcePods, bigPod(names[0], ready))
				<-changed
				told = append(told, time.Since(began))
				partitiontest.Owned(m, all)
				assigned = append(assigned, time.Since(began))
			}
			for name, times := range map[string][]time.Duration{"told": told, "assigned": assigned} {
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds()), name+"_p50_us")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), name+"_p99_us")
			}
		})
	}
}

// BenchmarkMemory is what a membership of 500 pods holds on to, and what its first list costs.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		a, m, _ := crowd(b, 500)
		a.objects, a.log = nil, nil // of the server
		b.ReportMetric(float64(heap()-before)/1024, "kept_KiB")
		runtime.KeepAlive(m)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkEvaluate is one look at both sources of 500 pods.
func BenchmarkEvaluate(b *testing.B) {
	_, m, _ := crowd(b, 500)
	b.ReportAllocs()
	for b.Loop() {
		m.update(func(*inventory) bool { return true })
	}
}
