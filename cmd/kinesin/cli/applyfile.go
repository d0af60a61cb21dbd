package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// applyBytesMax and declaredMax bound a file of declarations.
	applyBytesMax = 4 << 20
	declaredMax   = 10_000
)

// Kinds of what a file declares.
const (
	kindLambda    = "lambda"
	kindCron      = "cron"
	kindQuota     = "quota"
	kindObjective = "objective"
)

// What a file does not say of crons, and of quotas and objectives: the server and apply set it.
var (
	cronExcept  = []string{"version", "managed_by"}                             //nolint:gochecknoglobals // a list
	limitExcept = []string{"managed_by", "updated", "updated_by", "registered"} //nolint:gochecknoglobals // a list
)

// declarations is what a file for apply says.
type declarations struct {
	name string // of the set
	file string // as it was named

	lambdas    []declared[admin.Lambda]
	quotas     []declared[admin.Quota]
	objectives []declared[admin.Objective]
	crons      []declared[admin.Cron]
}

// declared is what a file says of one thing.
type declared[T any] struct {
	is    T
	line  int
	lines map[string]int // of its fields
	nulls []string       // fields that are null
}

// parseDeclarations reads a file. Its errors say in which line something is wrong, and what is allowed.
func parseDeclarations(data []byte, nameDefault string) (*declarations, error) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&document)
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			return nil, lineError(second.Line, "a second YAML document (---) is not allowed: want one document in a file")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if line := settings.AliasIn(&document); line > 0 {
		return nil, lineError(line, "an alias (*name) is not allowed")
	}
	if len(document.Content) == 0 {
		return nil, lineError(1, "the file is empty: want crons, lambdas, quotas or objectives")
	}
	d := &declarations{name: nameDefault}
	if err := d.read(document.Content[0]); err != nil {
		return nil, err
	}
	if err := task.CheckName("set", d.name); err != nil {
		return nil, fmt.Errorf("name of the set %q: want 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-'; a line `name: …` in the file says it", d.name)
	}
	for i := range d.crons {
		d.crons[i].is.ManagedBy = d.name
	}
	return d, nil
}

