package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kinesin-io/kinesin/internal/inproc"
)

// object is one of the API's as JSON has it.
type object = map[string]any

// api is an API server in this process: it lists, watches and gets what the test puts there, over HTTP
// without a socket. It can be made to fail in each way that is known of real ones.
type api struct {
	*inproc.Transport

	t         testing.TB
	mu        sync.Mutex
	version   int
	objects   map[string]object // by resource/name
	log       []logged
	compacted int           // events up to this version are forgotten
	more      chan struct{} // closed at the next event, or when watches are to end
	ended     int           // watches that began before this many breaks are over
	stale     map[string]object
	staleAt   int

	refuse atomic.Pointer[refusal]
	away   atomic.Bool // no request gets through, no watch stays
	frozen atomic.Bool // watches stay open and tell nothing, not even bookmarks
	hung   atomic.Bool // requests are taken and not answered
	odd    atomic.Bool // watches tell nonsense before each event
	lists  atomic.Int64
}

// refusal is how some requests are answered.
type refusal struct {
	code   int
	reason string
	which  func(verb, resource string) bool
}

type logged struct {
	version  int
	kind     string
	resource string
	object   object
}

const (
	namespace = "prod"
	own       = "kinesin-new-b" // the pod of the process under test
	fleetUID  = "uid-deployment"
)

func newAPI(tb testing.TB) *api {
	tb.Helper()
	a := &api{t: tb, objects: map[string]object{}, more: make(chan struct{}), version: 100}
	a.Transport = inproc.New(a)
	return a
}

// RoundTrip implements http.RoundTripper: as a connection that is there, or is not.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.away.Load() {
		return nil, errRefused
	}
	return a.Transport.RoundTrip(r)
}

var errRefused = errors.New("connection refused")

func (a *api) config() *rest.Config {
	return &rest.Config{Host: "https://kubernetes.test", Transport: a}
}

// put stores an object and tells the watches.
func (a *api) put(resource string, o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	meta, _ := o["metadata"].(object)
	meta["resourceVersion"] = strconv.Itoa(a.version)
	key := resource + "/" + fmt.Sprint(meta["name"])
	kind := "MODIFIED"
	if a.objects[key] == nil {
		kind = "ADDED"
	}
	a.objects[key] = o
	a.tell(kind, resource, o)
}

// removePod deletes a pod and tells the watches.
func (a *api) removePod(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := resourcePods + "/" + name
	o := a.objects[key]
	if o == nil {
		return
	}
	delete(a.objects, key)
	a.version++
	a.tell("DELETED", resourcePods, with(o, object{"resourceVersion": strconv.Itoa(a.version)}))
}

// removeUntold deletes a pod as if the watches' events were lost.
func (a *api) removeUntold(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	delete(a.objects, resourcePods+"/"+name)
}

func with(o, metadata object) object {
	copied, _ := json.Marshal(o)
	var changed object
	_ = json.Unmarshal(copied, &changed)
	meta, _ := changed["metadata"].(object)
	maps.Copy(meta, metadata)
	return changed
}

func (a *api) tell(kind, resource string, o object) {
	a.log = append(a.log, logged{a.version, kind, resource, with(o, nil)})
	a.wake()
}

func (a *api) wake() {
	close(a.more)
	a.more = make(chan struct{})
}

// breakWatches ends those that are open. compact makes the server forget what they would go on from.
func (a *api) breakWatches(compact bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended++
	if compact {
		a.version++
		a.compacted, a.log = a.version, nil
	}
	a.wake()
}

// goAway cuts all off, and goBack ends that.
func (a *api) goAway() {
	a.away.Store(true)
	a.breakWatches(false)
}

func (a *api) goBack() { a.away.Store(false) }

// travel makes lists show what is there now, whatever comes after; forward ends that.
func (a *api) travel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale, a.staleAt = map[string]object{}, a.version
	for key, o := range a.objects {
		a.stale[key] = with(o, nil)
	}
}

func (a *api) forward() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale = nil
}

