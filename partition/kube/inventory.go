package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inventory is what the watches show now.
type inventory struct {
	pods map[string]seenPod
	sets map[uid]seenSet

	podsListed, setsListed bool
}

// seenSet is what matters of a ReplicaSet.
type seenSet struct {
	owner  uid // its controller, or itself where there is none
	wanted int // how many pods it is to make
}

type seenPod struct {
	id      uid
	maker   uid
	ready   bool
	ending  bool
	version uint64
}

// isOf says whether a pod belongs to the fleet of the owner, which may have made it itself or by a
// ReplicaSet.
func (i *inventory) isOf(p *seenPod, c *Cluster) bool {
	if p.maker == c.maker.UID {
		return true
	}
	if c.byMaker {
		return false
	}
	set, known := i.sets[p.maker]
	return known && set.owner == i.ownerOf(c)
}

// ownerOf is who controls our fleet's ReplicaSets.
func (i *inventory) ownerOf(c *Cluster) uid {
	if set, known := i.sets[c.maker.UID]; known { // the Deployment may have been made anew around its sets
		return set.owner
	}
	return c.owner
}

// wanted is how many pods the fleet is to have, of which some may not be there yet; 0: that is not known.
func (i *inventory) wanted(c *Cluster) (pods int) {
	if c.byMaker {
		return 0
	}
	owner := i.ownerOf(c)
	for _, set := range i.sets {
		if set.owner == owner {
			pods += set.wanted
		}
	}
	return pods
}

// shown are the pods of the fleet that are not being deleted, and ours even then; true: ready. A pod of our
// name that is not ours is none.
func (i *inventory) shown(c *Cluster) map[string]bool {
	shown := make(map[string]bool, len(i.pods))
	for name, p := range i.pods {
		if own := name == c.config.Pod; i.isOf(&p, c) && (own && p.id == c.self || !own && !p.ending) {
			shown[name] = p.ready
		}
	}
	return shown
}

// putPod, as the others below, says whether anything is different now that matters.
func (i *inventory) putPod(p *pod) bool {
	now := seenPod{
		id: p.UID, maker: controllerOf(&p.ObjectMeta).UID, ready: p.isReady(), ending: p.isEnding(), version: parseVersion(p.ResourceVersion),
	}
	old, known := i.pods[p.Name]
	if known && old.id == now.id && now.version < old.version {
		return false // an answer from a server that is behind
	}
	i.pods[p.Name] = now
	old.version = now.version
	return old != now
}

func (i *inventory) putSet(s *replicaSet) bool {
	now := seenSet{owner: controllerOf(&s.ObjectMeta).UID, wanted: s.Spec.Replicas}
	if now.owner == "" {
		now.owner = s.UID
	}
	old := i.sets[s.UID]
	i.sets[s.UID] = now
	return old != now
}

func (i *inventory) take(o any) bool {
	switch o := o.(type) {
	case *pod:
		return i.putPod(o)
	case *replicaSet:
		return i.putSet(o)
	}
	return false
}

func (i *inventory) drop(o any) bool {
	switch o := o.(type) {
	case *pod:
		if i.pods[o.Name].id == o.UID {
			delete(i.pods, o.Name)
		}
	case *replicaSet:
		delete(i.sets, o.UID)
	}
	return true
}

// replace takes a list for all that there is of its kind.
func (i *inventory) replace(resource string, all []any) bool {
	if resource == resourcePods {
		i.pods, i.podsListed = make(map[string]seenPod, len(all)), true
	} else {
		i.sets, i.setsListed = make(map[uid]seenSet, len(all)), true
	}
	for _, o := range all {
		i.take(o)
	}
	return true
}

// shelf is the store that a reflector fills: one kind of objects of the inventory.
type shelf struct {
	m    *Membership
	feed *feed
}

// Add implements cache.ReflectorStore, as do the methods below.
func (s shelf) Add(o any) error { return s.Update(o) }

// Update takes an object as it is now.
func (s shelf) Update(o any) error {
	s.told(o)
	s.m.learn(func(i *inventory) bool { return i.take(o) })
	return nil
}

// Delete takes an object away.
func (s shelf) Delete(o any) error {
	s.told(o)
	s.m.learn(func(i *inventory) bool { return i.drop(o) })
	return nil
}

// Replace takes a whole list as one change.
func (s shelf) Replace(all []any, version string) error {
	s.feed.told(version)
	s.m.learn(func(i *inventory) bool { return i.replace(s.feed.resource, all) })
	return nil
}

// Resync does nothing: nothing is lost here.
func (s shelf) Resync() error { return nil }

// Bookmark notes that there is nothing new.
func (s shelf) Bookmark(version string) error {
	s.feed.told(version)
	return nil
}

func (s shelf) told(o any) {
	if meta, ok := o.(metav1.Object); ok {
		s.feed.told(meta.GetResourceVersion())
	}
}
