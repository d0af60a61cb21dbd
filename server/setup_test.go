package server

import (
	"testing"

	"github.com/kinesin-io/kinesin/queue/sqs"
)

// TestSetupsAtOnce: what another setup fixed between the check and the change is unchanged.
func TestSetupsAtOnce(t *testing.T) {
	spec := sqs.QueueSpec{Name: "p-inbound"}
	missing, differs := sqs.Difference{Queue: spec.Name}, sqs.Difference{Queue: spec.Name, Attribute: "VisibilityTimeout", Have: "1", Want: "30"}
	for _, c := range []struct {
		name    string
		found   []sqs.Difference
		made    []string
		aligned []sqs.Difference
		done    bool
		want    string
	}{
		{"there", nil, nil, nil, true, SetupUnchanged},
		{"made", []sqs.Difference{missing}, []string{spec.Name}, nil, true, SetupCreated},
		{"made by another", []sqs.Difference{missing}, nil, nil, true, SetupUnchanged},
		{"changed", []sqs.Difference{differs}, nil, []sqs.Difference{differs}, true, SetupChanged},
		{"changed by another", []sqs.Difference{differs}, nil, nil, true, SetupUnchanged},
		{"not made", []sqs.Difference{missing}, nil, nil, false, SetupMissing},
		{"not changed", []sqs.Difference{differs}, nil, nil, false, SetupDiffers},
	} {
		item := queueItem(spec, c.found)
		if item.settle(c.made, c.aligned, c.done); item.Outcome != c.want || (c.want == SetupUnchanged) != (len(item.Differences) == 0) {
			t.Errorf("%s: %+v, want %s", c.name, item, c.want)
		}
	}
}
