//go:build linux && amd64

package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// envChild makes the test program print its time, and envThen says what the program does whose clock is
// shifted.
const (
	envChild = "KINESIN_CLOCKSHIFT_CHILD"
	envThen  = "KINESIN_CLOCKSHIFT_THEN"
)

func TestMain(m *testing.M) {
	switch os.Getenv(envChild) {
	case "":
		os.Exit(m.Run())
	case "shift":
		_ = os.Setenv(envChild, cmp.Or(os.Getenv(envThen), "time"))
		code, err := run(os.Args[1:])
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	case "watch":
		began := time.Now()
		for range 100 {
			now := time.Now()
			_, _ = os.Stdout.WriteString(strconv.FormatInt(int64(now.Sub(began)), 10) + " " + strconv.FormatInt(now.UnixNano()-began.UnixNano(), 10) + "\n")
			time.Sleep(10 * time.Millisecond)
		}
		os.Exit(0)
	case "time":
		began := time.Now()
		time.Sleep(20 * time.Millisecond)
		_, _ = os.Stdout.WriteString(strconv.FormatInt(began.UnixNano(), 10) + " " + strconv.FormatInt(int64(time.Since(began)), 10))
		os.Exit(7)
	}
}

// TestOffset compares a program's wall clock with the true one.
func TestOffset(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real processes")
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []time.Duration{0, 90 * time.Minute, -90 * time.Minute, 300*time.Minute + 999*time.Millisecond, -time.Nanosecond} {
		before := time.Now()
		cmd := exec.Command(self, offset.String(), self)
		cmd.Env = append(os.Environ(), envChild+"=shift")
		out, err := cmd.Output()
		after := time.Now()
		if cmd.ProcessState.ExitCode() != 7 {
			t.Fatalf("%v: %v, %s", offset, err, out)
		}
		words := strings.Fields(string(out))
		nanos, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		passed, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if its := time.Unix(0, nanos).Add(-offset); its.Before(before) || its.After(after) {
			t.Errorf("%v: the program has %v between %v and %v", offset, its, before, after)
		}
		if d := time.Duration(passed); d < 20*time.Millisecond || d > after.Sub(before) {
			t.Errorf("%v: 20 ms took %v", offset, d)
		}
	}
}

// TestControl sets the clock of a program that runs.
func TestControl(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real processes")
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(t.TempDir(), "offset")
	cmd := exec.Command(self, "-control", control, "0s", self)
	cmd.Env = append(os.Environ(), envChild+"=shift", envThen+"=watch")
	steps := []time.Duration{time.Hour, -time.Hour - time.Millisecond}
	go func() {
		for _, offset := range steps {
			time.Sleep(300 * time.Millisecond)
			_ = os.WriteFile(control, []byte(offset.String()), 0o600)
		}
	}()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	seen := map[time.Duration]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		passed, err1 := strconv.ParseInt(words[0], 10, 64)
		wall, err2 := strconv.ParseInt(words[1], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatal(line)
		}
		seen[time.Duration(wall-passed).Round(time.Millisecond)] = true
	}
	for _, want := range append(steps, 0) {
		if !seen[want] {
			t.Errorf("the program never saw %v: %v", want, seen)
		}
	}
	if len(seen) != len(steps)+1 {
		t.Errorf("the program saw %v", seen)
	}
}
