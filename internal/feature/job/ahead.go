package job

import (
	"bytes"
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/inbound"
)

// page returns the page of a job's set at its position, and begins to read the next one. A job with a pace
// has time, and reads each page when it is needed.
func (s *Service) page(ctx context.Context, j *job, of *inbound.Selection) (inbound.Page, error) {
	page, err := s.awaitPage(ctx, j, of)
	if err != nil || j.Pace != 0 || len(page.Next) == 0 {
		return page, err
	}
	next := &pageAhead{position: page.Next, may: j.may, read: make(chan pageRead, 1)}
	go func() {
		page, err := s.Tasks.Page(ctx, of, next.position, batchTasksMax)
		next.read <- pageRead{page, err}
	}()
	j.ahead = next
	return page, nil
}

// awaitPage returns the page that was read ahead, if it is the one at the job's position and may still be
// read.
func (s *Service) awaitPage(ctx context.Context, j *job, of *inbound.Selection) (inbound.Page, error) {
	if a, read := j.awaitAhead(); a != nil && bytes.Equal(a.position, j.Position) && slices.Equal(a.may, j.may) {
		return read.Page, read.err
	}
	return s.Tasks.Page(ctx, of, j.Position, j.batch())
}

// awaitAhead waits for the page that is read ahead, if there is one.
func (j *job) awaitAhead() (a *pageAhead, read pageRead) {
	if a, j.ahead = j.ahead, nil; a != nil {
		read = <-a.read
	}
	return a, read
}
