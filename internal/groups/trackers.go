package groups

// trackers is a heap of groups by when they are to be counted.
type trackers []*tracker

func (t trackers) Len() int           { return len(t) }
func (t trackers) Less(i, j int) bool { return t[i].next < t[j].next }

func (t trackers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

// Push implements heap.Interface.
func (t *trackers) Push(x any) {
	tr, _ := x.(*tracker)
	tr.place = len(*t)
	*t = append(*t, tr)
}

// Pop implements heap.Interface.
func (t *trackers) Pop() any {
	last := len(*t) - 1
	tr := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return tr
}