// ServeHTTP answers /api/v1/namespaces/NS/pods[/NAME] and the same for ReplicaSets.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.hung.Load() {
		<-r.Context().Done()
		return
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/apps/v1"), "/api/v1")
	parts := strings.Split(strings.TrimPrefix(path, "/namespaces/"), "/")
	if len(parts) < 2 {
		status(w, http.StatusNotFound, "NotFound", "no such path "+r.URL.Path)
		return
	}
	verb := "list"
	switch {
	case len(parts) == 3:
		verb = "get"
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	}
	if no := a.refuse.Load(); no != nil && no.which(verb, parts[1]) {
		status(w, no.code, no.reason, fmt.Sprintf("%s is refused: cannot %s resource %q", parts[1], verb, parts[1]))
		return
	}
	switch verb {
	case "get":
		a.get(w, parts[0], parts[1], parts[2])
	case "list":
		a.list(w, r, parts[0], parts[1])
	case "watch":
		a.watch(w, r, parts[1])
	}
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(statusOf(code, reason, message))
}

func statusOf(code int, reason, message string) object {
	return object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure", "message": message, "reason": reason, "code": code}
}

func (a *api) get(w http.ResponseWriter, ns, resource, name string) {
	a.mu.Lock()
	o := a.objects[resource+"/"+name]
	if o != nil {
		o = with(o, nil)
	}
	a.mu.Unlock()
	if o == nil || ns != namespace {
		status(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", resource, name))
		return
	}
	write(w, o)
}

func (a *api) list(w http.ResponseWriter, r *http.Request, ns, resource string) {
	a.lists.Add(1)
	selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	items := []any{}
	a.mu.Lock()
	objects, version := a.objects, a.version
	if a.stale != nil {
		objects, version = a.stale, a.staleAt
	}
	for key, o := range objects {
		if strings.HasPrefix(key, resource+"/") && matches(selector, o) && ns == namespace {
			items = append(items, with(o, nil))
		}
	}
	a.mu.Unlock()
	kind, group := "PodList", "v1"
	if resource == resourceReplicaSets {
		kind, group = "ReplicaSetList", "apps/v1"
	}
	write(w, object{"kind": kind, "apiVersion": group, "metadata": object{"resourceVersion": strconv.Itoa(version)}, "items": items})
}

func matches(selector labels.Selector, o object) bool {
	set := labels.Set{}
	meta, _ := o["metadata"].(object)
	all, _ := meta["labels"].(object)
	for name, value := range all {
		set[name] = fmt.Sprint(value)
	}
	return selector == nil || selector.Matches(set)
}

func write(w http.ResponseWriter, o object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

const bookmarkEvery = time.Minute

// watch tells of what comes after a version, until the client goes, the server's time is over, or the test
// breaks it.
func (a *api) watch(w http.ResponseWriter, r *http.Request, resource string) {
	selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	over := time.NewTimer(time.Duration(seconds) * time.Second)
	defer over.Stop()
	bookmark := time.NewTicker(bookmarkEvery)
	defer bookmark.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	a.mu.Lock()
	began := a.ended
	a.mu.Unlock()
	for {
		events, more, now, ended := a.since(from, resource, selector)
		if ended > began {
			return
		}
		if events == nil && from < a.oldest() {
			_ = json.NewEncoder(w).Encode(object{"type": "ERROR", "object": statusOf(http.StatusGone, "Expired", "too old resource version")})
			return
		}
		if !a.frozen.Load() {
			for _, e := range events {
				if a.odd.Load() {
					a.nonsense(w)
				}
				_ = json.NewEncoder(w).Encode(object{"type": e.kind, "object": e.object})
			}
			from = max(from, now)
		}
		select {
		case <-more:
		case <-bookmark.C:
			if !a.frozen.Load() {
				kind, group := "Pod", "v1"
				if resource == resourceReplicaSets {
					kind, group = "ReplicaSet", "apps/v1"
				}
				_ = json.NewEncoder(w).Encode(object{"type": "BOOKMARK", "object": object{"kind": kind, "apiVersion": group, "metadata": object{"resourceVersion": strconv.Itoa(now)}}})
			}
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// nonsense is what no server should tell.
func (a *api) nonsense(w http.ResponseWriter) {
	for _, o := range []object{
		{"kind": "Pod", "apiVersion": "v1"},
		{"kind": "Pod", "apiVersion": "v1", "metadata": object{"name": "odd", "resourceVersion": "x"}, "status": nil},
		{"kind": "Pod", "apiVersion": "v1", "metadata": object{"name": "odd", "ownerReferences": []any{object{"uid": "nobody"}}}, "status": object{"conditions": []any{nil, object{"type": "Ready"}}}},
		{"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": object{"name": "odd"}, "spec": nil},
	} {
		for _, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
			_ = json.NewEncoder(w).Encode(object{"type": kind, "object": o})
		}
	}
}

func (a *api) oldest() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.compacted
}

func (a *api) since(version int, resource string, selector labels.Selector) (events []logged, more chan struct{}, now, ended int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.log, version+1, func(e logged, v int) int { return e.version - v })
	for _, e := range a.log[first:] {
		if e.resource == resource && matches(selector, e.object) {
			events = append(events, e)
		}
	}
	return events, a.more, a.version, a.ended
}

// deployment puts the ReplicaSets of a Deployment there, and one of another that has the same labels.
func (a *api) deployment() {
	a.replicaSet("kinesin-old", "old", fleetUID, 0)
	a.replicaSet("kinesin-new", "new", fleetUID, 1)
	a.replicaSet("stranger", "strange", "uid-of-another", 3)
}

func (a *api) replicaSet(name, hash, owner string, replicas int) {
	a.put(resourceReplicaSets, object{
		"kind": "ReplicaSet", "apiVersion": "apps/v1",
		"metadata": object{
			"name": name, "namespace": namespace, "uid": "uid-" + name, "labels": object{"app": "kinesin", hashLabel: hash},
			"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "kinesin", "uid": owner, "controller": true}},
		},
		"spec": object{"replicas": replicas, "selector": object{"matchLabels": object{"app": "kinesin", hashLabel: hash}}},
	})
}

// pod puts a pod there as its kubelet says it is.
func (a *api) pod(name string, ready bool) { a.put(resourcePods, podObject(name, ready, nil)) }

// podObject is a pod of the ReplicaSet that its name begins with.
func podObject(name string, ready bool, metadata object) object {
	maker := name[:strings.LastIndex(name, "-")]
	condition := map[bool]string{true: "True", false: "False"}[ready]
	return with(object{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": object{
			"name": name, "namespace": namespace, "uid": "uid-" + name,
			"labels":          object{"app": "kinesin", hashLabel: maker},
			"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": maker, "uid": "uid-" + maker, "controller": true}},
			"managedFields":   []any{object{"manager": "kubelet", "fieldsV1": object{"f:status": object{}}}},
		},
		"spec": object{"containers": []any{object{"name": "kinesin", "image": "kinesin:1"}}},
		"status": object{"phase": "Running", "podIP": "10.0.0.1", "conditions": []any{
			object{"type": "PodScheduled", "status": "True"}, object{"type": "Ready", "status": condition, "lastTransitionTime": "2026-01-01T00:00:00Z"},
		}},
	}, metadata)
}

// terminate begins the deletion of a pod, as the API server shows it while the process still runs.
func (a *api) terminate(name string) {
	a.put(resourcePods, podObject(name, true, object{"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}))
}

// names of all pods there, sorted.
func (a *api) names() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.objects {
		if name, is := strings.CutPrefix(key, resourcePods+"/"); is {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// refuseBy makes the server answer some requests with an error.
func (a *api) refuseBy(code int, reason string, which func(verb, resource string) bool) {
	a.refuse.Store(&refusal{code, reason, which})
}

func (a *api) refuseNone() { a.refuse.Store(nil) }
