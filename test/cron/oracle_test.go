package cron

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/zones"
)

const (
	root      = "../.."
	firesMax  = 20_000 // of a case in a window
	yearsFrom = 2017
	yearsTo   = 2027 // exclusive
)

// times of day, to which the policies apply.
var fixed = []string{
	"30 2 * * *", "0 0 * * *", "0,30 1,2,3 * * *", "15 0-4 * * *", "59 23 * * *", "5-55/25 2 * * sun",
	"30 1 25-31 3,10 sun", "0 3 */2 * *", "45 2 L * *", "0 2 * 3,4,9,10,11 0#1",
	"DTSTART:20150101T023000 FREQ=DAILY",
	"DTSTART:20150105T000000 FREQ=WEEKLY;INTERVAL=2;BYDAY=SA,SU;BYHOUR=0,1,2;BYMINUTE=0,20,40",
	"DTSTART:20150131T013000 FREQ=MONTHLY",
	"DTSTART:20150101T023000 FREQ=MONTHLY;BYDAY=-1SU,1SU,2SU;BYHOUR=1,2,3",
	"DTSTART:20150101T023000 FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,-1",
	"DTSTART:20160229T020000 FREQ=YEARLY;BYYEARDAY=60,-60,300",
	"DTSTART:20150101T020000 FREQ=YEARLY;BYWEEKNO=13,44;BYDAY=SU;WKST=SU",
}

// sixFields are times of day too, which cronsim never adjusts: there the definition is the oracle alone.
var sixFields = []string{"0 30 2 * * *", "15,45 0 1-3 * * sun"}

// steps are expressions to which the policies do not apply: each instant that shows such a time fires.
var steps = []string{
	"*/30 * * * *", "7 * * * *", "*/20 1-3 * * *", "30 */3 * * *",
	"DTSTART:20150101T003000 FREQ=HOURLY;INTERVAL=5",
	"DTSTART:20150101T000000 FREQ=MINUTELY;INTERVAL=40;BYHOUR=0,1,2,3",
	"DTSTART:20150101T000010 FREQ=SECONDLY;INTERVAL=3001",
}

// sample has summer time in both hemispheres, at midnight, of half an hour, of two hours, paused within a
// summer, and changes for good; the last one that a zone lists before a rule for all years (Metlakatla).
var sample = []string{
	"Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca",
	"Asia/Beirut", "Asia/Pyongyang", "America/Caracas", "Africa/Juba", "America/Metlakatla",
}

type testCase struct {
	Expression string        `json:"expression"`
	Gap        cronspec.Gap  `json:"gap"`
	Fold       cronspec.Fold `json:"fold"`
	Steps      bool          `json:"steps"`
	Direct     bool          `json:"direct"` // cronsim computes the instants itself
}

type window struct {
	Zone string `json:"zone"`
	From int64  `json:"from"` // Unix seconds
	To   int64  `json:"to"`
}

func corpus() []testCase {
	var all []testCase
	for _, e := range slices.Concat(fixed, sixFields) {
		for _, gap := range []cronspec.Gap{cronspec.GapShift, cronspec.GapSkip} {
			for _, fold := range []cronspec.Fold{cronspec.FoldFirst, cronspec.FoldBoth} {
				all = append(all, testCase{Expression: e, Gap: gap, Fold: fold})
			}
		}
	}
	// The rule of cronsim for times of day equals shift and first: the first instant after a gap, once.
	for _, e := range fixed {
		if !strings.Contains(e, "FREQ=") {
			all = append(all, testCase{Expression: e, Gap: cronspec.GapShift, Fold: cronspec.FoldFirst, Direct: true})
		}
	}
	for _, e := range steps {
		all = append(all, testCase{Expression: e, Steps: true})
	}
	return all
}

func TestAgainstTheOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("installs Python packages")
	}
	database := zones.Open() // of the release that tools/cronoracle pins too
	names := sample
	if os.Getenv("KINESIN_LONG") != "" {
		names = database.Names()
	}
	var windows []window
	for _, name := range names {
		windows = append(windows, changes(t, database, name)...)
	}
	cases := corpus()
	o := startOracle(t, cases)
	compared, fires, wrong := 0, 0, 0
	for _, w := range windows {
		for i, want := range o.ask(t, w) {
			got := fire(t, database, cases[i], w)
			compared, fires = compared+1, fires+len(got)
			if !slices.Equal(got, want) {
				wrong++
				if wrong <= 20 {
					t.Errorf("%+v in %s:\n got %s\nwant %s", cases[i], w.Zone, w.text(t, database, got), w.text(t, database, want))
				}
			}
		}
	}
	if len(windows) < 100 || fires < compared {
		t.Errorf("%d windows and %d fire times in %d cases: the oracle had too little to say", len(windows), fires, compared)
	}
	t.Logf("%d zones, %d clock changes, %d cases compared, %d fire times, %d wrong", len(names), len(windows), compared, fires, wrong)
}

// changes returns the weeks around the clock changes of a zone.
func changes(t *testing.T, database *zones.Database, name string) []window {
	t.Helper()
	const halfWeek = 7 * 12 * time.Hour
	zone, err := database.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []window
	at, last := time.Date(yearsFrom, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(yearsTo, 1, 1, 0, 0, 0, 0, time.UTC)
	offset := func(at time.Time) int { _, seconds := at.In(zone).Zone(); return seconds }
	for ; at.Before(last); at = at.Add(time.Hour) {
		if offset(at) != offset(at.Add(time.Hour)) {
			all = append(all, window{name, at.Add(-halfWeek).Unix(), at.Add(halfWeek).Unix()})
		}
	}
	return all
}

func fire(t *testing.T, database *zones.Database, c testCase, w window) []int64 {
	t.Helper()
	s, err := cronspec.Parse(cronspec.Config{Expression: c.Expression, Zone: w.Zone, Gap: c.Gap, Fold: c.Fold, Zones: database})
	if err != nil {
		t.Fatal(err)
	}
	all := []int64{}
	for _, at := range s.Between(time.Unix(w.From, 0), time.Unix(w.To, 0), firesMax) {
		all = append(all, at.Unix())
	}
	return all
}

// text shows some of the fire times.
func (w window) text(t *testing.T, database *zones.Database, all []int64) string {
	t.Helper()
	zone, err := database.Load(w.Zone)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, at := range all {
		if middle := (w.From + w.To) / 2; at > middle-2*86400 && at < middle+2*86400 {
			fmt.Fprintf(&b, "%s ", time.Unix(at, 0).In(zone).Format("01-02T15:04:05-07:00"))
		}
	}
	return b.String()
}

type oracle struct {
	in  *json.Encoder
	out *bufio.Reader
}

func startOracle(t *testing.T, cases []testCase) *oracle {
	t.Helper()
	install := exec.CommandContext(t.Context(), root+"/tools/python/install", "cronoracle")
	install.Stderr = os.Stderr
	python, err := install.Output()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), "oracle.py")
	command.Env = append(os.Environ(), "PYTHONTZPATH=") // the zones of the package tzdata, not those of the system
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := command.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("the oracle: %v", err)
		}
	})
	o := &oracle{json.NewEncoder(in), bufio.NewReader(out)}
	if err := o.in.Encode(cases); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *oracle) ask(t *testing.T, w window) [][]int64 {
	t.Helper()
	if err := o.in.Encode(w); err != nil {
		t.Fatal(err)
	}
	line, err := o.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the oracle: %v", err)
	}
	var answers [][]int64
	if err := json.Unmarshal(line, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}
