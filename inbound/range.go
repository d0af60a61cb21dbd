package inbound

import "context"

// Range is what a job goes over besides a set of tasks that a filter selects: the nominal times of a cron, or the members of
// a group. It does the next part of what a row says, at most limit, behind a position, which is empty at the head. A part
// that was done before is left alone. The caller in the context is who made the job.
type Range func(ctx context.Context, of string, position []byte, limit int) (Part, error)

// Part is a part of a range.
type Part struct {
	Rows     []Row    // tasks that are to be changed
	Outcomes []string // of what was done already
	Examined int
	Next     []byte // the position behind it
	IsLast   bool
}
