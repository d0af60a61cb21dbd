package intake

import (
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

// A refusal of a key names each thing in which the task that has it differs, also what follows it.
func TestDifferenceNamesWhatDiffers(t *testing.T) {
	follow := func(bytes string, added uint32) *task.Chain {
		return &task.Chain{Follow: []byte(bytes), FollowBytes: uint32(len(bytes)), FollowCount: 1, Added: [task.Finally]uint32{added}}
	}
	for want, change := range map[string]func(t *task.Task){
		"another payload":                          func(t *task.Task) { t.Payload = []byte("other") },
		"another payload and another priority":     func(t *task.Task) { t.Blob, t.Partition.Priority = &task.Blob{}, 1 },
		"another collection":                       func(t *task.Task) { t.Collection = "c" },
		"another limit key":                        func(t *task.Task) { t.LimitKey = "l" },
		"other follow-ups (then, else or finally)": func(t *task.Task) { t.Chain = nil },
		"another priority, another collection and other follow-ups (then, else or finally)": func(t *task.Task) {
			t.Partition.Priority, t.Collection, t.Chain = 1, "c", follow("z", 0)
		},
		"another payload or other follow-ups (then, else or finally)": func(t *task.Task) { t.Chain = follow("xyz", 1) },
	} {
		have := task.Task{Payload: []byte("bytes"), PayloadSize: 5, Chain: follow("x", 0)}
		other := have
		change(&have)
		if got := Difference(&other, &have); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
