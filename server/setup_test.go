package server

import (
	"testing"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
)

// TestSetupsAtOnce: what another setup fixed between the check and the change is unchanged.
func TestSetupsAtOnce(t *testing.T) {
	spec := sqsclient.QueueSpec{Name: "p-inbound"}
	missing, differs := sqsclient.Difference{Queue: spec.Name}, sqsclient.Difference{Queue: spec.Name, Attribute: "VisibilityTimeout", Have: "1", Want: "30"}
	for _, c := range []struct {
		name    string
		found   []sqsclient.Difference
		made    []string
		aligned []sqsclient.Difference
		done    bool
		want    string
	}{
		{"there", nil, nil, nil, true, SetupUnchanged},
		{"made", []sqsclient.Difference{missing}, []string{spec.Name}, nil, true, SetupCreated},
		{"made by another", []sqsclient.Difference{missing}, nil, nil, true, SetupUnchanged},
		{"changed", []sqsclient.Difference{differs}, nil, []sqsclient.Difference{differs}, true, SetupChanged},
		{"changed by another", []sqsclient.Difference{differs}, nil, nil, true, SetupUnchanged},
		{"not made", []sqsclient.Difference{missing}, nil, nil, false, SetupMissing},
		{"not changed", []sqsclient.Difference{differs}, nil, nil, false, SetupDiffers},
	} {
		item := queueItem(spec, c.found)
		if item.settle(c.made, c.aligned, c.done); item.Outcome != c.want || (c.want == SetupUnchanged) != (len(item.Differences) == 0) {
			t.Errorf("%s: %+v, want %s", c.name, item, c.want)
		}
	}
}
