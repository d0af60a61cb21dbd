package scheduler

// notify wakes whoever receives from c, which has room for one element: it puts one in, unless one is there.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
