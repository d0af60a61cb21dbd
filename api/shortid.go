package api

import "slices"

// Bounds of shortened ids. An id begins with its form and, unless the task has a key, the millisecond in which the task
// was made; random bits follow.
const (
	// ShortIDCharsMin is how many characters of an id a call names at least: the form and the millisecond.
	ShortIDCharsMin = 10
	// shortIDCharsShown is how many are shown at least, so that what names one task of a page also names it among more.
	shortIDCharsShown = 14
)

// ShortIDChars returns how many characters of ids to show, so that each names one of them.
func ShortIDChars(ids []string) int {
	sorted, chars := slices.Sorted(slices.Values(ids)), shortIDCharsShown
	for i := 1; i < len(sorted); i++ {
		a, b, same := sorted[i-1], sorted[i], 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		if a != b {
			chars = max(chars, same+1)
		}
	}
	return chars
}

// ShortID returns the first characters of an id.
func ShortID(id string, chars int) string { return id[:min(chars, len(id))] }
