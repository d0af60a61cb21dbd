//go:build linux && amd64

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// envChild makes the test program print its time.
const envChild = "KINESIN_CLOCKSHIFT_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(envChild) {
	case "":
		os.Exit(m.Run())
	case "shift":
		_ = os.Setenv(envChild, "time")
		code, err := run(os.Args[1:])
		if err != nil {
			panic(err)
		}
		os.Exit(code)
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
