package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
)

// refusals is the stored form of the refused ids of a job.
type refusals struct {
	All []refusedID `json:"refused"`
}

type refusedID struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// noteRefused adds refused ids to those of a job, up to its bounds. A batch that is applied twice may refuse
// an id twice, which is noted once.
func (s *Service) noteRefused(ctx context.Context, id string, more []refusedID) error {
	for range casTriesMax {
		row, err := s.Store.Control(ctx, kindRefused, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		var known refusals
		if len(row.Value) > 0 {
			if err := json.Unmarshal(row.Value, &known); err != nil {
				return fmt.Errorf("%w: refused ids of job %s: %w", store.ErrCorrupt, id, err)
			}
		}
		before, size := len(known.All), len(row.Value)
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
			return nil
		}
		value, err := json.Marshal(known)
		if err != nil {
			return err
		}
		err = s.Store.PutControl(ctx, store.Control{Kind: kindRefused, Name: id, Version: row.Version + 1, Value: value})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// refused reads the refused ids of a job.
func (s *Service) refused(ctx context.Context, id string) (all []*kinesinv1.JobRefusal, err error) {
	row, err := s.Store.Control(ctx, kindRefused, id)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	var known refusals
	if err := json.Unmarshal(row.Value, &known); err != nil {
		return nil, fmt.Errorf("%w: refused ids of job %s: %w", store.ErrCorrupt, id, err)
	}
	for _, r := range known.All {
		all = append(all, &kinesinv1.JobRefusal{Id: r.ID, Text: r.Text})
	}
	return all, nil
}
