//go:build !seeded

package sim

// Repeatable says that the same seed runs the same way. Without the overlay it runs the same plan, and
// goroutines take turns as they like.
const Repeatable = false

func seedRuntime(bool, uint64) {}
