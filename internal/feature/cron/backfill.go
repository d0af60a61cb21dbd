package cron

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Backfill says which occurrences a job schedules: those of a cron with nominal times from From on and before
// To. It is also the stored form.
type Backfill struct {
	Cron string       `json:"cron"`
	Life task.Instant `json:"life"` // when the cron was created
	Spec []byte       `json:"spec"` // sum of its settings
	From task.Instant `json:"from"`
	To   task.Instant `json:"to"`
}

// Filled says what a backfill did with some nominal times.
type Filled struct {
	Outcomes []string     // of each
	Last     task.Instant // the last one of them
	IsLast   bool         // there are no more
}

// NewBackfill returns a backfill of a cron as it is now.
func NewBackfill(c *Cron, from, to task.Instant) (*Backfill, error) {
	sum, err := c.Now().Spec.sum()
	return &Backfill{Cron: c.Name, Life: c.Created, Spec: sum, From: from, To: to}, err
}

// CheckSame refuses a cron that is not as it was when the backfill began: its nominal times may be others.
func (b *Backfill) CheckSame(c *Cron) error {
	sum, err := c.Now().Spec.sum()
	switch {
	case err != nil:
		return err
	case b.Life != c.Created:
		return fmt.Errorf("%w backfill: cron %s was deleted and created again since", task.ErrInvalid, c.Name)
	case !bytes.Equal(b.Spec, sum):
		return fmt.Errorf("%w backfill: the settings of cron %s were changed since; begin another one, which leaves out what this one has scheduled", task.ErrInvalid, c.Name)
	}
	return nil
}

func (s *Spec) sum() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the settings of a cron: %w", err)
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// PutBackfill puts occurrences for nominal times that have passed, by the newest revision and due now, unless
// they are there. Each has a task row from the beginning: its wake-up row is where the present time is, and
// another backfill would put one elsewhere.
func (f *Firing) PutBackfill(ctx context.Context, c *Cron, nominals []task.Instant) error {
	r := c.Now()
	s, err := r.Spec.Parse(c.Name)
	if err != nil {
		return err
	}
	all := make([]built, len(nominals))
	for i, at := range nominals {
		b, err := f.build(c, r, &task.Occurrence{Cron: c.Name, Life: c.Created, At: task.Firing{Revision: r.Number, Nominal: at}, Backfill: true}, s)
		if err != nil {
			return err
		}
		l, t := f.Lambda(c.Ref), b.task
		t.ID = task.BackfillID(c.Ref, c.Name, c.Created, at)
		t.Partition.Shard = partition.ShardOfKey(c.Name+"/"+strconv.FormatInt(int64(at), 10), l.ShardsFirst())
		t.Due = t.Created.CeilMillis() // the nominal time would put it before what is on time
		t.StartBefore = 0
		t.Wake = t.Due
		if l.StartWithin > 0 {
			t.StartBefore = t.Due.Add(l.StartWithin)
		}
		all[i] = b
	}
	return f.putBuilt(ctx, all, store.FirstWithRow)
}
