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
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/cron"
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

// declarations is what a file for apply says.
type declarations struct {
	name    string // of the set
	file    string // as it was named
	lambdas []declaredLambda
	crons   []declaredCron

	quotas     []declaredQuota
	objectives []declaredObjective
}

type declaredLambda struct {
	line  int
	info  *admin.Lambda
	flags *pflag.FlagSet // over info; those that the file has are changed
}

type declaredCron struct {
	line  int
	cron  *admin.Cron
	flags *pflag.FlagSet // over cron
}

// lambdaSettings are flags over the settings of a lambda, by which a file sets them and changes are found.
func lambdaSettings(l *admin.Lambda) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Var(choiceValue{(*string)(&l.Mode), wordsOf("Lambda.mode")}, "mode", "")
	f.Var(listValue{&l.Priorities}, "priorities", "")
	f.Var(intValue{&l.Shards, 1, task.ShardsMax}, "shards", "")
	lambdaFlags(f, l)
	return f
}

// cronSettingsOf are flags over the settings of a cron.
func cronSettingsOf(c *admin.Cron) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	addCronFlags(f, c)
	f.Var(payloadValue{&c.Payload}, "payload", "")
	f.StringVar(&c.Lambda, "lambda", "", "")
	return f
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
	names := map[string]bool{}
	err = eachField(document.Content[0], map[string]func(*yaml.Node) error{
		"name": func(n *yaml.Node) (err error) {
			d.name, err = scalar(n)
			return err
		},
		"lambdas": func(n *yaml.Node) error { return eachNamed(n, kindLambda, names, d.addLambda) },
		"crons":   func(n *yaml.Node) error { return eachNamed(n, kindCron, names, d.addCron) },

		"quotas":     func(n *yaml.Node) error { return eachNamed(n, kindQuota, names, d.addQuota) },
		"objectives": func(n *yaml.Node) error { return eachNamed(n, kindObjective, names, d.addObjective) },
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := task.CheckName("set", d.name); err != nil || d.name == noneWord {
		return nil, fmt.Errorf("name of the set %q: want 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-', and not %s; a line `name: …` in the file says it", d.name, noneWord)
	}
	for i := range d.crons {
		d.crons[i].cron.ManagedBy = d.name
	}
	return d, nil
}

func lineError(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

// eachField calls the function of each field of a mapping, or other for one without.
func eachField(n *yaml.Node, fields map[string]func(*yaml.Node) error, other func(name string, key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return lineError(n.Line, "want fields with values, such as `name: nightly`")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			return lineError(key.Line, "%q is there twice", key.Value)
		}
		seen[key.Value] = true
		set, known := fields[key.Value]
		switch {
		case known:
			if err := set(value); err != nil {
				return err
			}
		case other != nil:
			if err := other(key.Value, key, value); err != nil {
				return err
			}
		default:
			return unknownField(key, fieldNames(fields))
		}
	}
	return nil
}

func unknownField(key *yaml.Node, allowed []string) error {
	return lineError(key.Line, "unknown field %.80q: want any of %s", key.Value, strings.Join(allowed, ", "))
}

func fieldNames(fields map[string]func(*yaml.Node) error) (names []string) {
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// eachNamed calls add for each item of a list. Names are once in a kind.
func eachNamed(n *yaml.Node, kind string, names map[string]bool, add func(*yaml.Node) (name string, err error)) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return lineError(n.Line, "%ss: want a list, each item with fields such as `lambda: report`", kind)
	}
	if len(n.Content) > declaredMax {
		return lineError(n.Line, "%d %ss: want at most %d", len(n.Content), kind, declaredMax)
	}
	for _, item := range n.Content {
		name, err := add(item)
		if err != nil {
			return err
		}
		if names[kind+"/"+name] {
			return lineError(item.Line, "%s %s is there twice", kind, name)
		}
		names[kind+"/"+name] = true
	}
	return nil
}

func scalar(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", lineError(n.Line, "want a text or a number")
	}
	return n.Value, nil
}

// setField sets a flag by a field of the same name, with _ for -.
func setField(f *pflag.FlagSet, key, value *yaml.Node, others ...string) error {
	flag := strings.ReplaceAll(key.Value, "_", "-")
	if f.Lookup(flag) == nil || strings.Contains(key.Value, "-") {
		if len(others) == 0 {
			others = []string{"name"}
		}
		return unknownField(key, slices.Concat(others, flagFields(f)))
	}
	texts, err := textsOf(flag, value)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if err := f.Set(flag, text); err != nil {
			_, why, _ := strings.Cut(err.Error(), "flag: ")
			return lineError(value.Line, "%s: %s", key.Value, cmp.Or(why, err.Error()))
		}
	}
	return nil
}

func flagFields(f *pflag.FlagSet) (names []string) {
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "tag" {
			names = append(names, "tags")
			return
		}
		names = append(names, strings.ReplaceAll(flag.Name, "-", "_"))
	})
	return names
}

