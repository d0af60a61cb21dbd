package control_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

// keeperConfig is that of a Keeper of numbers, which rest for as long as they hear.
type keeperConfig = control.KeeperConfig[string, int, time.Duration]

// TestAStepThatFailsPutsOffNoOther has the steps of a thing fail for four minutes.
func TestAStepThatFailsPutsOffNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what the keeper tells
		var good, bad int
		began, scans, failed := time.Now(), "", map[string]int{}
		k := control.NewKeeper(keeperConfig{
			Clock: clock.Real(), Every: time.Minute, Max: 1, Retry: backoff.Policy{Min: time.Second, Max: 30 * time.Second},
			Scan: func(context.Context) error { return errors.New("no rows") },
			ScanFailed: func(_ context.Context, err error) {
				mu.Lock()
				defer mu.Unlock()
				scans += err.Error() + " "
			},
			StepFailed: func(_ context.Context, key string, err error) {
				mu.Lock()
				defer mu.Unlock()
				failed[key+" "+err.Error()]++
			},
			Step: func(_ context.Context, key string, _ *int, _ []time.Duration) (time.Duration, error) {
				mu.Lock()
				defer mu.Unlock()
				if key == "good" {
					good++
					return time.Second, nil
				}
				if bad++; time.Since(began) < 4*time.Minute {
					return 0, errors.New("in vain")
				}
				return control.Done, nil
			},
		})
		k.Keep("good", 0, 0)
		k.Keep("bad", 0, 0)
		runtest.Start(t, k.Run)
		time.Sleep(4*time.Minute - time.Millisecond)
		synctest.Wait()
		mu.Lock()
		if good != 240 || bad < 10 || bad > 40 {
			t.Errorf("%d and %d steps, want one each second, and one each 1 to 30 s", good, bad)
		}
		if failed["bad in vain"] != bad || len(failed) != 1 || scans != "no rows no rows no rows no rows " {
			t.Errorf("it tells of %v and %s", failed, scans)
		}
		mu.Unlock()
		time.Sleep(31 * time.Second)
		if kept := k.Kept(); len(kept) != 1 || kept["good"] == nil || k.Len() != 1 {
			t.Errorf("%v are kept", kept)
		}
	})
}

// TestAKeeperInItsTime keeps five things, two at once, each step of which takes a second, as the first scans do. One
// hears something before it has had a step, and again during its step.
func TestAKeeperInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *control.Keeper[string, int, time.Duration]
		var did runtest.Text
		waits, began := 0, clock.Steady(clock.Real())
		passed := func() time.Duration { return clock.Steady(clock.Real()).Sub(began) }
		k = control.NewKeeper(keeperConfig{
			Clock: clock.Real(), Every: time.Minute, Max: 2, ScansAfter: true, Rested: func() { waits++ },
			Rest: func(_ *int, heard time.Duration) time.Duration { return heard },
			Scan: func(context.Context) error {
				if passed() > 9*time.Second {
					return nil
				}
				_, _ = fmt.Fprint(&did, passed(), " scan, ")
				time.Sleep(time.Second)
				for i := 1; i <= 5 && passed() == time.Second; i++ {
					k.Keep(fmt.Sprint(i), i, 10*time.Second)
				}
				return nil
			},
			Step: func(_ context.Context, _ string, n *int, heard []time.Duration) (time.Duration, error) {
				_, _ = fmt.Fprint(&did, passed(), " ", max(*n, 4), heard, ", ")
				time.Sleep(time.Second)
				return control.Done, nil
			},
		})
		runtest.Start(t, k.Run)
		hear := func(all ...time.Duration) func() { return func() { k.Keep("5", 7, 0, all...) } }
		for _, at := range []struct {
			passed, step, scan int64 // in ms; 0: it does something
			then               func()
		}{
			{500, 0, 0, func() {}},
			{1500, 11000, 61000, k.ScanSoon},
			{2000, 0, 0, k.ScanSoon},
			{5000, 11000, 63500, hear(2 * time.Second)},
			{5500, 0, 0, hear(4*time.Second, 3*time.Second)},
			{6500, 9000, 63500, func() {}},
			{10500, 11000, 70000, func() {}},
			{11500, 0, 0, func() {}},
			{13500, 99000, 73000, func() {}},
		} {
			time.Sleep(time.Duration(at.passed)*time.Millisecond - passed())
			synctest.Wait()
			step, scan, rests := k.Rests()
			if rests != (at.step > 0) || rests && (min(step.Sub(began).Milliseconds(), 99000) != at.step || scan.Sub(began).Milliseconds() != at.scan) {
				t.Errorf("after %d ms it rests: %v, until a step at %v or a scan at %v", at.passed, rests, step.Sub(began), scan.Sub(began))
			}
			at.then()
		}
		const want = "0s scan, 1.5s scan, 2.5s scan, 5s 5 [2s], 9s 5 [4s 3s], 11s 4 [], 11s 4 [], 12s 4 [], 12s 4 [], "
		if did.String() != want || waits > 40 {
			t.Errorf("%s, with %d waits, want %s", did.String(), waits, want)
		}
	})
}
