package faults_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

const (
	innocents       = 20
	longestInnocent = 2 * time.Second
	poisonMillis    = 300
	deathsMax       = 3
	freshEvery      = 500 * time.Millisecond
)

// One task kills its process each time. It is put aside after three deaths at most, and nobody else pays for
// it.
func TestPoison(t *testing.T) {
	t.Parallel()
	poisoned(newSite(t, matched, admin.Lambda{}), "poison", 1, 2)
}

// Several such tasks start in one process at once.
func TestPoisons(t *testing.T) {
	t.Parallel()
	poisoned(newSite(t, queued, admin.Lambda{}), "poisons", 3, 2)
}

// There is only one process.
func TestPoisonInTheOnlyProcess(t *testing.T) {
	t.Parallel()
	poisoned(newSite(t, matched, admin.Lambda{}), "poison_alone", 1, 1)
}

// The server sees that the processes have ended, and waits for no lease.
func TestPoisonBeside(t *testing.T) {
	t.Parallel()
	poisoned(newSiteOf(t, harness.ServerOptions{Queued: queued}), "poison_beside", 1, 2)
}

// poisoned runs poisons among innocents, in processes that are started again when they die, while
// new tasks keep coming.
func poisoned(s *harness.Site, name string, poisons, processes int) {
	s.T.Helper()
	wanted := repeat(poisons, harness.Wanted{Job: job.Job{Do: job.Exiting, Millis: poisonMillis}, Want: "dead"})
	for i := range innocents {
		wanted = append(wanted, harness.Wanted{Job: job.Job{Millis: int64(1000 + 1000*i/innocents)}})
	}
	tasks := s.Schedule(wanted...)
	begun := time.Now()
	var workers []*harness.Supervised
	for range processes {
		workers = append(workers, s.Supervise(harness.WorkerOptions{Slots: innocents + poisons, Lease: lease()}))
	}

	fresh := startFresh(s)
	infos := s.Settle(3*time.Minute, tasks)
	freshInfos := s.Finish(fresh())
	deaths := 0
	for _, w := range workers {
		deaths += w.Deaths()
	}
	harness.Figure(s.T, name+"_lease", lease())
	harness.Figure(s.T, name+"_process_deaths", deaths)
	if deaths > deathsMax*poisons {
		s.T.Errorf("%d processes died of %d tasks, want at most %d each", deaths, poisons, deathsMax)
	}
	judgePoisons(s, name, infos[:poisons], begun, processes)
	judgeInnocents(s, name, infos[poisons:], freshInfos, heldUpMax(processes))
}

// heldUpMax is for how long tasks under no suspicion wait at most: half of the processes serve them at any
// time, and the only one takes nothing while what it runs comes to an end, and then while a blamed task runs.
func heldUpMax(processes int) time.Duration {
	if processes == 1 {
		return 2 * longestInnocent
	}
	return longestInnocent
}

// startFresh schedules a short task every now and then, until the returned function is called.
func startFresh(s *harness.Site) func() []sdk.ID {
	stop, done := make(chan struct{}), make(chan []sdk.ID)
	go func() {
		var all []sdk.ID
		tick := time.NewTicker(freshEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				acked, err := s.Try(s.T.Context(), harness.Wanted{Job: job.Job{Millis: 5}})
				if err != nil {
					s.T.Error(err)
				}
				all = append(all, acked...)
			case <-stop:
				done <- all
				return
			}
		}
	}()
	return func() []sdk.ID {
		close(stop)
		return <-done
	}
}

func judgePoisons(s *harness.Site, name string, infos []sdk.TaskInfo, begun time.Time, processes int) {
	s.T.Helper()
	var last time.Time
	for _, info := range infos {
		deaths := s.History.Count(func(e checker.Event) bool {
			return e.Kind == checker.Ended && e.Task == string(info.ID) && e.Outcome == checker.Poisoned
		})
		harness.Figure(s.T, name+"_deaths", deaths)
		if deaths > deathsMax || info.State != sdk.StateDead || info.Failures != 0 {
			s.T.Errorf("poison %s: %d deaths, %s with %d failures", info.ID, deaths, info.State, info.Failures)
		}
		if info.Ended.After(last) {
			last = info.Ended
		}
	}
	// A lease for each death, and the bystanders that run apart before it; in between others have their turn,
	// for as long.
	bar := time.Duration(len(infos))*deathsMax*lease() + 2*innocents*longestInnocent/time.Duration(processes)
	harness.Within(s.T, name+"_dead_after", last.Sub(begun), bar+slack)
}

func judgeInnocents(s *harness.Site, name string, tasks, fresh []sdk.TaskInfo, heldUp time.Duration) {
	s.T.Helper()
	charged := 0
	for _, info := range append(tasks, fresh...) {
		if info.State != sdk.StateSuccess || info.Failures != 0 {
			charged++
			s.T.Errorf("innocent %s: %s with %d failures", info.ID, info.State, info.Failures)
		}
	}
	harness.Figure(s.T, name+"_innocents_charged", charged)
	var late []time.Duration
	for i := range fresh { // as the workers saw it: the server knows nothing of a start in a process that died at once
		start := s.History.StartOf(fresh[i].ID, 0, soon)
		late = append(late, time.UnixMicro(start.At).Sub(fresh[i].Due))
	}
	harness.Within(s.T, name+"_first_starts_delayed", longest(late), heldUp+slack)
}

// Poisons keep arriving, each on its own, while those before are put aside: bystanders that were beside
// several of them are not given up for it.
func TestPoisonsThatKeepArriving(t *testing.T) {
	t.Parallel()
	const poisons, every, processes = 6, 2500 * time.Millisecond, 2
	s := newSite(t, matched, admin.Lambda{})
	var wanted []harness.Wanted
	for i := range poisons {
		wanted = append(wanted, harness.Wanted{
			Job: job.Job{Do: job.Exiting, Millis: poisonMillis}, Want: "dead", Options: []sdk.Option{sdk.In(time.Duration(i) * every)},
		})
	}
	for i := range innocents {
		wanted = append(wanted, harness.Wanted{Job: job.Job{Millis: int64(1000 + 1000*i/innocents)}})
	}
	tasks := s.Schedule(wanted...)
	begun := time.Now()
	for range processes {
		s.Supervise(harness.WorkerOptions{Slots: innocents + poisons, Lease: harness.LeaseMin})
	}
	fresh := startFresh(s)
	infos := s.Settle(3*time.Minute, tasks)
	freshInfos := s.Finish(fresh())
	judgePoisons(s, "poisons_arriving", infos[:poisons], begun, processes)
	judgeInnocents(s, "poisons_arriving", infos[poisons:], freshInfos, heldUpMax(processes))
}
