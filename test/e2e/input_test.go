package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// Everything that may be wrong with one schedule: refused with what is allowed, and nothing written.
func TestBadSchedules(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 256<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		code  int
		args  []string
		texts []string
	}{
		{"unknown lambda", 1, []string{"nobody"}, []string{"nobody"}},
		{"bad name", 1, []string{"no spaces"}, []string{"no spaces", "a-z"}},
		{"in that is no duration", 2, []string{"work", "--in", "soon"}, []string{"soon", "90s"}},
		{"at that is no time", 2, []string{"work", "--at", "tomorrow"}, []string{"tomorrow", "RFC 3339"}},
		{"beyond the horizon", 1, []string{"work", "--in", "200000h"}, []string{"at most 10 years"}},
		{"in and at", 2, []string{"work", "--in", "1s", "--at", "2030-01-01T00:00:00Z"}, []string{"--in", "--at"}},
		{"payload too large", 1, []string{"work", "--payload-file", big}, []string{"262145", "262144"}},
		{"payload file that is not there", 1, []string{"work", "--payload-file", big + "ger"}, []string{"bigger"}},
		{"wrong priority", 1, []string{"work", "--priority", "urgent"}, []string{"urgent", "high", "normal", "low"}},
		{"empty key", 2, []string{"work", "--key", ""}, []string{"--key"}},
		{"no lambda", 2, nil, []string{"lambda"}},
	} {
		t.Log(c.name)
		s.Run(append([]string{"schedule"}, c.args...)...).Refused(t, c.code, c.texts...)
	}
	if list := s.Run("list", "work", "-o", "json").Must(t); strings.Contains(list, `"id"`) {
		t.Errorf("something was written: %s", list)
	}
}

// Ids that were never given out are unknown, however they look.
func TestForgedIDs(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	id := s.Run("schedule", "work", "--in", "1h").Must(t)
	mangled := id[:len(id)-2] + map[bool]string{true: "AA", false: "BB"}[!strings.HasSuffix(id, "AA")]
	for _, forged := range []string{mangled, id + "A", id[:len(id)-1], strings.ToUpper(id), "k1", "hello", "../../etc/passwd", "k1" + strings.Repeat("A", 10_000)} {
		for _, command := range []string{"get", "cancel", "wait"} {
			s.Run(command, forged).Refused(t, 1, "not found")
		}
	}
	if v := s.Get(id); v.State != "scheduled" {
		t.Errorf("the real one is %s", v.State)
	}
	s.Run("get").Refused(t, 2)
}

// An id of another server's store is unknown here.
func TestIDOfAnotherServer(t *testing.T) {
	s := start(t)
	other := harness.StartServer(t, harness.ServerOptions{})
	for _, x := range []*harness.Server{s, other} {
		x.Run("lambda", "create", "work").Must(t)
	}
	id := other.Run("schedule", "work", "--in", "1h").Must(t)
	s.Run("get", id).Refused(t, 1, "not found")
}
