package controller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

// The results of one message fit into what a server takes, however many handlers end at once.
func TestLargeResultsGoInSeveralMessages(t *testing.T) {
	const tasks = 1000 // of 32 KiB each
	inBubble(t, func(r *rig) {
		var all []*kinesinv1.Claimed
		for n := range tasks {
			all = append(all, claimed(n+1))
		}
		r.push(all...)
		var runs []*run
		for range tasks {
			runs = append(runs, <-r.runs)
		}
		for _, one := range runs {
			one.done <- controller.Outcome{Kind: task.OutcomeSuccess, Result: make([]byte, task.ResultBytesMax)}
		}
		synctest.Wait()
		r.pass(time.Second)
		s := r.stream()
		s.mu.Lock()
		defer s.mu.Unlock()
		sent, largest := 0, 0
		for _, request := range s.sent {
			size := 0
			for _, result := range request.Results {
				size += len(result.Result)
			}
			sent, largest = sent+len(request.Results), max(largest, size)
		}
		if sent != tasks || largest > 4<<20 {
			t.Errorf("%d results were sent, at most %d bytes in a message", sent, largest)
		}
	}, func(c *controller.Config) { c.Groups[0].Slots = tasks; c.Linger = 10 * time.Millisecond })
}

func TestAResultThatIsTooLargeFailsTheAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		(<-r.runs).done <- controller.Outcome{Kind: task.OutcomeSuccess, Result: make([]byte, task.ResultBytesMax+1)}
		synctest.Wait()
		all := r.stream().results()
		const want = "the result has 32769 bytes: at most 32768 are kept with a task"
		if len(all) != 1 || all[0].Outcome != "retriable_failure" || all[0].Error != want || all[0].Result != nil {
			t.Errorf("sent %v", all)
		}
	})
}
