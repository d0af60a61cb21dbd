package cli

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md")

const (
	cliPage  = "../../../docs/reference/cli.md"
	cliIntro = `# Commands and flags

<!-- make docs/cli writes this page. Change the help of the commands instead. -->

All commands of ` + "`kinesin`" + ` with their flags, as ` + "`kinesin COMMAND --help`" + ` has them. [The guide](cli-guide.md) says what
they do and print.

Exit codes: 0 done, 1 failed or refused by the server, 2 bad usage, 3 environment misconfigured (AWS, Kubernetes or this
machine's clock). Below are the commands that say more about theirs.

A flag with a variable (` + "`KINESIN_…`" + `) is a [setting](cli-guide.md#settings), which the environment and the configuration
file may have as well.

## Flags of many commands

All commands have ` + "`--help` and `--config`" + `, those with a result ` + "`--output`" + `, those that list or show something on a server
` + "`--watch`" + `, and those that call a server the others of these.
`
)

// TestCommandsPage compares docs/reference/cli.md with the tree of commands.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	root, common := (&app{}).root(), pflag.NewFlagSet("", pflag.ContinueOnError)
	(&app{}).conn.AddTo(common)
	(&app{}).outputFlag(common)
	watchFlag(common)
	common.AddFlagSet(root.PersistentFlags())
	p := &page{common: common}
	p.WriteString(cliIntro)
	common.VisitAll(func(f *pflag.Flag) { p.flag("", f) })
	p.flags(false)
	for _, c := range root.Commands() {
		if !c.Hidden {
			p.section(c)
		}
	}
	have, err := os.ReadFile(cliPage)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(cliPage, []byte(p.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if p.String() != string(have) {
		t.Errorf("%s has other commands or flags than the program: make docs/cli", cliPage)
	}
}

// page is a page of commands as Markdown.
type page struct {
	strings.Builder
	common *pflag.FlagSet // of many commands, so they are left out of each
	rows   []flagRow      // of the section that is written
}

// flagRow is a flag of one command of a noun, or of several that describe it alike.
type flagRow struct{ name, flag, of, value, text string }

// section writes a command of the first level with all below it.
func (p *page) section(c *cobra.Command) {
	fmt.Fprintf(p, "\n## %s\n\n%s.\n\n", c.CommandPath(), markdown(c.Short))
	if c.HasSubCommands() {
		p.WriteString("| command | |\n|---|---|\n")
	}
	p.command(c, c.Name())
	p.flags(c.HasSubCommands())
}

// command writes a command, and those below it as rows of a table. of is its name in the section.
func (p *page) command(c *cobra.Command, of string) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if same := p.common.Lookup(f.Name); !f.Hidden && f.Name != "help" && (same == nil || same.Usage != f.Usage) {
			p.flag(of, f)
		}
	})
	usage, exits := strings.TrimSuffix(c.UseLine(), " [flags]"), strings.Join(exitCodes(c.Long), " ")
	switch isNoun := c.HasSubCommands(); {
	case !isNoun && !c.Parent().HasParent():
		fmt.Fprintf(p, "```\n%s\n```\n", strings.ReplaceAll(usage, "\n  ", "\n"))
		if exits != "" {
			fmt.Fprintf(p, "\n%s\n", exits)
		}
	case !isNoun:
		usage = strings.ReplaceAll(strings.ReplaceAll(usage, "\n  ", "` or `"), "|", `\|`)
		fmt.Fprintf(p, "| `%s` | %s |\n", usage, strings.TrimSpace(markdown(c.Short)+". "+exits))
	}
	for _, below := range c.Commands() {
		name := below.Name()
		if c.Parent().HasParent() {
			name = of + " " + name
		}
		if !below.Hidden {
			p.command(below, name)
		}
	}
}

// flag remembers a flag for the table of the section.
func (p *page) flag(of string, f *pflag.Flag) {
	name, usage := pflag.UnquoteUsage(f)
	r := flagRow{name: f.Name, flag: "`" + strings.TrimSpace("--"+f.Name+" "+name) + "`", of: of, text: markdown(usage)}
	if f.Shorthand != "" {
		r.flag = "`-" + f.Shorthand + "`, " + r.flag
	}
	if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		r.value = "`" + f.DefValue + "`"
	}
	for i := range p.rows {
		if had := &p.rows[i]; had.flag == r.flag && had.value == r.value && had.text == r.text {
			had.of += ", " + of
			return
		}
	}
	p.rows = append(p.rows, r)
}

// flags writes the table of the flags that were remembered, of a noun with a column for its commands.
func (p *page) flags(ofNoun bool) {
	if len(p.rows) == 0 {
		return
	}
	slices.SortStableFunc(p.rows, func(a, b flagRow) int { return cmp.Compare(a.name, b.name) })
	if ofNoun {
		p.WriteString("\n| flag | of | default | |\n|---|---|---|---|\n")
	} else {
		p.WriteString("\n| flag | default | |\n|---|---|---|\n")
	}
	for _, r := range p.rows {
		if ofNoun {
			fmt.Fprintf(p, "| %s | %s | %s | %s |\n", r.flag, r.of, r.value, r.text)
		} else {
			fmt.Fprintf(p, "| %s | %s | %s |\n", r.flag, r.value, r.text)
		}
	}
	p.rows = nil
}

// exitCodes returns the sentences of a help text that tell exit codes.
func exitCodes(long string) (all []string) {
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		for _, s := range regexp.MustCompile(`(?:[^.]|\.\S)*\b[Ee]xit [0-9](?:[^.]|\.\S)*\.?`).FindAllString(strings.ReplaceAll(paragraph, "\n", " "), -1) {
			all = append(all, markdown(strings.TrimSpace(s)))
		}
	}
	return all
}

// markdown escapes what means something in a table.
func markdown(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}
