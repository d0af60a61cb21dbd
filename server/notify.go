package server

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	readyEvery  = 100 * time.Millisecond // how often a server that starts is asked whether it is ready
	aliveEvery  = 10 * time.Second       // without a watchdog
	aliveOfBeat = 3                      // how often a server says that it lives within the time of its watchdog
)

// manager is the service manager that started this process.
type manager struct {
	say                func(state string)
	notReady, notAlive func() string // why not; empty: it is
	beat               time.Duration // of the watchdog; 0: there is none
	clock              clock.Clock
}

// tellManager tells the service manager that started this process, if NOTIFY_SOCKET names one as systemd does, when the server is ready,
// that it lives, and that it stops: when ctx ends. The caller calls stop when the server has stopped.
func (s *Server) tellManager(ctx context.Context) (stop func()) {
	if os.Getenv("NOTIFY_SOCKET") == "" { //nolint:forbidigo // where the library looks for it
		return func() {}
	}
	beat, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.config.Log.WarnContext(ctx, "the watchdog of the service manager is left alone", slog.Any("error", err))
	}
	m := manager{beat: beat, notReady: s.node.NotReady, notAlive: s.node.NotLive, clock: clock.Real(), say: func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			s.config.Log.WarnContext(ctx, "cannot tell the service manager", slog.String("state", state), slog.Any("error", err))
		}
	}}
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { m.tell(ctx.Done(), ended.Done()) })
	return func() {
		end()
		running.Wait()
	}
}

// tell runs until ended. A server that hangs says nothing, so that the watchdog ends it.
func (m *manager) tell(stopping, ended <-chan struct{}) {
	timer := m.clock.NewTimer(0)
	defer timer.Stop()
	every := readyEvery
	for {
		select {
		case <-ended:
			return
		case <-stopping:
			m.say(daemon.SdNotifyStopping)
			stopping = nil
			continue
		case <-timer.C():
		}
		if every == readyEvery && m.notReady() == "" {
			m.say(daemon.SdNotifyReady)
			every = cmp.Or(m.beat/aliveOfBeat, aliveEvery)
		}
		if m.beat > 0 && m.notAlive() == "" {
			m.say(daemon.SdNotifyWatchdog)
		}
		timer.Reset(every)
	}
}
