package inbound

import (
	"time"

	"github.com/kinesin-io/kinesin/api"
)

// Limits of calls.
const (
	// ScheduleItemsMax is how many tasks one call schedules at most.
	ScheduleItemsMax = api.ItemsMax
	// IDsMax is how many ids one call names at most.
	IDsMax = api.IDsMax
	// ListMax is how many tasks one page of a list has at most; listDefault when nothing is said.
	ListMax     = 1000
	listDefault = 100
	// WaitMax is how long one call waits at most.
	WaitMax = time.Minute
	// PayloadsBytesMax bounds the payloads of one answer, so that it fits a message also in base64.
	PayloadsBytesMax = api.MessageBytesMax / 2
	// ResultsBytesMax bounds the results of one answer. Results that have no room are left out, and may be
	// asked for in another call.
	ResultsBytesMax = api.MessageBytesMax / 8
	// casTriesMax bounds how often a change is tried again because the task moved in between.
	casTriesMax = 8
)
