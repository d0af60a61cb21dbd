package task

// HoldsKey reports whether the task keeps others from using its key. A task that did its work holds the key
// for the key retention, so that it is not done twice. Every other end frees the key at once, so that a
// cancelled or dead task never swallows a new one. A member of a group holds its own for ever.
func (t *Task) HoldsKey(now Instant, p Policy) bool {
	switch {
	case !t.State.IsEnd(), t.Member != nil: // a member is scheduled once, whatever becomes of it
		return true
	case t.Forgotten:
		return false
	case t.State == Success || t.State == Delivered:
		return now < t.Ended.Add(p.KeyRetention)
	}
	return false
}
