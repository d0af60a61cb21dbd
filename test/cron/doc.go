// Package cron holds the schedules of internal/feature/cron/cronspec to an oracle in Python: the weeks around the clock
// changes of all zones over ten years, for a corpus of expressions and all policies. make test/cron does all
// of it; the normal tests take a sample of the zones.
package cron
