package kube

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// graceMax is how long a watch may be away between two, as it is whenever the server ends one, to be
	// counted as in contact.
	graceMax = 3 * time.Second
	// silenceMax is how long an open watch may tell nothing. The server sends a bookmark every minute.
	silenceMax = 150 * time.Second
	// behindMax is how long lists are refused that are older than what was seen: some server or cache is
	// behind. Past that the cluster was restored from a backup.
	behindMax = time.Minute
	// brokeBefore is how long a watch lasts at least unless something cuts it off: they are asked for with 5
	// to 10 minutes.
	brokeBefore = 4 * time.Minute
)

// feed is one kind of objects as the API server tells of them: it lists and watches for a reflector, and
// notes how good the contact is.
type feed struct {
	cluster  *Cluster
	client   *rest.RESTClient
	resource string
	list     func() runtime.Object

	mu     sync.Mutex
	listed bool          // at least once
	open   bool          // a watch is
	at     time.Duration // when the server last told anything
	lost   time.Duration // since when no watch is open
	newest uint64        // resource version that was seen
	backs  bool          // something older was told after it
	behind bool          // lists are older than that
	since  time.Duration // and have been since then
}

// feeds are what this fleet has to hear of: its pods, and what tells them from others.
func (c *Cluster) feeds() []*feed {
	now := clock.Mono(c.config.Clock)
	all := []*feed{{cluster: c, client: c.core, resource: resourcePods, at: now, lost: now, list: func() runtime.Object { return &podList{} }}}
	if !c.byMaker {
		all = append(all, &feed{
			cluster: c, client: c.apps, resource: resourceReplicaSets, at: now, lost: now, list: func() runtime.Object { return &replicaSetList{} },
		})
	}
	return all
}

// try asks for one object and opens a watch.
func (f *feed) try(ctx context.Context) error {
	list := f.list()
	if err := f.explain("list", f.request(metav1.ListOptions{Limit: 1}).Do(ctx).Into(list)); err != nil {
		return err
	}
	soon := int64(1)
	w, err := f.request(metav1.ListOptions{Watch: true, ResourceVersion: versionOf(list), TimeoutSeconds: &soon}).Watch(ctx)
	if err != nil {
		return f.explain("watch", err)
	}
	w.Stop()
	return nil
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

// IsWatchListSemanticsUnSupported keeps reflectors to lists and watches: a list is one answer, and one change
// here.
func (f *feed) IsWatchListSemanticsUnSupported() bool { return true }

var errBehind = errors.New("the list is older than what was seen before: this API server is behind")

// ListWithContext implements cache.ListerWithContext. Lists are consistent ones: a cache of the API server
// that stands still would answer as it did before.
func (f *feed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	asked := ctx
	ctx, done := clock.Within(asked, f.cluster.config.Clock, callMax)
	defer done()
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	list := f.list()
	if err := f.request(options).Do(ctx).Into(list); err != nil {
		f.broke(asked)
		return nil, f.explain("list", err)
	}
	if !f.believe(versionOf(list)) {
		return nil, errBehind
	}
	return list, nil
}

// believe says whether a list is as new as what was seen before it.
func (f *feed) believe(version string) bool {
	now := clock.Mono(f.cluster.config.Clock)
	f.mu.Lock()
	defer f.mu.Unlock()
	listed := parseVersion(version)
	if listed != 0 && listed < f.newest {
		if !f.behind {
			f.behind, f.since = true, now
		}
		if now-f.since < behindMax {
			return false
		}
		f.newest = listed
	}
	f.behind, f.backs, f.newest = false, false, max(f.newest, listed)
	f.at, f.listed = now, true
	return true
}

// WatchWithContext implements cache.WatcherWithContext. An answer has to begin within callMax.
func (f *feed) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	asked := ctx
	ctx, cancel := context.WithCancel(asked)
	timer := f.cluster.config.Clock.NewTimer(callMax)
	answered := make(chan struct{})
	late := make(chan struct{})
	go func() {
		defer close(late)
		select {
		case <-timer.C():
			cancel()
		case <-answered:
		}
	}()
	options.Watch = true
	w, err := f.request(options).Watch(ctx)
	close(answered)
	<-late
	timer.Stop()
	if err != nil {
		cancel()
		f.broke(asked)
		return nil, f.explain("watch", err)
	}
	opened := f.opened()
	return &tracked{Interface: w, stopped: func() {
		cancel()
		if f.closed()-opened < brokeBefore {
			f.broke(asked)
		}
	}}, nil
}

// tracked is a watch that tells when it is over.
type tracked struct {
	watch.Interface

	once    sync.Once
	stopped func()
}

// Stop implements watch.Interface.
func (w *tracked) Stop() {
	w.Interface.Stop()
	w.once.Do(w.stopped)
}

func (f *feed) opened() (now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open, f.at = true, clock.Mono(f.cluster.config.Clock)
	return f.at
}

func (f *feed) closed() (now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open, f.lost = false, clock.Mono(f.cluster.config.Clock)
	return f.lost
}

// broke tells of what ended before its time, unless we ended it.
func (f *feed) broke(asked context.Context) {
	if told := f.cluster.config.Hooks.Broke; told != nil && asked.Err() == nil {
		told()
	}
}

// told notes that the server told something of that version.
func (f *feed) told(version string) {
	n := parseVersion(version)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = clock.Mono(f.cluster.config.Clock)
	f.backs = f.backs || n != 0 && n < f.newest
	f.newest = max(f.newest, n)
}

// contact says whether what is known of this kind of objects can be believed, how long ago the server last
// told anything, and whether the open watch is one to end: it is silent for too long, or went back in time.
func (f *feed) contact() (good, spoilt bool, age time.Duration) {
	now := clock.Mono(f.cluster.config.Clock)
	f.mu.Lock()
	defer f.mu.Unlock()
	age = now - f.at
	spoilt = f.open && (age >= silenceMax || f.backs)
	good = f.listed && !spoilt && (f.open || now-max(f.lost, f.at) < graceMax)
	return good, spoilt, age
}

func versionOf(o runtime.Object) string {
	if list, ok := o.(metav1.ListInterface); ok {
		return list.GetResourceVersion()
	}
	return ""
}

// parseVersion is a resource version as a number; 0 for one that is none.
func parseVersion(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}
