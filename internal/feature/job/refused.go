package job

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
)

// refusals is the stored form of the refused ids of a job.
type refusals struct {
	control.Meta `json:"-"`

	Job  string      `json:"-"`
	All  []refusedID `json:"refused"`
	size int         // of the row, in bytes
}

type refusedID struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

var refusalsAsRows = control.Kind[refusals]{
	Live: kindRefused, What: "refused ids of job", Name: func(r *refusals) string { return r.Job },
	Read: func(name string, value []byte, r *refusals) error {
		r.Job, r.size = name, len(value)
		return json.Unmarshal(value, r)
	},
}

// noteRefused adds refused ids to those of a job, up to its bounds. A batch that is applied twice may refuse
// an id twice, which is noted once.
func (s *Service) noteRefused(ctx context.Context, id string, more []refusedID) error {
	_, err := s.refusals.Set(ctx, id, func(known *refusals) (control.Do, error) {
		known.Job = id
		before, size := len(known.All), known.size
		for _, r := range more {
			r.Text = strings.ToValidUTF8(r.Text[:min(len(r.Text), refusedTextBytesMax)], "")
			size += len(r.ID) + 2*len(r.Text) + len(`{"id":"","text":""},`)
			if len(known.All) == RefusedMax || size > refusedBytesMax {
				break
			}
			if !slices.ContainsFunc(known.All, func(k refusedID) bool { return k.ID == r.ID }) {
				known.All = append(known.All, r)
			}
		}
		if len(known.All) == before {
			return control.Keep, nil
		}
		return control.Store, nil
	})
	return err
}

// refused reads the refused ids of a job.
func (s *Service) refused(ctx context.Context, id string) (all []*kinesinv1.JobRefusal, err error) {
	known, err := s.refusals.Find(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range known.All {
		all = append(all, &kinesinv1.JobRefusal{Id: r.ID, Text: r.Text})
	}
	return all, nil
}
