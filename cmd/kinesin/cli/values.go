package cli

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/task"
)

const day = 24 * time.Hour

// formatDuration returns the text of a duration, as all surfaces write it.
func formatDuration(d time.Duration) string { return string(api.AppendDuration(nil, d.Microseconds())) }

// parseTime reads a time.
func parseTime(text string) (time.Time, error) {
	micros, err := jsonform.ParseInstant(text)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(micros).UTC(), nil
}

// intValue is a flag with a number between bounds. A zero max means none.
type intValue struct {
	n        *int
	min, max int
}

func (v intValue) String() string { return strconv.Itoa(*v.n) }

func (intValue) Type() string { return "int" }

func (v intValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a whole number", text)
	case v.max == 0 && n < v.min:
		return fmt.Errorf("%d is out of range: want %d or more", n, v.min)
	case v.max > 0 && (n < v.min || n > v.max):
		return fmt.Errorf("%d is out of range: want %d to %d", n, v.min, v.max)
	}
	*v.n = n
	return nil
}

// whole returns a flag with a whole number of any size, which the command checks.
func whole(n *int, value int) intValue {
	*n = value
	return intValue{n: n, min: math.MinInt}
}

// numberValue is a flag with a finite number.
type numberValue struct{ n *float64 }

// number returns a flag with a number of any size, which the command checks.
func number(n *float64, value float64) numberValue {
	*n = value
	return numberValue{n}
}

func (v numberValue) String() string { return strconv.FormatFloat(*v.n, 'g', -1, 64) }

func (numberValue) Type() string { return "float" }

func (v numberValue) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a number", text)
	}
	*v.n = n
	return nil
}

// durationValue is a flag with a duration, which may be below zero, between bounds. A zero max means none.
type durationValue struct {
	d        *time.Duration
	min, max time.Duration
}

func (v durationValue) String() string {
	if *v.d == 0 {
		return ""
	}
	return formatDuration(*v.d)
}

func (durationValue) Type() string { return "duration" }

func (v durationValue) Set(text string) error {
	d, err := api.ParseSignedDuration(text)
	if err != nil {
		return err
	}
	switch {
	case v.max > 0 && (d < v.min || d > v.max):
		return fmt.Errorf("%s is out of range: want %s to %s", text, formatDuration(v.min), formatDuration(v.max))
	case d < v.min:
		return fmt.Errorf("%s is too short: want at least %s", text, formatDuration(v.min))
	}
	*v.d = d
	return nil
}

func formatRange(from, to time.Duration) string {
	return formatDuration(from) + ".." + formatDuration(to)
}

// rangeValue is a flag with two durations: 1s..10m.
type rangeValue struct{ from, to *time.Duration }

func (v rangeValue) String() string {
	if *v.to == 0 {
		return ""
	}
	return formatRange(*v.from, *v.to)
}

func (rangeValue) Type() string { return "range" }

func (v rangeValue) Set(text string) error {
	low, high, found := strings.Cut(text, "..")
	if !found {
		return fmt.Errorf("%q is not a range: want MIN..MAX such as 1s..10m", text)
	}
	from, err := api.ParseSignedDuration(low)
	if err != nil {
		return err
	}
	to, err := api.ParseSignedDuration(high)
	if err != nil {
		return err
	}
	if from <= 0 || to < from {
		return fmt.Errorf("%q is not a range: want 0 < MIN ≤ MAX, such as 1s..10m", text)
	}
	*v.from, *v.to = from, to
	return nil
}

// choiceValue is a flag with one of a few values.
type choiceValue struct {
	value   *string
	choices []string
}

func (v choiceValue) String() string { return *v.value }

func (choiceValue) Type() string { return "word" }

func (v choiceValue) Set(text string) error {
	if slices.Contains(v.choices, text) {
		*v.value = text
		return nil
	}
	last := len(v.choices) - 1
	return fmt.Errorf("%q is unknown: want %s or %s", text, strings.Join(v.choices[:last], ", "), v.choices[last])
}

// tagsValue is a flag with a tag, NAME=VALUE, that may be repeated.
type tagsValue struct{ tags *map[string]string }

func (v tagsValue) String() string { return tagsText(*v.tags) }

func (tagsValue) Type() string { return "tag" }

func (v tagsValue) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%q is not a tag: want NAME=VALUE", text)
	}
	if _, twice := (*v.tags)[name]; twice {
		return fmt.Errorf("tag %q is given twice", name)
	}
	tags := map[string]string{name: value}
	maps.Copy(tags, *v.tags)
	if _, err := task.TagsOf(tags); err != nil {
		return err
	}
	*v.tags = tags
	return nil
}

// tagsText returns tags in order of their names.
func tagsText(tags map[string]string) string {
	all := make([]string, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, name+"="+tags[name])
	}
	return strings.Join(all, " ")
}

// seqValue is a flag with the seq of a task, which is never 0: that would mean any.
type seqValue struct{ seq *uint64 }

func (v seqValue) String() string {
	if *v.seq == 0 {
		return ""
	}
	return strconv.FormatUint(*v.seq, 10)
}

func (seqValue) Type() string { return "uint" }

func (v seqValue) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is no seq of a task: want a whole number from 1", text)
	}
	*v.seq = n
	return nil
}

