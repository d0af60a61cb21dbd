package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// The actions of apply on what a file declares.
const (
	applyCreate    = "create"
	applyUpdate    = "update"
	applyUnchanged = "unchanged"
	applyDelete    = "delete"
	applyKeep      = "keep" // it is of the set, not in the file, and nothing is pruned
)

// applyMarks are what a line of the diff begins with.
var applyMarks = map[string]string{applyCreate: "+", applyUpdate: "~", applyDelete: "-", applyKeep: "keep"}

func (a *app) applyCommand() *cobra.Command {
	var file string
	var dryRun, prune bool
	c := &cobra.Command{
		Use:   "apply -f FILE [--dry-run] [--prune]",
		Short: "Make lambdas, quotas, objectives and crons as a file declares them",
		Long: `Creates and updates the lambdas, quotas, objectives and crons that a YAML file declares (docs/how-to/settings-in-a-file.md).
It prints a line for each difference: + for what it creates, ~ for what it changes, - for what it deletes; "no changes" if
there is none.

What apply makes or changes belongs to the file's set: the name in the file, or else that of the file without its ending.
--prune deletes what belongs to the set and is not in the file any more, but never a lambda. What belongs to another set or
is registered by Terraform is refused.

Exit 2 for a file that cannot be read, with the line; 1 when something is refused.`,
		Example: `  kinesin apply -f schedules.yaml --dry-run
  kinesin apply -f schedules.yaml --prune`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVarP(&file, "file", "f", "", "`FILE` with declarations, - for stdin")
	f.BoolVar(&dryRun, "dry-run", false, "only print what would change")
	f.BoolVar(&prune, "prune", false, "delete what is of the set and the file does not have; never lambdas")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		declared, err := a.readDeclarations(file)
		if err != nil {
			return err
		}
		p := &applying{app: a, admin: admin.New(k), declared: declared}
		if err := p.plan(ctx, prune); err != nil {
			return fmt.Errorf("%s: %w", file, err)
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
		a.readsStdin()
		data, err = io.ReadAll(io.LimitReader(a.Stdin, applyBytesMax+1))
		if len(data) > applyBytesMax {
			err = fmt.Errorf("stdin is longer than %d bytes", applyBytesMax)
		}
	default:
		data, err = settings.ReadAtMost(file, applyBytesMax)
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
	d.file = file
	return d, nil
}

// applying is a run of apply.
type applying struct {
	*app

	admin    *admin.Client
	declared *declarations
	known    map[string][]string // priorities of lambdas that are there, or will be
	coming   map[string]bool     // lambdas that are not there yet
	changes  []*change
}

// change is what is done with one thing.
type change struct {
	Action  string           `json:"action"`
	Kind    string           `json:"kind"`
	Name    string           `json:"name"`
	Line    int              `json:"line,omitempty"` // in the file
	Changes []settingChange  `json:"changes,omitempty"`
	Problem *api.HTTPProblem `json:"problem,omitempty"`

	do func(ctx context.Context) error
}

// settingChange is a setting that differs.
type settingChange struct {
	Setting string `json:"setting"`
	From    string `json:"from"` // empty of payloads
	To      string `json:"to"`
}

// differing returns the fields, of those with a name, of which the wanted value is another one than that which there is.
func differing(wanted, have proto.Message, names []string) (all []settingChange) {
	to, from := fieldTexts(wanted), fieldTexts(have)
	fields := wanted.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		switch name := string(fields.Get(i).Name()); {
		case !slices.Contains(names, name) || from[name] == to[name]:
		case name == "payload": // nobody's business who reads the output
			all = append(all, settingChange{Setting: name})
		default:
			all = append(all, settingChange{name, from[name], to[name]})
		}
	}
	return all
}

// fieldTexts returns the fields of a message that are set as in JSON, but texts without quotes.
func fieldTexts(m proto.Message) map[string]string {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(jsonform.Append(nil, m), &members) // which Append has encoded
	texts := map[string]string{}
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		var text string
		switch name := string(f.Name()); {
		case f.Kind() == protoreflect.BytesKind:
			texts[name] = string(v.Bytes())
		case json.Unmarshal(members[name], &text) == nil:
			texts[name] = text
		default:
			texts[name] = string(members[name])
		}
		return true
	})
	return texts
}

// execute makes the changes, all that it can.
func (p *applying) execute(ctx context.Context) {
	for _, c := range p.changes {
		if c.do == nil {
			continue
		}
		c.Problem = httpProblemOf(c.do(ctx))
	}
}

// print prints a line for each thing that changes. Its error is errReported if one was refused.
func (p *applying) print(dryRun bool) error {
	failed, counts := 0, map[string]int{}
	for _, c := range p.changes {
		if counts[c.Action]++; c.Problem != nil {
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
		p.note("%d of set %s are not in the file; --prune deletes them", counts[applyKeep], p.declared.name)
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

// printLines prints the diff.
func (p *applying) printLines() error {
	changed := false
	for _, c := range p.changes {
		if c.Action == applyUnchanged {
			continue
		}
		changed = changed || c.Action != applyKeep
		line := applyMarks[c.Action] + " " + c.Kind + " " + c.Name
		if len(c.Changes) > 0 {
			texts := make([]string, len(c.Changes))
			for i, s := range c.Changes {
				texts[i] = s.text()
			}
			line += ": " + strings.Join(texts, ", ")
		}
		if c.Problem != nil {
			line += ": refused"
			if c.Line > 0 {
				line += fmt.Sprintf(" (%s: line %d)", p.declared.file, c.Line)
			}
			line += ": " + c.Problem.Detail
		}
		if err := p.printLine(line); err != nil {
			return err
		}
	}
	if !changed {
		return p.printLine("no changes")
	}
	return nil
}

// text returns a change of a setting for people.
func (s settingChange) text() string {
	if s.Setting == "payload" {
		return "payload"
	}
	return fmt.Sprintf("%s %s -> %s", s.Setting, cmp.Or(s.From, "none"), cmp.Or(s.To, "none"))
}
