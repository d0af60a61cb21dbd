package server

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// TestManagerHears has a service manager hear of a server that starts, hangs for a while and stops.
func TestManagerHears(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		starting, stuck := "not ready: starting", ""
		set := func(text *string, to string) {
			mu.Lock()
			defer mu.Unlock()
			*text = to
		}
		get := func(text *string) func() string {
			return func() string {
				mu.Lock()
				defer mu.Unlock()
				return *text
			}
		}
		m := manager{
			say: func(state string) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, state)
			},
			notReady: get(&starting), notAlive: get(&stuck), beat: 30 * time.Second, clock: clock.Real(),
		}
		stopping, ended := make(chan struct{}), make(chan struct{})
		done := make(chan struct{})
		go func() { defer close(done); m.tell(stopping, ended) }()
		hears := func(what string, after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := slices.Compact(heard); !slices.Equal(got, want) {
				t.Errorf("%s: it hears %q, want %q", what, got, want)
			}
			heard = nil
		}
		hears("starting", time.Minute, "WATCHDOG=1")
		set(&starting, "")
		hears("ready", time.Minute, "READY=1", "WATCHDOG=1")
		set(&starting, "not ready: the store is full")
		hears("not ready any more", time.Minute, "WATCHDOG=1")
		set(&stuck, "stuck: scheduler, for 61 s")
		hears("stuck", time.Minute)
		set(&stuck, "")
		hears("not stuck any more", 29*time.Second, "WATCHDOG=1")
		close(stopping)
		hears("stopping", time.Minute, "STOPPING=1", "WATCHDOG=1")
		close(ended)
		<-done
		hears("stopped", time.Minute)
	})
}

// TestTellsManager has a real server tell a socket as systemd's.
func TestTellsManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000000")
	if err := os.Unsetenv("WATCHDOG_PID"); err != nil {
		t.Fatal(err)
	}
	hears := func(want string) {
		t.Helper()
		text := make([]byte, 100)
		if err := socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := socket.Read(text)
			if err != nil {
				t.Fatalf("it hears no %s: %v", want, err)
			}
			if string(text[:n]) == want {
				return
			}
		}
	}
	r := serve(t, Config{})
	hears("READY=1")
	hears("WATCHDOG=1")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	hears("STOPPING=1")
}
