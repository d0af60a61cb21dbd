package cronspec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var spreadForm = regexp.MustCompile(`^H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,2}))?$`)

// hasSpread reports whether one of the fields has an H of its own, and not in a name such as THU.
func hasSpread(expression string) bool {
	for field := range strings.FieldsSeq(expression) {
		for term := range strings.SplitSeq(field, ",") {
			if strings.HasPrefix(term, "H") {
				return true
			}
		}
	}
	return false
}

// spread replaces each H of a field by a value that depends on the name and the field: H, H(9-17) and, with
// the first of the steps spread, H/15.
func spread(text string, number int, name string) (string, error) {
	if !hasSpread(text) {
		return text, nil
	}
	terms := strings.Split(text, ",")
	for i, term := range terms {
		if strings.HasPrefix(term, "H") {
			value, err := spreadTerm(term, number, name)
			if err != nil {
				return "", fmt.Errorf("%q: %w", text, err)
			}
			terms[i] = value
		}
	}
	return strings.Join(terms, ","), nil
}

func spreadTerm(term string, number int, name string) (string, error) {
	f := fieldsOf[number]
	parts := spreadForm.FindStringSubmatch(term)
	if parts == nil {
		return "", fmt.Errorf("%q is not a spread: want H, H(%d-%d) or H/2", term, f.low, f.high)
	}
	low, high := f.low, f.high
	if parts[1] != "" {
		low, _ = strconv.Atoi(parts[1]) // two digits
		high, _ = strconv.Atoi(parts[2])
	}
	if low < f.low || high > f.high || low > high {
		return "", fmt.Errorf("%q is out of range: want H(%d-%d) or a part of it", term, f.low, f.high)
	}
	width := uint64(high - low + 1)
	drawn := hash(name, "field", strconv.Itoa(number))
	if parts[3] == "" {
		return strconv.Itoa(low + int(drawn%width)), nil
	}
	step, _ := strconv.ParseUint(parts[3], 10, 64) // two digits
	if step == 0 || step > width {
		return "", fmt.Errorf("%q: a step of %d is out of range: want 1 to %d", term, step, width)
	}
	var all []string
	for v := low + int(drawn%step); v <= high; v += int(step) {
		all = append(all, strconv.Itoa(v))
	}
	return strings.Join(all, ","), nil
}

// hash returns the same number for the same parts, on every machine and in every release: what was spread
// stays where it is.
func hash(parts ...string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return binary.BigEndian.Uint64(sum[:])
}
