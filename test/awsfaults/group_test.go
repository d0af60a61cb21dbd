package awsfaults_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// killsMax ends the kills where a server needs most of the time that it lives to start.
const killsMax = 40

// A group is added to, runs and ends while its two servers, which both look after groups and take partitions
// over from each other, are killed in turn.
func TestAGroupWhoseServersAreKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{})
	s.Serve()
	turn := 0
	s.Grouped(harness.Either(5000, 1000), func() {
		time.Sleep(up)
		if turn >= killsMax {
			return
		}
		server := s.Servers[turn%2]
		turn++
		server.Crash()
		time.Sleep(up / 2)
		server.Start()
	})
	if harness.Figure(t, "group_kills", turn); turn < 2 {
		t.Errorf("%d kills tested too little", turn)
	}
}