// lineError returns an error that begins with the line of the file.
func lineError(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

// read reads the lists of the file.
func (d *declarations) read(n *yaml.Node) error {
	if _, err := jsonOf(n); err != nil || n.Kind != yaml.MappingNode {
		return cmp.Or(err, lineError(n.Line, "want fields with values, such as `name: nightly`"))
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		var err error
		switch key.Value {
		case "name":
			if d.name = value.Value; value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
				err = lineError(value.Line, "name: want a text")
			}
		case "lambdas":
			err = eachNamed(value, kindLambda, d.addLambda)
		case "quotas":
			err = eachNamed(value, kindQuota, d.addQuota)
		case "objectives":
			err = eachNamed(value, kindObjective, d.addObjective)
		case "crons":
			err = eachNamed(value, kindCron, d.addCron)
		default:
			err = lineError(key.Line, "unknown field %.80q: want any of crons, lambdas, name, objectives, quotas", key.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachNamed calls add for each item of a list. Names are once in a kind.
func eachNamed(n *yaml.Node, kind string, add func(*yaml.Node) (name string, err error)) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return lineError(n.Line, "%ss: want a list, each item with fields such as `lambda: report`", kind)
	}
	if len(n.Content) > declaredMax {
		return lineError(n.Line, "%d %ss: want at most %d", len(n.Content), kind, declaredMax)
	}
	names := map[string]bool{}
	for _, item := range n.Content {
		name, err := add(item)
		if err != nil {
			return err
		}
		if names[name] {
			return lineError(item.Line, "%s %s is there twice", kind, name)
		}
		names[name] = true
	}
	return nil
}

// jsonOf returns YAML as JSON.
func jsonOf(n *yaml.Node) (encoded []byte, err error) {
	var parts [][]byte
	brackets := "[]"
	switch n.Kind {
	case yaml.MappingNode:
		brackets = "{}"
		seen := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if seen[key.Value] {
				return nil, lineError(key.Line, "%q is there twice", key.Value)
			}
			seen[key.Value] = true
			value, err := jsonOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			parts = append(parts, slices.Concat(jsonform.AppendValue(nil, key.Value), []byte(":"), value))
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			value, err := jsonOf(item)
			if err != nil {
				return nil, err
			}
			parts = append(parts, value)
		}
	default:
		if n.Tag == "!!int" || n.Tag == "!!float" { // as it is written: a payload may have more digits than a float
			if !json.Valid([]byte(n.Value)) {
				return nil, lineError(n.Line, "%s is not a number as JSON has it: want one such as 10 or 0.5, or a text in quotes", n.Value)
			}
			return []byte(n.Value), nil
		}
		var value any = n.Value
		if n.Tag != "!!str" && n.Tag != "!!timestamp" {
			if err := n.Decode(&value); err != nil {
				return nil, lineError(n.Line, "%v", err)
			}
		}
		if encoded, err = json.Marshal(value); err != nil {
			return nil, lineError(n.Line, "%v", err)
		}
		return encoded, nil
	}
	return slices.Concat([]byte(brackets[:1]), bytes.Join(parts, []byte(",")), []byte(brackets[1:])), nil
}

// read reads an item of a list into a message of what has a name in errors. A field that is null is as if it were left out.
func (d *declared[T]) read(n *yaml.Node, what string, m proto.Message, except ...string) error {
	if n.Kind != yaml.MappingNode {
		return lineError(n.Line, "want fields with values, such as `lambda: report`")
	}
	d.line, d.lines = n.Line, map[string]int{}
	known := jsonform.Names(m, except...)
	given := yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if d.lines[key.Value] = key.Line; value.Tag == "!!null" && slices.Contains(known, key.Value) && !strings.HasPrefix(key.Value, "payload") {
			d.nulls = append(d.nulls, key.Value)
			continue
		}
		given.Content = append(given.Content, key, value)
	}
	decode := func(of *yaml.Node, into proto.Message, except ...string) error {
		object, err := jsonOf(of)
		if err == nil {
			_, err = jsonform.DecodeAs(what, object, into, except...)
		}
		return err
	}
	err := decode(&given, m, except...)
	if err == nil {
		return nil
	}
	for i := range known { // which of them is it
		known[i] = "?" + known[i]
	}
	for i := 0; i < len(given.Content); i += 2 {
		one := yaml.Node{Kind: yaml.MappingNode, Content: given.Content[i : i+2]}
		if err := decode(&one, m.ProtoReflect().New().Interface(), slices.Concat(except, known)...); err != nil {
			return lineError(given.Content[i].Line, "%v", err)
		}
	}
	return lineError(n.Line, "%v", err)
}

// noZeros refuses a setting that is 0 or empty, which would be as if it were left out.
func (d *declared[T]) noZeros(settings proto.Message) error {
	m := settings.ProtoReflect()
	for i, fields := 0, m.Descriptor().Fields(); i < fields.Len(); i++ {
		f := fields.Get(i)
		isEmpty := !m.Has(f) || f.Message() != nil && !f.IsMap() && proto.Size(m.Get(f).Message().Interface()) == 0
		line, said := d.lines[string(f.Name())]
		if said && isEmpty && f.Kind() != protoreflect.StringKind && !slices.Contains(d.nulls, string(f.Name())) {
			return lineError(line, "%s: a 0 or an empty value is not allowed; null is the default", f.Name())
		}
	}
	return nil
}

// inBounds refuses what flags over the same settings would refuse, in their words.
func (d *declared[T]) inBounds(flags func(*pflag.FlagSet, *T)) (err error) {
	var over T
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags(f, &over)
	over = d.is
	f.VisitAll(func(flag *pflag.Flag) {
		text, name := flag.Value.String(), strings.ReplaceAll(flag.Name, "-", "_")
		if err != nil || text == "" || text == flag.DefValue || flag.Value.Type() == "tag" || flag.Value.Type() == "weights" {
			return // what has no form as a flag is left to the server
		}
		if refused := flag.Value.Set(text); refused != nil {
			err = lineError(cmp.Or(d.lines[name], d.line), "%s: %v", name, refused)
		}
	})
	return err
}

// addCron reads a cron. It refuses whatever the server would refuse, as far as it can tell.
func (d *declarations) addCron(n *yaml.Node) (string, error) {
	var c declared[admin.Cron]
	w := &kinesinv1.Cron{}
	if err := c.read(n, "the cron", w, cronExcept...); err != nil {
		return "", err
	}
	c.is = wirecopy.From[admin.Cron](w)
	if err := c.inBounds(addCronFlags); err != nil {
		return "", err
	}
	if err := checkCron(w); err != nil {
		return "", lineError(c.line, "cron %s: %v", c.is.Name, err)
	}
	w.Schedule = strings.TrimSpace(w.Schedule)
	c.is = wirecopy.From[admin.Cron](cronspec.Completed(w))
	d.crons = append(d.crons, c)
	return c.is.Name, nil
}

