package refusal

import "github.com/kinesin-io/kinesin/api/kinesinv1"

// NoSuchTask says that there is no task with an id or a key. Who may not see a task gets the same answer.
func NoSuchTask() *kinesinv1.Problem {
	return &kinesinv1.Problem{
		Reason: kinesinv1.Reason_REASON_NOT_FOUND,
		Text: "task not found: the id was not issued here, no task has the key, the key was used again, or the task ended and " +
			"its retention is over",
	}
}
