package load

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// indexBytes is the size of the task's number in its payload.
const indexBytes = 8

const warmUpIndex = math.MaxUint64

func warmUpPayload(size int) []byte {
	return payloads(1, size, func(int) uint64 { return warmUpIndex })[0]
}

// payloads returns n payloads of a size, each beginning with its number, in one allocation.
func payloads(n, size int, number func(i int) uint64) [][]byte {
	slab := make([]byte, n*size)
	all := make([][]byte, n)
	for i := range all {
		p := slab[i*size : (i+1)*size : (i+1)*size]
		binary.LittleEndian.PutUint64(p, number(i))
		for j := indexBytes; j < size; j++ {
			p[j] = byte('a' + (i+j)%26)
		}
		all[i] = p
	}
	return all
}

// record holds what happened to each task. Handlers write it concurrently; it is read when they are done.
type record struct {
	due    []int64 // Unix microseconds; written before the task is scheduled
	starts []atomic.Int64
	times  []atomic.Int32

	started   atomic.Int64 // tasks, not starts
	duplicate atomic.Int64
	early     atomic.Int64
	strange   atomic.Int64 // payloads that were not scheduled here
	last      atomic.Int64 // Unix microseconds of the newest first start

	all  chan struct{} // closed when all tasks have started
	each chan struct{} // holds a value when a task has started
	warm chan struct{}
}

func newRecord(tasks int) *record {
	return &record{
		due: make([]int64, tasks), starts: make([]atomic.Int64, tasks), times: make([]atomic.Int32, tasks),
		all: make(chan struct{}), each: make(chan struct{}, 1), warm: make(chan struct{}, 1),
	}
}

// start records the start of a task.
func (r *record) start(payload []byte, now time.Time) {
	if len(payload) < indexBytes {
		r.strange.Add(1)
		return
	}
	i := binary.LittleEndian.Uint64(payload)
	switch {
	case i == warmUpIndex:
		poke(r.warm)
		return
	case i >= uint64(len(r.due)):
		r.strange.Add(1)
		return
	}
	at := now.UnixMicro()
	if at < r.due[i] {
		r.early.Add(1)
	}
	if r.times[i].Add(1) > 1 {
		r.duplicate.Add(1)
		return
	}
	r.starts[i].Store(at)
	for last := r.last.Load(); at > last && !r.last.CompareAndSwap(last, at); {
		last = r.last.Load()
	}
	poke(r.each)
	if r.started.Add(1) == int64(len(r.due)) {
		close(r.all)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var errPatience = errors.New("the worker got no task in time")

func (r *record) awaitWarm(ctx context.Context, patience time.Duration) error {
	return await(ctx, r.warm, patience)
}

// await waits for a value of c.
func await(ctx context.Context, c <-chan struct{}, patience time.Duration) error {
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-c:
		return nil
	case <-over.C:
		return errPatience
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lateness returns start − due of every started task, in microseconds.
func (r *record) lateness() []int64 {
	all := make([]int64, 0, r.started.Load())
	for i := range r.starts {
		if at := r.starts[i].Load(); at != 0 {
			all = append(all, at-r.due[i])
		}
	}
	return all
}
