package sim

// Wanted names all that has to happen in a batch of seeds, or the batch shows nothing about it: every kind of fault, every state of a
// task, every kind of answer.
func Wanted() []string {
	var all []string
	for _, kind := range Kinds() {
		all = append(all, string(kind))
	}
	for _, state := range []string{"scheduled", "enqueued", "claimed", "processing", "success", "fatal_failure", "retriable_failure", "dead", "cancelled"} {
		all = append(all, "state "+state)
	}
	return append(all, "schedule failed", "schedule answered, duplicate false", "schedule answered, duplicate true", "cancelled", "cancelling", "too late to cancel")
}
