package cronspec

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// CatchUpAll is the catch-up of a cron that the bounds of number and time go with.
const CatchUpAll = "all"

// Defaults are the settings of a cron that says nothing; CatchUpMax and CatchUpWithin if it catches up on all.
var Defaults = &kinesinv1.Cron{ //nolint:gochecknoglobals // a table
	Zone: "UTC", Gap: string(GapShift), Fold: string(FoldFirst), Overlap: "skip", CatchUp: "last",
	CatchUpMax: 1000, CatchUpWithin: (24 * time.Hour).Microseconds(),
}

// Completed returns a cron with its settings that are not set as they are by default.
func Completed(c *kinesinv1.Cron) *kinesinv1.Cron {
	full := proto.CloneOf(Defaults)
	proto.Merge(full, c)
	if full.CatchUp != CatchUpAll {
		full.CatchUpMax, full.CatchUpWithin = 0, 0
	}
	return full
}

// Stripped returns a cron without what says the same as nothing, so that equal settings are equal.
func Stripped(c *kinesinv1.Cron) *kinesinv1.Cron {
	c = proto.CloneOf(c)
	m := c.ProtoReflect()
	Defaults.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if m.Get(f).Equal(v) {
			m.Clear(f)
		}
		return true
	})
	return c
}

// ConfigOf returns what a cron says about its nominal times.
func ConfigOf(c *kinesinv1.Cron) Config {
	config := Config{
		Name: c.GetName(), Expression: c.GetSchedule(), Zone: c.GetZone(), Gap: Gap(c.GetGap()), Fold: Fold(c.GetFold()),
		Jitter: time.Duration(c.GetJitter()) * time.Microsecond,
	}
	if c.GetStart() != 0 {
		config.Start = time.UnixMicro(c.GetStart()).UTC()
	}
	if c.GetEnd() != 0 {
		config.End = time.UnixMicro(c.GetEnd()).UTC()
	}
	return config
}
