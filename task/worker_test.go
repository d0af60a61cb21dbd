package task

import "testing"

func TestAWorkersIDTellsItsVersion(t *testing.T) {
	for _, w := range [][3]string{{"host-1", "2.4.1", "host-1@2.4.1-abc"}, {"host-1", "", "host-1-abc"}, {"h", "v1-rc-2", "h@v1-rc-2-abc"}} {
		id := WorkerID(w[0], w[1], "abc")
		if id != w[2] || WorkerVersion(id) != w[1] {
			t.Errorf("id %q has version %q, want id %q and version %q", id, WorkerVersion(id), w[2], w[1])
		}
	}
	for _, id := range []string{"", "@", "@-", "a@", "a@b", "-@-"} {
		if v := WorkerVersion(id); v != "" {
			t.Errorf("id %q has version %q", id, v)
		}
	}
}
