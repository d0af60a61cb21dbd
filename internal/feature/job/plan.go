package job

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// plan is how far a job has come that lists its tasks before it changes any. A task that is moved by some
// time would otherwise be met again where it is now, and moved again. The list has when each task is to be
// due, so that a part of it may be worked off twice, and when it was due, so that one which somebody else has
// moved meanwhile stays where it is.
type plan struct {
	Listed bool `json:"listed,omitempty"`
	Parts  int  `json:"parts,omitempty"` // that are written
	Done   int  `json:"done,omitempty"`  // parts that are worked off
}

// UnmarshalJSON also reads the text that the row of a backfill has instead.
func (p *plan) UnmarshalJSON(value []byte) error {
	if len(value) > 0 && value[0] == '"' {
		return nil
	}
	type stored plan
	return json.Unmarshal(value, (*stored)(p))
}

// partsMax bounds the parts of a list, each of up to batchTasksMax tasks: about 80 MB of control rows.
const partsMax = 1000

func partName(id string, number int) string { return fmt.Sprintf("%s/%06d", id, number) }

// move is a task that is to be due at another time.
type move struct {
	ID  string       `json:"i"`
	Due task.Instant `json:"d"`
	Was task.Instant `json:"w"` // when it was due as it was listed; 0: not known
}

// of returns when a task is to be due, unless somebody else has moved it since it was listed.
func (m move) of(t *task.Task, now task.Instant) (task.Instant, error) {
	isOurs := t.Due == m.Due || max(t.Due, m.Due) <= now // a time in the past means now
	if m.Was != 0 && t.Due != m.Was && !isOurs {
		return 0, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "the task was moved since the job listed it: it is due at %s, and stays so",
			t.Due.Time().UTC().Format(time.RFC3339Nano))
	}
	return m.Due, nil
}