func checkCron(one *kinesinv1.Cron) error {
	if err := task.CheckName("cron", one.Name); err != nil {
		return err
	}
	if err := task.CheckName("lambda", one.Lambda); err != nil {
		return err
	}
	_, err := cronspec.Parse(cronspec.ConfigOf(one))
	if err == nil && one.CatchUp != cronspec.CatchUpAll && (one.CatchUpMax != 0 || one.CatchUpWithin != 0) {
		err = fmt.Errorf("catch_up_max and catch_up_within go with catch_up: all")
	}
	return err
}

func (d *declarations) addLambda(n *yaml.Node) (string, error) {
	var l declared[admin.Lambda]
	w := &kinesinv1.Lambda{}
	if err := l.read(n, "the lambda", w, "target_headers", "target_secrets"); err != nil { // no file should have secrets
		return "", err
	}
	if err := l.noZeros(w); err != nil {
		return "", err
	}
	if l.is = wirecopy.From[admin.Lambda](w); len(l.is.PriorityWeights) == 0 {
		l.is.PriorityWeights = nil
	}
	err := l.inBounds(func(f *pflag.FlagSet, l *admin.Lambda) {
		f.Var(choiceValue{(*string)(&l.Mode), wordsOf("Lambda.mode")}, "mode", "")
		f.BoolVar(&l.FIFO, "fifo", l.FIFO, "")
		f.Var(intValue{&l.Shards, 1, task.ShardsMax}, "shards", "")
		lambdaFlags(f, l)
	})
	if err != nil {
		return "", err
	}
	if err := task.CheckName("lambda", l.is.Name); err != nil {
		return "", lineError(l.line, "%v", err)
	}
	if err := checkLambda(&l.is); err != nil {
		return "", lineError(l.line, "lambda %s: %v", l.is.Name, err)
	}
	d.lambdas = append(d.lambdas, l)
	return l.is.Name, nil
}

// quotaName names a quota among those of all lambdas.
func quotaName(q *admin.Quota) string {
	name := q.Lambda
	if q.Priority != "" {
		name += " priority " + q.Priority
	}
	if q.Identity != "" {
		name += " identity " + q.Identity
	}
	return name
}

func (d *declarations) addQuota(n *yaml.Node) (string, error) {
	var q declared[admin.Quota]
	w := &kinesinv1.Quota{}
	if err := q.read(n, "the quota", w, limitExcept...); err != nil {
		return "", err
	}
	if err := q.noZeros(w); err != nil {
		return "", err
	}
	q.is = wirecopy.From[admin.Quota](w)
	if err := q.inBounds(quotaFlags); err != nil {
		return "", err
	}
	if err := task.CheckName("lambda", q.is.Lambda); err != nil {
		return "", lineError(q.line, "%v", err)
	}
	name := quotaName(&q.is)
	if err := checkQuota(&q.is, ""); err != nil {
		return "", lineError(q.line, "quota %s: %v", name, err)
	}
	if q.is.Burst > 0 && q.is.Rate == 0 {
		return "", lineError(q.line, "quota %s: burst goes with a rate", name)
	}
	d.quotas = append(d.quotas, q)
	return name, nil
}

func (d *declarations) addObjective(n *yaml.Node) (string, error) {
	var o declared[admin.Objective]
	w := &kinesinv1.Objective{}
	if err := o.read(n, "the objective", w, limitExcept...); err != nil {
		return "", err
	}
	o.is = wirecopy.From[admin.Objective](w)
	o.is.Percent = w.GetObjective()
	o.is.Window = cmp.Or(o.is.Window, sloWindowDefault)
	if err := o.inBounds(objectiveFlags); err != nil {
		return "", err
	}
	if err := task.CheckName("lambda", o.is.Lambda); err != nil {
		return "", lineError(o.line, "%v", err)
	}
	if err := checkObjective(&o.is, ""); err != nil {
		return "", lineError(o.line, "objective of %s: %v", o.is.Lambda, err)
	}
	d.objectives = append(d.objectives, o)
	return o.is.Lambda, nil
}
