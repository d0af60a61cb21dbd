package kube

// inventory is what the watches show now.
type inventory struct {
	pods map[string]seenPod
	sets map[uid]seenSet

	podsListed, setsListed bool
}

// seenSet is what matters of a ReplicaSet.
type seenSet struct {
	owner  uid // its controller, or itself if it has none
	wanted int // how many pods it should have
}

type seenPod struct {
	id     uid
	maker  uid
	ready  bool
	ending bool
}

// owns reports whether a pod belongs to the fleet: its controller is ours, or a ReplicaSet of the same owner.
func (i *inventory) owns(p *seenPod, c *Cluster) bool {
	if p.maker == c.maker.UID {
		return true
	}
	if c.byMaker {
		return false
	}
	set, known := i.sets[p.maker]
	return known && set.owner == i.ownerOf(c)
}

// ownerOf returns the controller of our fleet's ReplicaSets.
func (i *inventory) ownerOf(c *Cluster) uid {
	if set, known := i.sets[c.maker.UID]; known { // the Deployment may have been recreated around its sets
		return set.owner
	}
	return c.owner
}

// wanted returns how many pods the fleet should have, or 0 if that is unknown.
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

// shown returns the pods of the fleet that are not being deleted, and ours even then; true: ready. It leaves
// out another pod of our name.
func (i *inventory) shown(c *Cluster) map[string]bool {
	shown := make(map[string]bool, len(i.pods))
	for name, p := range i.pods {
		if own := name == c.config.Pod; i.owns(&p, c) && (own && p.id == c.self || !own && !p.ending) {
			shown[name] = p.ready
		}
	}
	return shown
}

// put adds or updates an object, and reports whether that changed anything that matters.
func (i *inventory) put(o any) bool {
	switch o := o.(type) {
	case *pod:
		now := seenPod{id: o.UID, maker: controllerOf(&o.ObjectMeta).UID, ready: o.isReady(), ending: o.isEnding()}
		old := i.pods[o.Name]
		i.pods[o.Name] = now
		return old != now
	case *replicaSet:
		now := seenSet{owner: controllerOf(&o.ObjectMeta).UID, wanted: o.Spec.Replicas}
		if now.owner == "" {
			now.owner = o.UID
		}
		old := i.sets[o.UID]
		i.sets[o.UID] = now
		return old != now
	}
	return false
}

// remove deletes an object.
func (i *inventory) remove(o any) {
	switch o := o.(type) {
	case *pod:
		if i.pods[o.Name].id == o.UID {
			delete(i.pods, o.Name)
		}
	case *replicaSet:
		delete(i.sets, o.UID)
	}
}

// replace replaces all objects of one kind by a list.
func (i *inventory) replace(resource string, all []any) {
	if resource == resourcePods {
		i.pods, i.podsListed = make(map[string]seenPod, len(all)), true
	} else {
		i.sets, i.setsListed = make(map[uid]seenSet, len(all)), true
	}
	for _, o := range all {
		i.put(o)
	}
}
