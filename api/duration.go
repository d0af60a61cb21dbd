package api

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DurationPattern is the form of a duration that is not below zero, as documents have it, too, and SignedDurationPattern
// that of any. Go has the same but for days and weeks.
const (
	DurationPattern       = `^\+?` + unsigned
	SignedDurationPattern = `^[-+]?` + unsigned

	unsigned = `(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w))+)$`
)

// DurationWant says in errors how a duration is written.
const DurationWant = "want a duration as text, such as 500ms, 90s, 36h or 3d"

var (
	durationForm = regexp.MustCompile(SignedDurationPattern)
	daysForm     = regexp.MustCompile(`([0-9.]+)([dw])`)
)

// ParseDuration reads a duration such as 1m30s, 36h or 3d that is not below zero. A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Errorf("%q is below zero: %s", text, DurationWant)
	}
	return ParseSignedDuration(text)
}

// ParseSignedDuration reads a duration as ParseDuration does, or one that is below zero, such as -90s.
func ParseSignedDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(inHours(text))
	switch {
	case err == nil:
		return d, nil
	case durationForm.MatchString(text):
		return 0, fmt.Errorf("%q is no duration up to 292 years: %s", text, DurationWant)
	}
	return 0, fmt.Errorf("%q is no duration: %s", text, DurationWant)
}

// inHours writes the days of 24 hours and the weeks of a duration as hours: Go has neither.
func inHours(text string) string {
	if !strings.ContainsAny(text, "dw") || !durationForm.MatchString(text) {
		return text
	}
	return daysForm.ReplaceAllStringFunc(text, func(part string) string {
		last, hours := len(part)-1, 24.
		if part[last] == 'w' {
			hours *= 7
		}
		n, _ := strconv.ParseFloat(part[:last], 64)
		return strconv.FormatFloat(n*hours, 'f', -1, 64) + "h"
	})
}

// AppendDuration appends a number of microseconds as ParseDuration reads it, without parts that are zero: 90 minutes
// are 1h30m, and a day is 24h, since other languages have no d.
func AppendDuration(dst []byte, micros int64) []byte {
	left := uint64(micros)
	if micros < 0 {
		dst, left = append(dst, '-'), -left
	}
	const second = 1_000_000
	for _, unit := range []struct {
		name   byte
		micros uint64
	}{{'h', 3600 * second}, {'m', 60 * second}} {
		if n := left / unit.micros; n > 0 {
			dst, left = append(strconv.AppendUint(dst, n, 10), unit.name), left%unit.micros
			if left == 0 {
				return dst
			}
		}
	}
	switch {
	case left == 0 || left >= second:
		return append(appendFraction(dst, left, second), 's')
	case left >= second/1000:
		return append(appendFraction(dst, left, second/1000), "ms"...)
	default:
		return append(strconv.AppendUint(dst, left, 10), "µs"...)
	}
}

// appendFraction appends n of a unit, a power of ten, with what is left over behind a point.
func appendFraction(dst []byte, n, unit uint64) []byte {
	dst = strconv.AppendUint(dst, n/unit, 10)
	if n %= unit; n > 0 {
		digits := strconv.FormatUint(unit+n, 10)[1:]
		dst = append(append(dst, '.'), strings.TrimRight(digits, "0")...)
	}
	return dst
}
