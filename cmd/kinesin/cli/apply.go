package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/sdk"
)

// The actions of apply on a lambda or a cron.
const (
	applyCreate    = "create"
	applyUpdate    = "update"
	applyUnchanged = "unchanged"
	applyDelete    = "delete"
	applyKeep      = "keep" // it is of the set, not in the file, and nothing is pruned
)

func (a *app) applyCommand() *cobra.Command {
	var file string
	var dryRun, prune bool
	c := &cobra.Command{
		Use:   "apply -f FILE [--dry-run] [--prune]",
		Short: "Make crons and lambdas as a file declares them",
		Long: `Compares the crons and lambdas that a YAML file declares with those of the server, creates and updates what differs, and prints a line
for each: create, update with what changes, or unchanged. All is checked before anything is changed. Applied again, it changes nothing.

A cron that apply made or updated is managed by the file's set: the name in the file, or else that of the file without its ending. With
--prune, crons of the set that the file has no more are deleted; crons of other sets and of none are left alone, and so are lambdas.
A cron of another set is refused. docs/cron.md describes the file.

Exit 2 for a file that cannot be read, with the line; 1 when something is refused.`,
		Example: `  kinesin apply -f schedules.yaml --dry-run
  kinesin apply -f schedules.yaml --prune`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVarP(&file, "file", "f", "", "`FILE` with declarations, - for stdin")
	f.BoolVar(&dryRun, "dry-run", false, "only print what would change")
	f.BoolVar(&prune, "prune", false, "delete crons of the set that the file does not have")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		declared, err := a.readDeclarations(file)
		if err != nil {
			return err
		}
		p := &applying{app: a, client: k, declared: declared}
		if err := p.plan(ctx, prune); err != nil {
			return err
		}
		if !dryRun {
			p.execute(ctx)
		}
		return p.print(dryRun)
	})
}