// payloadText is a flag with a payload. Elsewhere "@FILE" and "-" name where the payload is, so neither is taken for
// the payload itself.
type payloadText struct{ text *string }

func (v payloadText) String() string { return *v.text }

func (payloadText) Type() string { return "text" }

func (v payloadText) Set(text string) error {
	if text == "-" || strings.HasPrefix(text, "@") {
		return errors.New("this is the payload itself, and of a payload that is - or begins with @ it is not sure that it is meant: " +
			"want --payload-file FILE for what is in a file, and --payload-file - for stdin, where such a payload goes too")
	}
	*v.text = text
	return nil
}

// resetValue is a flag with names of settings that get their defaults again, separated by commas.
type resetValue struct {
	names   *[]string
	allowed []string
}

// resetFlag adds the one flag that takes settings back to their defaults.
func resetFlag(f *pflag.FlagSet, names *[]string, allowed ...string) {
	f.Var(resetValue{names, allowed}, "reset", "`SETTINGS` that get their defaults again, separated by commas: "+strings.Join(allowed, ", "))
}

func (v resetValue) String() string { return strings.Join(*v.names, ",") }

func (resetValue) Type() string { return "names" }

func (v resetValue) Set(text string) error {
	for _, name := range splitList(text) {
		if !slices.Contains(v.allowed, name) {
			return fmt.Errorf("%q is no setting that can be reset: want any of %s", name, strings.Join(v.allowed, ", "))
		}
		*v.names = append(*v.names, name)
	}
	return nil
}

// limitValue is a flag with a limit between bounds.
type limitValue[N int | float64] struct {
	limit    *N
	kind     string // what Type returns: rate
	want     string // an example
	min, max N
	unit     string
	zero     string // what to do instead of a limit of 0
}

// countLimit is a flag with a number of tasks.
func countLimit(limit *int, most int, setting string) limitValue[int] {
	return limitValue[int]{limit, "count", "a whole number of tasks such as 20", 1, most, " tasks", "kinesin gate pause stops starts, and --reset " + setting + " takes the limit away"}
}

// rateLimit is a flag with a number of tasks per second.
func rateLimit(limit *float64, zero string) limitValue[float64] {
	return limitValue[float64]{limit, "rate", "a number per second such as 100 or 0.5", quotaRateMin, quotaRateMax, " per second", zero}
}

// shareLimit is a flag with a share of tasks.
func shareLimit(limit *float64, low, top float64) limitValue[float64] {
	return limitValue[float64]{limit, "share", "a number such as 0.2", low, top, "", ""}
}

func (v limitValue[N]) String() string {
	if *v.limit == 0 {
		return ""
	}
	return limitText(*v.limit)
}

func limitText[N int | float64](n N) string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }

func (v limitValue[N]) Type() string { return v.kind }

func (v limitValue[N]) Set(text string) error {
	given, err := strconv.ParseFloat(text, 64)
	switch limit := N(given); {
	case err != nil || float64(limit) != given:
		return fmt.Errorf("%q is not a %s: want %s", text, v.kind, v.want)
	case limit == 0 && v.zero != "":
		return errors.New("a quota of 0 is refused: " + v.zero)
	case limit < v.min || limit > v.max:
		return fmt.Errorf("%s is out of range: want %s to %s%s", text, limitText(v.min), limitText(v.max), v.unit)
	default:
		*v.limit = limit
	}
	return nil
}

// weightsValue is a flag with the weights of priorities.
type weightsValue struct{ weights *map[string]int }

func (v weightsValue) String() string {
	if *v.weights == nil {
		return ""
	}
	return fmt.Sprint(*v.weights)
}

func (v weightsValue) Set(text string) error {
	weights := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, isPair := strings.Cut(strings.TrimSpace(part), "=")
		if !isPair || name == "" {
			return fmt.Errorf("%q: want PRIORITY=WEIGHT separated by commas, such as high=8,normal=3,low=1", part)
		}
		if _, twice := weights[name]; twice {
			return fmt.Errorf("priority %q is named twice", name)
		}
		var weight int
		if err := (intValue{&weight, 1, task.PriorityWeightMax}).Set(number); err != nil {
			return fmt.Errorf("weight of %s: %w", name, err)
		}
		weights[name] = weight
	}
	*v.weights = weights
	return nil
}

func (weightsValue) Type() string { return "weights" }

// fieldOf returns a field of the contract by its name in it, such as Cron.gap.
func fieldOf(name string) protoreflect.FieldDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("kinesin.v1." + name))
	field, is := d.(protoreflect.FieldDescriptor)
	if !is {
		panic(fmt.Sprintf("no field %s: %v", name, err))
	}
	return field
}

// managedByFlag adds the flag of the declared set that a thing is of.
func managedByFlag(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "managed-by", "", "`NAME` of the declared set that it is of, which kinesin apply prunes")
}

// helpOf returns what the contract says of a field, for the flag that sets it.
func helpOf(name string) string { return jsonform.Comment(fieldOf(name)) }

// wordsOf returns the words that a field of the contract may be.
func wordsOf(name string) []string { return api.ValuesOf(fieldOf(name)) }
