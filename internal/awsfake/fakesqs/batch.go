package fakesqs

import (
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
)

var entryIDForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)

// checkEntries refuses a batch whose entries have no proper ids.
func checkEntries(ids []*string) error {
	switch n := len(ids); {
	case n == 0:
		return &types.EmptyBatchRequest{Message: aws.String("There should be at least one entry in the request.")}
	case n > batchEntriesMax:
		return &types.TooManyEntriesInBatchRequest{Message: aws.String("Maximum number of entries per request are 10.")}
	}
	seen := map[string]bool{}
	for _, id := range ids {
		switch {
		case !entryIDForm.MatchString(aws.ToString(id)):
			return &types.InvalidBatchEntryId{Message: aws.String("A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")}
		case seen[*id]:
			return &types.BatchEntryIdsNotDistinct{Message: aws.String("Id " + *id + " repeated.")}
		}
		seen[*id] = true
	}
	return nil
}

// each runs the entries of a batch, each with its own faults, and returns those that failed.
func (s *SQS) each(call string, ids []*string, run func(i int) error, succeeded func(i int)) []types.BatchResultErrorEntry {
	var failed []types.BatchResultErrorEntry
	for i, id := range ids {
		if s.Faults.Strikes(call, awsfake.Partial) {
			failed = append(failed, failedEntry(id, broken()))
			continue
		}
		err := run(i)
		if err == nil && s.Faults.Strikes(call, awsfake.PartialDone) {
			err = broken()
		}
		if err != nil {
			failed = append(failed, failedEntry(id, err))
			continue
		}
		succeeded(i)
	}
	return failed
}

// idsOf returns the ids of entries.
func idsOf[E any](entries []E, id func(*E) *string) []*string {
	ids := make([]*string, len(entries))
	for i := range entries {
		ids[i] = id(&entries[i])
	}
	return ids
}