// textsOf returns the values of a flag that a field stands for.
func textsOf(flag string, value *yaml.Node) ([]string, error) {
	switch {
	case value.Kind == yaml.ScalarNode:
		text, err := scalar(value)
		return []string{text}, err
	case flag == "payload":
		var content any
		if err := value.Decode(&content); err != nil {
			return nil, lineError(value.Line, "payload: %v", err)
		}
		encoded, err := json.Marshal(content)
		if err != nil {
			return nil, lineError(value.Line, "payload: %v", err)
		}
		return []string{string(encoded)}, nil
	case value.Kind == yaml.MappingNode && (flag == "tag" || flag == "priority-weights"):
		var pairs []string
		err := eachField(value, nil, func(name string, _, value *yaml.Node) error {
			text, err := scalar(value)
			pairs = append(pairs, name+"="+text)
			return err
		})
		if flag == "priority-weights" {
			pairs = []string{strings.Join(pairs, ",")}
		}
		return pairs, err
	case value.Kind == yaml.SequenceNode && flag == "priorities":
		items := make([]string, len(value.Content))
		for i, item := range value.Content {
			var err error
			if items[i], err = scalar(item); err != nil {
				return nil, err
			}
		}
		return []string{strings.Join(items, ",")}, nil
	}
	return nil, lineError(value.Line, "%s: want a text or a number", strings.ReplaceAll(flag, "-", "_"))
}

// addCron reads a cron. It refuses whatever the server would refuse, as far as it can tell.
func (d *declarations) addCron(n *yaml.Node) (string, error) {
	c := declaredCron{line: n.Line, cron: &admin.Cron{}}
	c.flags = cronSettingsOf(c.cron)
	err := eachField(n, map[string]func(*yaml.Node) error{
		"name": func(n *yaml.Node) (err error) {
			c.cron.Name, err = scalar(n)
			return err
		},
		"tags": func(n *yaml.Node) error { return setField(c.flags, &yaml.Node{Value: "tag", Line: n.Line}, n) },
	}, func(name string, key, value *yaml.Node) error {
		if name == "tag" {
			key = &yaml.Node{Value: "tag-", Line: key.Line} // a list of them is tags
		}
		return setField(c.flags, key, value)
	})
	if err != nil {
		return "", err
	}
	if err := c.check(); err != nil {
		return "", lineError(c.line, "cron %s: %v", c.cron.Name, err)
	}
	c.complete()
	d.crons = append(d.crons, c)
	return c.cron.Name, nil
}

func (c *declaredCron) check() error {
	one := c.cron
	if err := task.CheckName("cron", one.Name); err != nil {
		return err
	}
	if err := task.CheckName("lambda", one.Lambda); err != nil {
		return err
	}
	_, err := cron.Parse(cron.Config{
		Name: one.Name, Expression: one.Schedule, Zone: one.Zone, Start: one.Start, End: one.End, Jitter: one.Jitter,
		Gap: cron.Gap(one.Gap), Fold: cron.Fold(one.Fold),
	})
	if err == nil && one.CatchUp != catchUpAll && (one.CatchUpMax != 0 || one.CatchUpWithin != 0) {
		err = fmt.Errorf("catch_up_max and catch_up_within go with catch_up: all")
	}
	return err
}

// complete sets the defaults, as the server shows them.
func (c *declaredCron) complete() {
	one := c.cron
	orDefault(&one.Zone, "UTC")
	orDefault(&one.Gap, admin.GapShift)
	orDefault(&one.Fold, admin.FoldFirst)
	orDefault(&one.Overlap, admin.OverlapSkip)
	orDefault(&one.CatchUp, admin.CatchUpLast)
	if one.CatchUp == catchUpAll {
		orDefault(&one.CatchUpMax, 1000)
		orDefault(&one.CatchUpWithin, day)
	}
	one.Schedule = strings.TrimSpace(one.Schedule)
	for _, t := range []*time.Time{&one.Start, &one.End} {
		*t = t.UTC()
	}
}

func orDefault[T comparable](setting *T, value T) {
	if *setting == *new(T) {
		*setting = value
	}
}

func (d *declarations) addLambda(n *yaml.Node) (string, error) {
	l := declaredLambda{line: n.Line, info: &admin.Lambda{}}
	l.flags = lambdaSettings(l.info)
	err := eachField(n, map[string]func(*yaml.Node) error{
		"name": func(n *yaml.Node) (err error) {
			l.info.Name, err = scalar(n)
			return err
		},
	}, func(_ string, key, value *yaml.Node) error { return setField(l.flags, key, value) })
	if err != nil {
		return "", err
	}
	if err := task.CheckName("lambda", l.info.Name); err != nil {
		return "", lineError(l.line, "%v", err)
	}
	if err := checkLambda(l.info); err != nil {
		return "", lineError(l.line, "lambda %s: %v", l.info.Name, err)
	}
	d.lambdas = append(d.lambdas, l)
	return l.info.Name, nil
}

// payloadValue is a flag with a payload.
type payloadValue struct{ payload *[]byte }

func (v payloadValue) String() string {
	if v.payload == nil {
		return ""
	}
	return string(*v.payload)
}

func (payloadValue) Type() string { return "text" }

func (v payloadValue) Set(text string) error {
	*v.payload = []byte(text)
	return nil
}

// listValue is a flag with names, separated by commas.
type listValue struct{ names *[]string }

func (v listValue) String() string {
	if v.names == nil {
		return ""
	}
	return strings.Join(*v.names, ",")
}

func (listValue) Type() string { return "names" }

func (v listValue) Set(text string) error {
	if *v.names = splitList(text); len(*v.names) == 0 {
		return fmt.Errorf("want names, such as [high, normal, low]")
	}
	return nil
}
