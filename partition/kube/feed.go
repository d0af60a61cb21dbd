package kube

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// reopenMax is how long a watch that ended may be closed and still count as in contact; the server ends
	// every watch from time to time.
	reopenMax = 3 * time.Second
	// silenceMax is how long an open watch may be silent. The server sends a bookmark every minute.
	silenceMax = 150 * time.Second
	// behindMax is how long lists are refused that are older than what was seen: a server or cache is behind.
	// Past that the cluster was restored from a backup.
	behindMax = time.Minute
	// brokeBefore is how long a watch lasts unless something cuts it off: they are requested for 5 to 10
	// minutes.
	brokeBefore = 4 * time.Minute
	// steadyAfter is how long a watch has to last for the backoff to start over.
	steadyAfter = 10 * time.Second
	// logEvery is how often a failure that goes on is logged.
	logEvery = 30 * time.Second
)

// listRetry paces the lists after failures.
var listRetry = backoff.Policy{Min: 250 * time.Millisecond, Max: 5 * time.Second}

// watchRetry paces the tries to open a watch after a list: 0.5 s to 5 s.
func watchRetry() *wait.Backoff {
	return &wait.Backoff{Duration: 2 * listRetry.Min, Factor: 2, Cap: listRetry.Max, Jitter: 0.5, Steps: 10}
}

// feed lists and watches one kind of objects for a reflector, passes them on to the inventory, and keeps
// track of the contact to the API server.
type feed struct {
	cluster  *Cluster
	client   *rest.RESTClient
	resource string
	example  runtime.Object // an object of the kind, by which the reflector knows it
	newList  func() runtime.Object
	update   func(change func(*inventory) bool) // see Membership.update

	mu          sync.Mutex
	listed      bool          // at least once
	open        bool          // a watch is open
	heard       time.Duration // when the server last sent anything
	closed      time.Duration // since when no watch is open
	newest      uint64        // resource version that was seen
	wentBack    bool          // the watch sent something older than newest
	behindSince time.Duration // since when lists are older than newest
	behind      bool
	relist      func() // ends the current watch; nil: none is running
}

// feeds returns the feeds of this fleet: its pods, and the ReplicaSets by which they are told from others.
func (c *Cluster) feeds() []*feed {
	now := clock.Mono(c.config.Clock)
	all := []*feed{{
		cluster: c, client: c.core, resource: resourcePods, heard: now, closed: now,
		example: &pod{}, newList: func() runtime.Object { return &list[pod]{} },
	}}
	if !c.byMaker {
		all = append(all, &feed{
			cluster: c, client: c.apps, resource: resourceReplicaSets, heard: now, closed: now,
			example: &replicaSet{}, newList: func() runtime.Object { return &list[replicaSet]{} },
		})
	}
	return all
}

// try lists one object and opens a watch, to check the permissions.
func (f *feed) try(ctx context.Context) error {
	one := f.newList()
	if err := f.explain("list", f.request(metav1.ListOptions{Limit: 1}).Do(ctx).Into(one)); err != nil {
		return err
	}
	soon := int64(1)
	w, err := f.request(metav1.ListOptions{Watch: true, ResourceVersion: versionOf(one), TimeoutSeconds: &soon}).Watch(ctx)
	if err != nil {
		return f.explain("watch", err)
	}
	w.Stop()
	return nil
}

// run keeps the inventory up to date until ctx ends.
func (f *feed) run(ctx context.Context) error {
	c := &f.cluster.config
	logger := logr.FromSlogHandler(c.Log.Handler()).V(1) // for debugging: what matters is logged here
	ctx = klog.NewContext(ctx, logger)
	reflector := cache.NewReflectorWithOptions(f, f.example, f, cache.ReflectorOptions{
		Name: "kinesin-" + f.resource, Logger: &logger, Backoff: watchRetry(),
	})
	quietUntil := clock.Mono(c.Clock)
	for failures := 0; ctx.Err() == nil; {
		began := clock.Mono(c.Clock)
		err := f.listAndWatch(ctx, reflector)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errRelist) {
			continue
		}
		now := clock.Mono(c.Clock)
		if err != nil && now >= quietUntil {
			quietUntil = now + logEvery
			c.Log.WarnContext(ctx, "watch of the Kubernetes API server failed; using the lease rows until it is back",
				slog.String("resource", f.resource), slog.Any("error", err))
		}
		failures++
		if now-began >= steadyAfter {
			failures = 1
		}
		if listRetry.Sleep(ctx, c.Clock, failures) != nil {
			break
		}
	}
	return nil //nolint:nilerr // the end of ctx is the way to stop
}

var errRelist = errors.New("list again")

// listAndWatch lists once and watches from there, until that fails or relist is called.
func (f *feed) listAndWatch(ctx context.Context, reflector *cache.Reflector) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	f.relist = func() { cancel(errRelist) }
	f.mu.Unlock()
	err := reflector.ListAndWatchWithContext(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errRelist) {
		return cause
	}
	return err
}

// listAgain ends the watch, which is followed by a list.
func (f *feed) listAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.relist != nil {
		f.relist()
	}
}

func (f *feed) explain(verb string, err error) error {
	return request{verb: verb, resource: f.resource, namespace: f.cluster.config.Namespace}.explain(err)
}

