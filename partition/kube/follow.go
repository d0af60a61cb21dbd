package kube

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// followMin and followMax are the pauses before what ended with an error is listed anew.
	followMin = 250 * time.Millisecond
	followMax = 5 * time.Second
	// tellEvery is how often it is logged that this goes on.
	tellEvery = 30 * time.Second
	// steadyAfter is how long a watch has to last for the next pause to be the shortest again.
	steadyAfter = 10 * time.Second
)

// watchPauses are those between two tries to open a watch after a list: 0.5 s to 5 s.
func watchPauses() *wait.Backoff {
	return &wait.Backoff{Duration: 2 * followMin, Factor: 2, Cap: followMax, Jitter: 0.5, Steps: 10}
}

// follow keeps the inventory of one kind up to date until ctx ends. again asks for a new list.
func (m *Membership) follow(ctx context.Context, f *feed, again <-chan struct{}) error {
	logger := logr.FromSlogHandler(m.config.Log.Handler()).V(1) // all of it is for debugging: what matters is logged here
	ctx = klog.NewContext(ctx, logger)
	reflector := cache.NewReflectorWithOptions(f, f.example(), shelf{m, f}, cache.ReflectorOptions{
		Name: "kinesin-" + f.resource, Logger: &logger, Backoff: watchPauses(),
	})
	pause, quiet := followMin, clock.Mono(m.config.Clock)
	for ctx.Err() == nil {
		began := clock.Mono(m.config.Clock)
		err := m.listAndWatch(ctx, reflector, again)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errAgain) {
			continue
		}
		if clock.Mono(m.config.Clock)-began >= steadyAfter {
			pause = followMin
		}
		if now := clock.Mono(m.config.Clock); err != nil && now >= quiet {
			quiet = now + tellEvery
			m.config.Log.WarnContext(ctx, "pods are not watched; the lease rows tell who is there until they are",
				slog.String("resource", f.resource), slog.Any("error", err))
		}
		if clock.Sleep(ctx, m.config.Clock, pause/2+time.Duration(m.config.Clock.Uint64()%uint64(pause))) != nil {
			break
		}
		pause = min(2*pause, followMax)
	}
	return nil //nolint:nilerr // the end of ctx is the way to stop
}

// listAndWatch is one list and the watches after it, until one fails or a new list is asked for.
func (m *Membership) listAndWatch(ctx context.Context, reflector *cache.Reflector, again <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-again:
			cancel(errAgain)
		case <-ended:
		}
	}()
	err := reflector.ListAndWatchWithContext(ctx)
	close(ended)
	<-told
	defer cancel(nil)
	if errors.Is(context.Cause(ctx), errAgain) {
		return errAgain
	}
	return err
}

var errAgain = errors.New("to be listed anew")

// example is an object of the kind, for the reflector to know others by.
func (f *feed) example() runtime.Object {
	if f.resource == resourcePods {
		return &pod{}
	}
	return &replicaSet{}
}
