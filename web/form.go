package web

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kinesin-io/kinesin/api"
)

// parseDuration reads a duration such as 90s, 10m, 2h or 3d.
func parseDuration(text string) (time.Duration, error) {
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, invalid("duration %v", err)
	}
	return d, nil
}

// parsePace reads tasks per second; empty: none given.
func parsePace(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, invalid("pace %q: want a whole number of tasks per second, or nothing", text)
	}
	return uint32(n), nil
}

// newRequest makes an id of a form, so that it does what it does once however often it is sent.
func newRequest() string {
	id, err := uuid.NewV7()
	if err != nil {
		return ""
	}
	return id.String()
}

// requestID reads one.
func requestID(text string) []byte {
	id, err := uuid.Parse(text)
	if err != nil {
		return nil
	}
	return id[:]
}