func (a *app) readDeclarations(file string) (*declarations, error) {
	var data []byte
	var err error
	switch file {
	case "":
		return nil, usagef("-f is missing: it names the file, - for stdin")
	case "-":
		data, err = io.ReadAll(io.LimitReader(a.Stdin, applyBytesMax+1))
		if len(data) > applyBytesMax {
			err = fmt.Errorf("stdin is longer than %d bytes", applyBytesMax)
		}
	default:
		data, err = readAtMost(file, applyBytesMax)
	}
	if err != nil {
		return nil, usagef("%v", err)
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if file == "-" {
		name = ""
	}
	d, err := parseDeclarations(data, name)
	if err != nil {
		return nil, usagef("%s: %v", file, err)
	}
	return d, nil
}

// applying is a run of apply.
type applying struct {
	*app

	client   *sdk.Client
	declared *declarations
	changes  []*change
}

// change is what is done with a lambda or a cron.
type change struct {
	Action  string          `json:"action"`
	Kind    string          `json:"kind"`
	Name    string          `json:"name"`
	Changes []settingChange `json:"changes,omitempty"`
	refusal

	do func(ctx context.Context) error
}

// settingChange is a setting that differs.
type settingChange struct {
	Setting string `json:"setting"`
	From    string `json:"from"` // empty of payloads
	To      string `json:"to"`
}

// plan says what is to be done, and refuses it all if a part is refused.
func (p *applying) plan(ctx context.Context, prune bool) error {
	known := map[string]bool{}
	for i := range p.declared.lambdas {
		l := &p.declared.lambdas[i]
		known[l.info.Name] = true
		if err := p.planLambda(ctx, l); err != nil {
			return err
		}
	}
	all, err := p.client.Crons(ctx, "")
	if err != nil {
		return err
	}
	there := make(map[string]*sdk.Cron, len(all))
	for i := range all {
		there[all[i].Name] = &all[i]
	}
	for i := range p.declared.crons {
		c := &p.declared.crons[i]
		if !known[c.cron.Lambda] {
			if _, err := p.client.GetLambda(ctx, c.cron.Lambda); err != nil {
				return fmt.Errorf("line %d: cron %s: %w", c.line, c.cron.Name, err)
			}
			known[c.cron.Lambda] = true
		}
		if err := p.planCron(ctx, c, there[c.cron.Name]); err != nil {
			return err
		}
		delete(there, c.cron.Name)
	}
	p.planRest(there, prune)
	return nil
}

func (p *applying) planLambda(ctx context.Context, l *declaredLambda) error {
	one := &change{Action: applyUnchanged, Kind: kindLambda, Name: l.info.Name}
	p.changes = append(p.changes, one)
	now, err := p.client.GetLambda(ctx, l.info.Name)
	if errors.Is(err, sdk.ErrUnknownLambda) || errors.Is(err, sdk.ErrNotFound) {
		one.Action = applyCreate
		one.do = func(ctx context.Context) error {
			_, _, err := p.client.CreateLambda(ctx, *l.info)
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	have := sdk.LambdaInfo{}
	flags := lambdaSettings(&have)
	have = now
	one.Changes = slices.DeleteFunc(differing(l.flags, flags, l.flags.Changed), func(c settingChange) bool { return c.isUnset(&now) })
	for _, c := range one.Changes {
		if c.Setting == "mode" || c.Setting == "priorities" {
			return lineError(l.line, "lambda %s has %s %s, and that cannot change: want another name", l.info.Name, c.Setting, c.From)
		}
	}
	if len(one.Changes) > 0 {
		one.Action = applyUpdate
		wanted := *l.info
		wanted.Mode, wanted.Priorities = "", nil
		one.do = func(ctx context.Context) error {
			_, err := p.client.UpdateLambda(ctx, wanted)
			return err
		}
	}
	return nil
}

// planCron compares a cron with the one of its name that is there; nil: there is none.
func (p *applying) planCron(ctx context.Context, c *declaredCron, there *sdk.Cron) error {
	one := &change{Action: applyCreate, Kind: kindCron, Name: c.cron.Name}
	p.changes = append(p.changes, one)
	if there == nil {
		one.do = func(ctx context.Context) error {
			_, _, err := p.client.CreateCron(ctx, *c.cron)
			return err
		}
		return nil
	}
	switch {
	case there.ManagedBy != "" && there.ManagedBy != p.declared.name:
		return lineError(c.line, "cron %s is managed by set %s, and this one is %s: take it out of the other file, and then of its set with `kinesin cron update %s --managed-by none`",
			c.cron.Name, there.ManagedBy, p.declared.name, c.cron.Name)
	case there.Lambda != c.cron.Lambda:
		return lineError(c.line, "cron %s is of lambda %s, and that cannot change to %s: want another name, or delete it before", c.cron.Name, there.Lambda, c.cron.Lambda)
	}
	now, err := p.client.Cron(ctx, c.cron.Name) // with its payload
	if err != nil {
		return err
	}
	have := sdk.Cron{}
	flags := cronSettingsOf(&have)
	have = now
	have.Start, have.End = have.Start.UTC(), have.End.UTC()
	one.Changes = differing(c.flags, flags, func(string) bool { return true })
	if now.ManagedBy != p.declared.name {
		one.Changes = append(one.Changes, settingChange{"managed_by", now.ManagedBy, p.declared.name})
	}
	if one.Action = applyUnchanged; len(one.Changes) > 0 {
		one.Action = applyUpdate
		wanted := *c.cron
		wanted.Version = now.Version
		one.do = func(ctx context.Context) error {
			_, err := p.client.UpdateCron(ctx, wanted)
			return err
		}
	}
	return nil
}

// planRest deletes, or keeps, what is of the set and not in the file.
func (p *applying) planRest(there map[string]*sdk.Cron, prune bool) {
	var names []string
	for name, c := range there {
		if c.ManagedBy == p.declared.name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		one := &change{Action: applyKeep, Kind: kindCron, Name: name}
		if prune {
			one.Action = applyDelete
			one.do = func(ctx context.Context) error { return p.client.DeleteCron(ctx, name) }
		}
		p.changes = append(p.changes, one)
	}
}

// differing returns the settings of which the wanted value is another one than that which there is.
func differing(wanted, have *pflag.FlagSet, matters func(flag string) bool) (all []settingChange) {
	wanted.VisitAll(func(f *pflag.Flag) {
		from, to := have.Lookup(f.Name).Value.String(), f.Value.String()
		differs := matters(f.Name) && from != to
		if f.Name == "payload" {
			from, to = "", "" // nobody's business who reads the output
		}
		if differs {
			all = append(all, settingChange{strings.ReplaceAll(f.Name, "-", "_"), from, to})
		}
	})
	return all
}

// execute makes the changes, all that it can.
func (p *applying) execute(ctx context.Context) {
	for _, c := range p.changes {
		if c.do == nil {
			continue
		}
		c.refusal = refusalOf(c.do(ctx))
	}
}

// print prints a line for each lambda and cron. Its error is errReported if one was refused.
func (p *applying) print(dryRun bool) error {
	failed, counts := 0, map[string]int{}
	for _, c := range p.changes {
		if counts[c.Action]++; c.Error != "" {
			failed++
		}
	}
	if p.json() {
		if err := printJSON(p.Stdout, slices.Concat([]*change{}, p.changes)); err != nil {
			return err
		}
	} else if err := p.printLines(); err != nil {
		return err
	}
	if counts[applyKeep] > 0 {
		p.note("%d crons of set %s are not in the file; --prune deletes them", counts[applyKeep], p.declared.name)
	}
	if dryRun && len(p.changes)-counts[applyUnchanged]-counts[applyKeep] > 0 {
		p.note("nothing was changed: --dry-run only says what would be")
	}
	if failed > 0 {
		p.note("%d of %d were refused; the others are as the file says", failed, len(p.changes))
		return errReported
	}
	return nil
}

func (p *applying) printLines() error {
	for _, c := range p.changes {
		line := c.Action + " " + c.Kind + " " + c.Name
		if len(c.Changes) > 0 {
			texts := make([]string, len(c.Changes))
			for i, s := range c.Changes {
				texts[i] = s.text()
			}
			line += ": " + strings.Join(texts, ", ")
		}
		if c.Error != "" {
			line += ": refused: " + c.Error
		}
		if err := p.printLine(line); err != nil {
			return err
		}
	}
	return nil
}

// isUnset reports whether a setting of a lambda is to be unset, by a word such as never, and is.
func (s settingChange) isUnset(now *sdk.LambdaInfo) bool {
	switch s.To {
	case "never", noneWord, "strict":
		return s.From == ""
	case "retention":
		return s.From == "" || now.KeyRetention == now.Retention
	}
	return false
}

// text returns a change of a setting for people.
func (s settingChange) text() string {
	if s.Setting == "payload" {
		return "payload"
	}
	return fmt.Sprintf("%s %s -> %s", s.Setting, cmp.Or(s.From, "none"), cmp.Or(s.To, "none"))
}