func (f *feed) request(options metav1.ListOptions) *rest.Request {
	options.LabelSelector = f.cluster.selector
	return f.client.Get().Namespace(f.cluster.config.Namespace).Resource(f.resource).VersionedParams(&options, metav1.ParameterCodec)
}

// List implements cache.ListerWatcher.
func (f *feed) List(options metav1.ListOptions) (runtime.Object, error) {
	return f.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (f *feed) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return f.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported makes reflectors list and watch: a list is one answer, and one change here.
func (f *feed) IsWatchListSemanticsUnSupported() bool { return true }

var errBehind = errors.New("the list is older than what was seen before: this API server is behind")

// ListWithContext implements cache.ListerWithContext. It asks for consistent lists: a cache of the API server
// that hangs would repeat its last answer.
func (f *feed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	asked := ctx
	ctx, done := clock.Within(asked, f.cluster.config.Clock, callMax)
	defer done()
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	all := f.newList()
	if err := f.request(options).Do(ctx).Into(all); err != nil {
		f.broke(asked)
		return nil, f.explain("list", err)
	}
	if !f.believe(versionOf(all)) {
		return nil, errBehind
	}
	return all, nil
}

// believe reports whether a list is as new as what was seen before it.
func (f *feed) believe(version string) bool {
	now := clock.Mono(f.cluster.config.Clock)
	f.mu.Lock()
	defer f.mu.Unlock()
	listed := parseVersion(version)
	if listed != 0 && listed < f.newest {
		if !f.behind {
			f.behind, f.behindSince = true, now
		}
		if now-f.behindSince < behindMax {
			return false
		}
		f.newest = listed
	}
	f.behind, f.wentBack, f.newest = false, false, max(f.newest, listed)
	f.heard, f.listed = now, true
	return true
}

// WatchWithContext implements cache.WatcherWithContext. An answer has to begin within callMax.
func (f *feed) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	asked := ctx
	ctx, cancel := context.WithCancel(asked)
	answer, done := clock.Within(asked, f.cluster.config.Clock, callMax)
	answered := context.AfterFunc(answer, cancel)
	options.Watch = true
	w, err := f.request(options).Watch(ctx)
	answered()
	done()
	if err != nil {
		cancel()
		f.broke(asked)
		return nil, f.explain("watch", err)
	}
	opened := f.setOpen(true)
	return &trackedWatch{Interface: w, stopped: func() {
		cancel()
		if f.setOpen(false)-opened < brokeBefore {
			f.broke(asked)
		}
	}}, nil
}

// trackedWatch is a watch that reports its end.
type trackedWatch struct {
	watch.Interface

	once    sync.Once
	stopped func()
}

// Stop implements watch.Interface.
func (w *trackedWatch) Stop() {
	w.Interface.Stop()
	w.once.Do(w.stopped)
}

// setOpen notes that a watch was opened or closed, and returns the time.
func (f *feed) setOpen(open bool) (now time.Duration) {
	now = clock.Mono(f.cluster.config.Clock)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open = open; open {
		f.heard = now
	} else {
		f.closed = now
	}
	return now
}

// broke reports what ended before its time, unless we ended it.
func (f *feed) broke(asked context.Context) {
	if hook := f.cluster.config.Hooks.Broke; hook != nil && asked.Err() == nil {
		hook()
	}
}

// received notes that the server sent something of that version.
func (f *feed) received(version string) {
	n := parseVersion(version)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = clock.Mono(f.cluster.config.Clock)
	f.wentBack = f.wentBack || n != 0 && n < f.newest
	f.newest = max(f.newest, n)
}

// contact reports whether the feed is up to date, whether its open watch has to end because it is silent or
// went back in time, and how long ago the server last sent anything.
func (f *feed) contact() (good, spoilt bool, age time.Duration) {
	now := clock.Mono(f.cluster.config.Clock)
	f.mu.Lock()
	defer f.mu.Unlock()
	age = now - f.heard
	spoilt = f.open && (age >= silenceMax || f.wentBack)
	good = f.listed && !spoilt && (f.open || now-max(f.closed, f.heard) < reopenMax)
	return good, spoilt, age
}

// Add implements cache.ReflectorStore, as do the methods below.
func (f *feed) Add(o any) error { return f.Update(o) }

// Update adds or updates an object.
func (f *feed) Update(o any) error {
	f.received(versionOf(o))
	f.update(func(i *inventory) bool { return i.put(o) })
	return nil
}

// Delete deletes an object.
func (f *feed) Delete(o any) error {
	f.received(versionOf(o))
	f.update(func(i *inventory) bool { i.remove(o); return true })
	return nil
}

// Replace takes a whole list as one change.
func (f *feed) Replace(all []any, version string) error {
	f.received(version)
	f.update(func(i *inventory) bool { i.replace(f.resource, all); return true })
	return nil
}

// Resync does nothing, since no change is ever lost.
func (f *feed) Resync() error { return nil }

// Bookmark notes that there is nothing new.
func (f *feed) Bookmark(version string) error {
	f.received(version)
	return nil
}

// versionOf returns the resource version of an object or a list.
func versionOf(o any) string {
	if l, ok := o.(metav1.Common); ok {
		return l.GetResourceVersion()
	}
	return ""
}

// parseVersion returns a resource version as a number, or 0 if it is none.
func parseVersion(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}
