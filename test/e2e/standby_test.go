package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// drill is a server that is backed up into a directory, with a worker that notes which tasks it runs.
type drill struct {
	*harness.Server

	t           *testing.T
	place, runs string
	acked       map[string]time.Time // when each task was acknowledged
}

const drillEvery = time.Second

func newDrill(t *testing.T) *drill {
	t.Helper()
	root := t.TempDir()
	d := &drill{t: t, place: filepath.Join(root, "place"), runs: filepath.Join(root, "runs"), acked: map[string]time.Time{}}
	d.Server = harness.StartServer(t, harness.ServerOptions{Args: []string{"--backup-to", d.place, "--backup-every", drillEvery.String()}})
	d.Run("lambda", "create", "work").Must(t)
	d.CommandWorker("--lambda", "work", "--concurrency", "8", "--", "sh", "-c", `echo "$(date +%s.%N) $KINESIN_TASK_ID" >> `+d.runs)
	return d
}

// load schedules tasks that are due soon, and some that are due in an hour.
func (d *drill) load() {
	d.t.Helper()
	var lines strings.Builder
	for n := range 60 {
		due := fmt.Sprintf("%dms", 20*n)
		if n%3 == 0 {
			due = "1h"
		}
		fmt.Fprintf(&lines, `{"lambda":"work","delay":"%s"}`+"\n", due)
	}
	r := d.Feed(lines.String(), "schedule", "--batch", "-")
	now := time.Now()
	for id := range strings.FieldsSeq(r.Must(d.t)) {
		if strings.HasPrefix(id, "k1") {
			d.acked[id] = now
		}
	}
}

// pointed returns the time of the newest recovery point.
func (d *drill) pointed() time.Time {
	d.t.Helper()
	all := recoveryPoints(d.t, d.place)
	if len(all) == 0 {
		return time.Time{}
	}
	_, text, _ := strings.Cut(filepath.Base(slices.Max(all)), "-")
	at, err := time.Parse("20060102T150405.000000Z", text)
	if err != nil {
		d.t.Fatal(err)
	}
	return at
}

// ran returns when each task ran.
func (d *drill) ran() map[string][]time.Time {
	d.t.Helper()
	content, err := os.ReadFile(d.runs)
	if err != nil {
		d.t.Fatal(err)
	}
	all := map[string][]time.Time{}
	for line := range strings.Lines(string(content)) {
		seconds, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := time.ParseDuration(seconds + "s")
		if err != nil {
			d.t.Fatal(err)
		}
		all[id] = append(all[id], time.Unix(0, int64(at)))
	}
	return all
}

// check lets everything run, and compares what the server has, and what ran since another check, with a moment: what was
// acknowledged before it is there, and what ran a second before it, which is time enough for its result, does not run
// again.
func (d *drill) check(since, moment time.Time) {
	d.t.Helper()
	known := map[string]string{}
	eventually(d.t, "all that is due has ended", func() bool {
		var listed struct{ Tasks []harness.Shown }
		d.Run("list", "work", "--limit", "0", "-o", "json").JSON(d.t, &listed)
		waiting := 0
		for _, v := range listed.Tasks {
			known[v.ID] = v.State
			if v.State != "success" && time.Until(v.Due) < time.Minute {
				waiting++
			}
		}
		return waiting == 0
	})
	before, missing := 0, 0
	for id, at := range d.acked {
		if at.Before(moment) {
			before++
			if known[id] == "" {
				missing++
			}
		}
	}
	if missing > 0 || before == 0 {
		d.t.Errorf("%d of %d tasks are missing that were acknowledged before %v", missing, before, moment)
	}
	for id, times := range d.ran() {
		if len(times) > 1 && times[0].After(since) && times[0].Before(moment.Add(-time.Second)) {
			d.t.Errorf("%s ran at %v, and a recovery point is of %v", id, times, moment)
		}
	}
}

