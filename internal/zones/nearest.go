package zones

import (
	"cmp"
	"slices"
	"strings"
)

const nearestMax = 3 // names that are offered for an unknown one

// nearest returns the names that are most like an unknown one, the best first. Letter case does not count,
// a space is an underscore, and a city alone is enough.
func (d *Database) nearest(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	sought := strings.ReplaceAll(strings.ToLower(name), " ", "_")
	city := sought[strings.LastIndexByte(sought, '/')+1:]
	var near []candidate
	for _, known := range d.names {
		full := strings.ToLower(known)
		distance := min(
			edits(sought, full),
			edits(city, full[strings.LastIndexByte(full, '/')+1:])+1, // the right region is worth something
		)
		if distance <= max(2, len(sought)/4) && distance < len(sought) {
			near = append(near, candidate{known, distance})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range near {
		if len(names) == nearestMax || c.distance > near[0].distance+1 {
			break
		}
		names = append(names, c.name)
	}
	return names
}

// edits returns how many bytes have to be inserted, deleted or changed to make b of a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, diagonal := i+1, i
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j] = left
			left = min(changed, left+1, diagonal+1)
		}
		row[len(b)] = left
	}
	return row[len(b)]
}
