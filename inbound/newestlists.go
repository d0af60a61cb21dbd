package inbound

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// newestKeptMax is how many of the newest tasks are kept for the next pages of a list, of 64 bytes each,
	// and newestListsMax for how many lists.
	newestKeptMax  = 50_000
	newestListsMax = 8
	// manyKnownFor is how long it is remembered that a list is too long to find the newest of it cheaply, and
	// manyListsMax of how many lists.
	manyKnownFor = 5 * time.Minute
	manyListsMax = 64
)

// newestKey is where a task is in a list of the newest tasks: when it was created or has ended. Its token
// finds its rows.
type newestKey struct {
	at    task.Instant
	token task.Token
}

func compareNewest(a, b newestKey) int {
	return cmp.Or(cmp.Compare(b.at, a.at), bytes.Compare(a.token.ID[:], b.token.ID[:]))
}

// newestList is a part of a list of tasks, the newest first: those after one of them.
type newestList struct {
	name  string       // says what is listed
	began task.Instant // when; durations in the filter count from then
	ends  bool         // it is one of ended tasks by their end, else of all tasks by when they were created
	after newestKey
	keys  []newestKey
	isAll bool // there are none behind them
	most  int  // rows to read for it
}

// at returns the time of a task by which it is listed.
func (l *newestList) at(t *task.Task) task.Instant {
	if l.ends {
		return t.Ended
	}
	return t.Created
}

// tooMany refuses a list that would have to read too much.
func (l *newestList) tooMany() error {
	return api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
		"more than %d tasks would have to be read to find the newest: name lambdas, priorities or states in the filter, or leave out the order", l.most)
}

// newestLists keeps the newest parts that were read. It is safe for concurrent use.
type newestLists struct {
	mu   sync.Mutex
	all  []newestList            // the newest one last
	many map[string]task.Instant // lists that were too long, by name, and when that was found
}

// isMany reports whether a list was too long a while ago.
func (l *newestLists) isMany(name string, now task.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, is := l.many[name]
	return is && now < found.Add(manyKnownFor)
}

// noteMany remembers that a list is too long, so that others like it need not read so far to find that out.
func (l *newestLists) noteMany(name string, now task.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.many == nil || len(l.many) >= manyListsMax {
		l.many = map[string]task.Instant{}
	}
	l.many[name] = now
}

// rest returns the part of a list that is kept and that goes on after a key, from there on.
func (l *newestLists) rest(of newestList, after newestKey) (newestList, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kept := range l.all {
		if kept.name != of.name || kept.began != of.began || compareNewest(after, kept.after) < 0 {
			continue
		}
		at, is := slices.BinarySearchFunc(kept.keys, after, compareNewest)
		if is {
			at++
		}
		if kept.keys = kept.keys[at:]; kept.isAll || len(kept.keys) > 0 {
			return kept, true
		}
	}
	return of, false
}

func (l *newestLists) keep(one newestList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all = append(l.all, one); len(l.all) > newestListsMax {
		l.all = slices.Delete(l.all, 0, 1)
	}
}
