//go:build seeded

package sim

import _ "unsafe" // for go:linkname

// Repeatable says that the runtime takes its chances from the seed: this program was built with the overlay
// of test/cmd/seededgo.
const Repeatable = true

//go:linkname seedRuntime runtime.runtime_seed
func seedRuntime(on bool, seed uint64)
