package scheduler

// notify leaves an element in a channel that has room for one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