// TestBackupDrill kills a server that works every few seconds, and takes its disk at last. Nothing that is older than
// the newest recovery point is missing, and nothing that had ended before it runs again. Then another takes over from
// the server that lives, and nothing at all is missing or runs twice.
func TestBackupDrill(t *testing.T) {
	d := newDrill(t)
	for range 3 {
		d.load()
		time.Sleep(1500 * time.Millisecond)
		d.Crash()
		d.Start()
	}
	d.load()
	acked := time.Now()
	eventually(t, "a recovery point has it", func() bool { return d.pointed().After(acked) })
	d.load() // may be lost
	d.Crash()
	moment := d.pointed()
	if err := os.RemoveAll(d.Dir); err != nil {
		t.Fatal(err)
	}
	promote := func(dir string, wait string) harness.Result {
		return harness.Run(t, "standby", "--from", d.place, "--data", dir, "--promote", "--wait", wait)
	}
	d.Dir = filepath.Join(t.TempDir(), "second")
	if said := promote(d.Dir, "0s").Must(t); !strings.Contains(said, "must not run any more") {
		t.Errorf("it says %q", said)
	}
	d.Start()
	for id, at := range d.acked {
		if at.After(moment) {
			delete(d.acked, id)
		}
	}
	d.check(time.Time{}, moment)
	checked := time.Now()

	third := filepath.Join(t.TempDir(), "third")
	standby := harness.Start(t, harness.Command{Args: []string{"standby", "--from", d.place, "--data", third, "--every", "1s"}})
	eventually(t, "the standby follows", func() bool { return strings.Contains(standby.Stderr(), "has the newest recovery point") })
	promote(third, "0s").Refused(t, 1, "a standby runs on", "stop it first")
	harness.Run(t, "serve", "--data", third, "--listen", harness.FreeAddr(t)).Refused(t, 1, "is that of a standby", "--promote")
	standby.Signal(syscall.SIGTERM)
	if code := standby.Wait(soon); code != 0 {
		t.Errorf("the standby ended with %d", code)
	}
	d.load()
	old := d.Process
	if said := promote(third, "1m").Must(t); !strings.Contains(said, "nothing is lost") {
		t.Errorf("it says %q", said)
	}
	if code := old.Wait(soon); code != 1 || !strings.Contains(old.Stderr(), "another server took over") || !strings.Contains(old.Stderr(), third) {
		t.Errorf("the server that was replaced ended with %d", code)
	}
	harness.Run(t, "serve", "--data", d.Dir, "--listen", d.Addr).Refused(t, 1, "another server took over", third, "backup.json")
	d.Dir = third
	d.Start()
	d.check(checked, time.Now().Add(time.Hour)) // all of it, once
	harness.Run(t, "serve", "--data", filepath.Join(t.TempDir(), "stranger"), "--listen", harness.FreeAddr(t), "--backup-to", d.place).
		Refused(t, 1, "claimed by another server", third)
	harness.Run(t, "restore", "--from", d.place, "--data", filepath.Join(t.TempDir(), "copy")).Must(t)
}

// TestBackupInABucket backs up to a bucket, restores from it, and lets another server take over.
func TestBackupInABucket(t *testing.T) {
	const place = "s3://" + bucket + "/live/one"
	env := startS3(t)
	s := harness.StartServer(t, harness.ServerOptions{Args: []string{"--backup-to", place, "--backup-every", "1s"}, Env: env})
	s.Run("lambda", "create", "work").Must(t)
	id := s.Run("schedule", "work", "--in", "1h").Must(t)
	kinesin := func(args ...string) harness.Result { return harness.Command{Args: args, Env: env}.Run(t) }
	kinesin("backup", place, "--server", s.URL).Must(t)
	if said := kinesin("restore", "--from", place, "--data", filepath.Join(t.TempDir(), "copy")).Must(t); !strings.Contains(said, "1 live tasks") {
		t.Errorf("it says %q", said)
	}
	kinesin("restore", "--from", place, "--data", filepath.Join(t.TempDir(), "copy"), "--at", "2020-01-01T00:00:00Z").Refused(t, 1, "its oldest recovery point is of 20")
	kinesin("restore", "--from", "s3://"+bucket+"/other", "--data", filepath.Join(t.TempDir(), "copy")).Refused(t, 1, "no complete backup in s3://")
	next := filepath.Join(t.TempDir(), "next")
	if said := kinesin("standby", "--from", place, "--data", next, "--promote").Must(t); !strings.Contains(said, "nothing is lost") {
		t.Errorf("it says %q", said)
	}
	if code := s.Wait(soon); code != 1 {
		t.Errorf("the server that was replaced ended with %d", code)
	}
	s.Dir = next
	s.Start()
	if v := s.Get(id); v.State != "scheduled" {
		t.Errorf("the task is %s", v.State)
	}
}
