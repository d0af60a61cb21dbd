package faults_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// A group is added to, runs and ends while its server is killed again and again.
func TestAGroupWhoseServerIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, matched, admin.Lambda{})
	kills := 0
	s.Grouped(harness.Either(10_000, 2000), func() {
		time.Sleep(time.Second)
		s.Servers[0].Crash()
		s.Servers[0].Start()
		kills++
	})
	if harness.Figure(t, "group_kills", kills); kills < 3 {
		t.Errorf("%d kills tested too little", kills)
	}
}
